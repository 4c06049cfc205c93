package upstreamtest

import (
	"encoding/binary"
	"hash/crc32"
)

// eventStreamType is Amazon's binary framing of a stream.
const eventStreamType = "application/vnd.amazon.eventstream"

// frame is one message of application/vnd.amazon.eventstream: a prelude (length
// of the message, length of its headers, CRC of these two), the headers, the
// payload, and a CRC of all of it. Numbers are big endian.
func frame(headers []field, payload string) []byte {
	const prelude, crc, textType = 12, 4, 7
	var h []byte
	for _, f := range headers {
		h = append(append(h, byte(len(f.name))), f.name...)
		h = binary.BigEndian.AppendUint16(append(h, textType), uint16(len(f.value)))
		h = append(h, f.value...)
	}
	size := prelude + len(h) + len(payload) + crc
	b := make([]byte, 0, size)
	b = binary.BigEndian.AppendUint32(b, uint32(size))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// eventFrame is an event of this type with a JSON payload.
func eventFrame(eventType, payload string) []byte {
	return frame([]field{{":event-type", eventType}, {":content-type", jsonType}, {":message-type", "event"}}, payload)
}

// exceptionFrame is an exception that the service's model of the stream knows.
func exceptionFrame(name, message string) []byte {
	return frame([]field{{":exception-type", name}, {":content-type", jsonType}, {":message-type", "exception"}},
		`{"message":`+quote(message)+`}`)
}

// errorFrame is an error that the service's model of the stream does not know.
func errorFrame(code, message string) []byte {
	return frame([]field{{":error-code", code}, {":error-message", message}, {":message-type", "error"}}, "")
}
