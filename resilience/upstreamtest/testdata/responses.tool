event: response.created
data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_4","object":"response","created_at":1700000000,"status":"in_progress","error":null,"incomplete_details":null,"model":"m","output":[],"usage":null}}

event: response.in_progress
data: {"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_4","object":"response","created_at":1700000000,"status":"in_progress","error":null,"incomplete_details":null,"model":"m","output":[],"usage":null}}

event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"fc_4","type":"function_call","status":"in_progress","call_id":"call_4","name":"f","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":3,"item_id":"fc_4","output_index":0,"delta":"{\"a"}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":4,"item_id":"fc_4","output_index":0,"delta":"\":1}"}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":5,"item_id":"fc_4","output_index":0,"arguments":"{\"a\":1}"}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":6,"output_index":0,"item":{"id":"fc_4","type":"function_call","status":"completed","call_id":"call_4","name":"f","arguments":"{\"a\":1}"}}

event: response.completed
data: {"type":"response.completed","sequence_number":7,"response":{"id":"resp_4","object":"response","created_at":1700000000,"status":"completed","error":null,"incomplete_details":null,"model":"m","output":[{"id":"fc_4","type":"function_call","status":"completed","call_id":"call_4","name":"f","arguments":"{\"a\":1}"}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}

