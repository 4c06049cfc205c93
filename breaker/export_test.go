package breaker

// SetMost sets a limit of models that a random schedule reaches at once.
func (m *Map) SetMost(n int) { m.most = n }

// SetMost sets a limit of models that a random schedule reaches at once.
func (h *Holds) SetMost(n int) { h.most = n }
