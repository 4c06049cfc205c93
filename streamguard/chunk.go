package streamguard

const (
	// maxEvent is the largest event that is held whole; a larger one flows
	// through. It also bounds what is held back before a stream shows itself.
	maxEvent = 64 << 10
	// chunkSize is where a buffer starts.
	chunkSize = 4 << 10
	// maxChunk is the largest buffer that is kept for other streams.
	maxChunk = 2 * maxEvent
	// directSize is the smallest buffer of a caller that is read into directly.
	directSize = 1 << 10
)

// A chunk holds what was read and not yet handed out:
//
//	b[off:judged]  may be handed out
//	b[judged:]     not judged yet, usually the start of an event
//
// A stream has one only while there is such data, so that an idle one costs no
// buffer.
type chunk struct {
	b           []byte
	off, judged int
	gap         int // bytes at judged that are left out, see leave
}

// room makes place for at least min more bytes and returns the free part.
func (c *chunk) room(min int) []byte {
	if c.off > 0 {
		n := copy(c.b, c.b[c.off:])
		c.b, c.judged, c.off = c.b[:n], c.judged-c.off, 0
	}
	if cap(c.b)-len(c.b) < min {
		size := max(4*cap(c.b), chunkSize)
		if size > maxChunk {
			size = max(maxChunk, 2*len(c.b))
		}
		grown := make([]byte, len(c.b), max(size, len(c.b)+min))
		copy(grown, c.b)
		c.b = grown
	}
	return c.b[len(c.b):cap(c.b)]
}

// add puts bytes that may be handed out behind all that there is.
func (c *chunk) add(b []byte) {
	c.b = append(c.b, b...)
	c.judged = len(c.b)
}

// cut drops what is not judged.
func (c *chunk) cut() { c.b = c.b[:c.judged] }

// leave leaves out the next n bytes. They go with close, all at once: to move
// what follows for each of a thousand comments would take its square.
func (c *chunk) leave(n int) { c.gap += n }

// close takes out what is left out.
func (c *chunk) close() {
	if c.gap > 0 {
		c.b = append(c.b[:c.judged], c.b[c.judged+c.gap:]...)
		c.gap = 0
	}
}
