package wire

import "bytes"

// A binding is a set of formats in whose requests a value names something that
// only one account of the provider knows: an answer before, a file, a cache,
// reasoning that is sealed.
type binding uint8

const (
	bindsChat binding = 1 << iota
	bindsResponses
	bindsMessages
	bindsGemini
	bindsInteractions
	bindsBedrock
)

// A place is a value of a request's body that matters for its binding. What is
// at no place, such as the schema of a tool, is passed over unread.
type place struct {
	binds    binding // of a string here that is not empty
	has      string  // and that has this in it
	members  []placeMember
	known    uint64 // a bit for each name of a member, see nameBit
	elements *place
}

type placeMember struct {
	name string
	kind string // that the "type" beside it has to say; "" is any
	at   *place
}

// object returns a place with members.
func object(members ...placeMember) *place {
	p := &place{members: members}
	for _, m := range members {
		p.known |= nameBit([]byte(m.name))
	}
	return p
}

// or also lets the place be a string.
func (p *place) or(f binding) *place {
	p.binds = f
	return p
}

// list returns a place for an array.
func list(elements *place) *place { return &place{elements: elements} }

// nameBit is a bit that few names share, so that most members are passed over
// without a look through the table.
func nameBit(name []byte) uint64 {
	if len(name) == 0 {
		return 0
	}
	return 1 << ((uint(len(name))*5 + uint(name[0]) + uint(name[len(name)-1])*3) & 63)
}

// maxPlaces is how many members a place may have.
const maxPlaces = 12

// dummySignature is what Google documents for calls that come from elsewhere.
const dummySignature = `"skip_thought_signature_validator"`

// googleFile is in the address of a file that was uploaded to an account; other
// addresses are public, or name what their own permissions guard.
const googleFile = "generativelanguage.googleapis.com"

// boundPlaces are the documented positions, by vendor documentation of 2026.
var boundPlaces = object([]placeMember{
	{name: "previous_response_id", at: names(bindsResponses)},
	{name: "conversation", at: object(placeMember{name: "id", at: names(bindsResponses)}).or(bindsResponses)},
	{name: "prompt", at: object(placeMember{name: "id", at: names(bindsResponses)})},
	{name: "container", at: object(placeMember{name: "id", at: names(bindsMessages)}).or(bindsMessages)},
	{name: "previous_interaction_id", at: names(bindsInteractions)},
	{name: "cachedContent", at: names(bindsGemini)},
	{name: "cached_content", at: names(bindsGemini)},
	{name: "continuationToken", at: names(bindsGemini)},
	{name: "messages", at: list(message)},
	{name: "input", at: list(inputItem)},
	{name: "contents", at: list(object(placeMember{name: "parts", at: list(geminiPart)}))},
	{name: "tools", at: list(boundTool)},
}...)

// names is a place that a string binds.
func names(f binding) *place { return &place{binds: f} }

// message is one of Chat, Messages or Bedrock.
var message = object([]placeMember{
	{name: "audio", at: object(placeMember{name: "id", at: names(bindsChat)})},
	{name: "content", at: list(block)},
}...)

// block is a part of a message.
var block = object([]placeMember{
	{name: "file", kind: "file", at: object(placeMember{name: "file_id", at: names(bindsChat)})},
	{name: "source", at: source},
	{name: "file_id", kind: "container_upload", at: names(bindsMessages)},
	{name: "signature", kind: "thinking", at: names(bindsMessages)},
	{name: "data", kind: "redacted_thinking", at: names(bindsMessages)},
	{name: "content", kind: "tool_result", at: list(object(placeMember{name: "source", at: source}))},
	{name: "reasoningContent", at: object([]placeMember{
		{name: "reasoningText", at: object(placeMember{name: "signature", at: names(bindsBedrock)})},
		{name: "redactedContent", at: names(bindsBedrock)},
	}...)},
}...)

var source = object(placeMember{name: "file_id", kind: "file", at: names(bindsMessages)})

