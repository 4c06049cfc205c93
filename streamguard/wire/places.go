package wire

// The places where an error, or a mark of a large event, may stand.
const (
	nError node = root + 1 + iota
	nErrorCode
	nErrorType
	nErrorStatus
	nErrorMessage
	nErrorKind
	nErrorMeta
	nErrorMetaKind
	nErrorMetaCode
	nErrorAvail
	nWish
	nMetaHeaders
	nMetaReset
	nMetaRemaining
	nDetails
	nDetail
	nViolations
	nViolation
	nQuotaID
	nCode
	nType
	nStatus
	nObject
	nMessage
	nErrorNumber
	nSuccess
	nFree
	nFreeItem
	nErrors
	nErrorsItem
	nBaseResp
	nBaseCode
	nBaseMessage
	nTencent
	nTencentError
	nTencentCode
	nTencentMessage
	nHeader
	nHeaderCode
	nHeaderMessage
	nResponse
	nResponseError
	nResponseErrorCode
	nResponseErrorType
	nResponseErrorMessage
	nResponseStatus
	nSequence
	nChoices
	nChoice
	nChoiceIndex
	nChoiceFinish
	nChoiceError
	nDelta
	nStopReason
	nCandidates
	nCandidate
	nCandidateIndex
	nCandidateFinish
	nFeedback
	nBlockReason
	nDone
	nStop
	nDoneReason
	nDeltaFinish
	nDeltaError
	nEventType
	nInteraction
	nInteractionStatus
	nMetrics
	nOutput
	nOutputFinish
	nOutputText
	nOutputChoices
	nOutputChoice
	nOutputIndex
	nGroq
	nException
	nCoral
	nCoralException
	nStatusDetails
	nIncomplete
	nUsage
	nUsageMetadata
	nID
)