// inputItem is one of Responses or Interactions.
var inputItem = object([]placeMember{
	{name: "encrypted_content", kind: "reasoning", at: names(bindsResponses)},
	{name: "encrypted_content", kind: "compaction", at: names(bindsResponses)},
	{name: "id", kind: "item_reference", at: names(bindsResponses)},
	{name: "signature", kind: "thought", at: names(bindsInteractions)},
	{name: "content", at: list(inputPart)},
	{name: "output", at: toolOutput()},
	fileURI,
}...)

var (
	inputPart = object(fileID, fileURI)
	fileID    = placeMember{name: "file_id", at: names(bindsResponses)}
	fileURI   = placeMember{name: "uri", at: &place{binds: bindsInteractions, has: googleFile}}
)

// toolOutput is an object, a computer's, or a list.
func toolOutput() *place {
	p := object(fileID)
	p.elements = inputPart
	return p
}

var geminiPart = object([]placeMember{
	{name: "fileData", at: geminiFile},
	{name: "file_data", at: geminiFile},
	{name: "thoughtSignature", at: names(bindsGemini)},
	{name: "thought_signature", at: names(bindsGemini)},
}...)

var geminiFile = object([]placeMember{
	{name: "fileUri", at: &place{binds: bindsGemini, has: googleFile}},
	{name: "file_uri", at: &place{binds: bindsGemini, has: googleFile}},
}...)

var boundTool = object([]placeMember{
	{name: "container", kind: "code_interpreter", at: object(placeMember{name: "file_ids", at: list(names(bindsResponses))}).or(bindsResponses)},
	{name: "vector_store_ids", kind: "file_search", at: list(names(bindsResponses))},
	{name: "input_image_mask", kind: "image_generation", at: object(fileID)},
}...)

// member returns the place of the member name, nil for one that does not matter.
func (p *place) member(name []byte) *place {
	if p.known&nameBit(name) == 0 {
		return nil
	}
	for i := range p.members {
		if p.members[i].name == string(name) {
			return p.members[i].at
		}
	}
	return nil
}

// read returns what the value that begins at b[i] binds, and the index behind
// it, -1 if it cannot be followed. It ends where looseValue does.
func (p *place) read(b []byte, i int) (found binding, end int) {
	switch {
	case i >= len(b):
		return 0, -1
	case b[i] == '[' && p.elements != nil:
		return p.readList(b, i)
	case b[i] == '{' && p.members != nil:
		return p.readObject(b, i)
	}
	if end = looseValue(b, i); b[i] == '"' && end > i+2 {
		if v := b[i:end]; p.has == "" && string(v) != dummySignature || p.has != "" && bytes.Contains(v, []byte(p.has)) {
			found = p.binds
		}
	}
	return found, end
}

func (p *place) readList(b []byte, i int) (found binding, end int) {
	for i++; ; i = end {
		if i = skipCommas(b, i); i < len(b) && b[i] == ']' {
			return found, i + 1
		}
		var f binding
		if f, end = p.elements.read(b, i); end <= i {
			return 0, -1
		}
		found |= f
	}
}

func (p *place) readObject(b []byte, i int) (found binding, end int) {
	var (
		byMember [maxPlaces]binding
		all      binding
		kind     []byte // the type, with its quotes
	)
	for i++; ; i = end {
		if i = skipCommas(b, i); i < len(b) && b[i] == '}' {
			break
		}
		name, from := looseName(b, i)
		if from < 0 {
			return 0, -1
		}
		var f binding
		if at := p.member(name); at != nil {
			f, end = at.read(b, from)
		} else {
			end = looseValue(b, from)
		}
		if end <= from {
			return 0, -1
		}
		if string(name) == "type" {
			kind = b[from:end]
		}
		if f == 0 {
			continue
		}
		all |= f
		for m := range p.members {
			if p.members[m].name == string(name) {
				byMember[m] |= f
			}
		}
	}
	if all == 0 {
		return 0, i + 1
	}
	for m := range p.members {
		if want := p.members[m].kind; byMember[m] != 0 && (want == "" || len(kind) > 2 && want == string(kind[1:len(kind)-1])) {
			found |= byMember[m]
		}
	}
	return found, i + 1
}