// problemEdges lead to every place in the error bodies of OpenAI, Anthropic,
// Google (google.rpc.Status), OpenRouter, FastAPI, Cloudflare, MiniMax, Baidu,
// Zhipu, DashScope, Tencent and Xunfei.
var problemEdges = []edge{
	{root, elements, root}, // Google's array form
	{root, "error", nError},
	{nError, "code", nErrorCode}, {nError, "type", nErrorType}, {nError, "status", nErrorStatus},
	{nError, "message", nErrorMessage}, {nError, "error_type", nErrorKind},
	{nError, "metadata", nErrorMeta},
	{nErrorMeta, "error_type", nErrorMetaKind}, {nErrorMeta, "provider_code", nErrorMetaCode},
	{nError, "availability", nErrorAvail}, {nErrorAvail, "retry_after", nWish},
	{nError, "details", nDetails}, {nDetails, elements, nDetail},
	{nDetail, "retryDelay", nWish}, {nDetail, "violations", nViolations},
	{nViolations, elements, nViolation}, {nViolation, "quotaId", nQuotaID},
	// Where a wait is named.
	{nError, "retry_after", nWish}, {nError, "resets_in_seconds", nWish}, {nError, "resets_at", nWish},
	{root, "retry_after", nWish}, {root, "resets_in_seconds", nWish}, {root, "resets_at", nWish},
	{nFree, "retry_after", nWish}, {nErrorMeta, "retry_after", nWish}, {nErrorMeta, "retry_after_seconds", nWish},
	{nErrorMeta, "headers", nMetaHeaders},
	{nMetaHeaders, "Retry-After", nWish}, {nMetaHeaders, "retry-after", nWish},
	{nMetaHeaders, "X-RateLimit-Reset", nMetaReset}, {nMetaHeaders, "x-ratelimit-reset", nMetaReset},
	{nMetaHeaders, "X-RateLimit-Remaining", nMetaRemaining}, {nMetaHeaders, "x-ratelimit-remaining", nMetaRemaining},
	{root, "code", nCode}, {root, "type", nType}, {root, "status", nStatus}, {root, "status_code", nStatus},
	{root, "statusCode", nStatus}, {nError, "status_code", nErrorStatus}, {nError, "statusCode", nErrorStatus},
	{nError, "error", nError}, {nFree, "error", nError}, // wrapped once more
	{root, "error_type", nType},
	{root, "object", nObject}, {root, "success", nSuccess},
	{root, "message", nMessage}, {root, "msg", nMessage}, {root, "err", nMessage}, {root, "error_msg", nMessage},
	{root, "error_code", nErrorNumber},
	{root, "detail", nFree}, {nFree, "code", nErrorCode}, {nFree, "type", nErrorType}, {nFree, "message", nErrorMessage},
	{nFree, elements, nFreeItem}, {nFreeItem, "msg", nErrorMessage},
	{root, "errors", nErrors}, {nErrors, elements, nErrorsItem},
	{nErrorsItem, "code", nErrorCode}, {nErrorsItem, "message", nErrorMessage},
	{root, "base_resp", nBaseResp}, {nBaseResp, "status_code", nBaseCode}, {nBaseResp, "status_msg", nBaseMessage},
	{root, "Response", nTencent}, {nTencent, "Error", nTencentError},
	{nTencentError, "Code", nTencentCode}, {nTencentError, "Message", nTencentMessage},
	{root, "header", nHeader}, {nHeader, "code", nHeaderCode}, {nHeader, "message", nHeaderMessage},
	{root, "response", nResponse}, {nResponse, "error", nResponseError}, {nResponse, "status", nResponseStatus},
	{nResponseError, "code", nResponseErrorCode}, {nResponseError, "type", nResponseErrorType},
	{nResponseError, "message", nResponseErrorMessage},
	{root, "sequence_number", nSequence},
	{root, "choices", nChoices}, {nChoices, elements, nChoice},
	{nChoice, "index", nChoiceIndex}, {nChoice, "finish_reason", nChoiceFinish}, {nChoice, "error", nChoiceError},
	{nChoiceError, "code", nErrorCode}, {nChoiceError, "type", nErrorType}, {nChoiceError, "message", nErrorMessage},
	{nChoiceError, "status", nErrorStatus}, {nChoiceError, "error_type", nErrorKind},
	{root, "delta", nDelta}, {nDelta, "stop_reason", nStopReason},
	// Gemini.
	{root, "candidates", nCandidates}, {nCandidates, elements, nCandidate},
	{nCandidate, "index", nCandidateIndex}, {nCandidate, "finishReason", nCandidateFinish},
	{root, "promptFeedback", nFeedback}, {nFeedback, "blockReason", nBlockReason},
	// Ollama; its response is text, its message an object.
	{root, "id", nID}, {root, "usage", nUsage}, {root, "usageMetadata", nUsageMetadata},
	{root, "done", nDone}, {root, "done_reason", nDoneReason},
	{root, "stop", nStop}, {root, "is_end", nStop},
	// Bedrock; Nova's end.
	{root, "amazon-bedrock-invocationMetrics", nMetrics}, {root, "messageStop", nMetrics},
	// AWS, where a service answers for itself.
	{root, "__type", nException}, {root, "Message", nMessage},
	{root, "Output", nCoral}, {nCoral, "__type", nCoralException}, {nCoral, "message", nErrorMessage}, {nCoral, "Message", nErrorMessage},
	// Where details stand beside "error": null.
	{root, "last_error", nResponseError}, {nResponse, "last_error", nResponseError},
	{root, "status_details", nStatusDetails}, {nResponse, "status_details", nStatusDetails}, {nStatusDetails, "error", nResponseError},
	{root, "incomplete_details", nIncomplete}, {nResponse, "incomplete_details", nIncomplete}, {nIncomplete, "reason", nErrorKind},
	{root, "x_groq", nGroq}, {nGroq, "error", nError},
	// DashScope.
	{root, "output", nOutput}, {nOutput, "finish_reason", nOutputFinish}, {nOutput, "text", nOutputText},
	{nOutput, "choices", nOutputChoices}, {nOutputChoices, elements, nOutputChoice},
	{nOutputChoice, "index", nOutputIndex}, {nOutputChoice, "finish_reason", nOutputFinish},
	// Cohere; Google's Interactions.
	{nDelta, "finish_reason", nDeltaFinish}, {nDelta, "error", nDeltaError},
	{root, "event_type", nEventType},
	{root, "interaction", nInteraction}, {nInteraction, "status", nInteractionStatus}, {nInteraction, "error", nResponseError},
}
