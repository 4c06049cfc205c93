package breaker

// defaultFailures is what a nil [Policy.FailureOnStatuses] stands for.
var defaultFailures = []string{"429", "5xx"}

// statusSet holds statuses 100 to 599, a bit each.
type statusSet [8]uint64

func (s *statusSet) has(status int) bool {
	i := status - 100
	return i >= 0 && i < 500 && s[i/64]&(1<<(i%64)) != 0
}

func (s *statusSet) add(status int) {
	i := status - 100
	s[i/64] |= 1 << (i % 64)
}

// addWord adds a code or a class and reports whether it was one.
func (s *statusSet) addWord(w string) bool {
	if len(w) != 3 || w[0] < '1' || w[0] > '5' {
		return false
	}
	first := int(w[0]-'0') * 100
	if w[1:] == "xx" {
		for i := range 100 {
			s.add(first + i)
		}
		return true
	}
	if w[1] < '0' || w[1] > '9' || w[2] < '0' || w[2] > '9' {
		return false
	}
	s.add(first + int(w[1]-'0')*10 + int(w[2]-'0'))
	return true
}

// compileStatuses leaves out what [Policy.Validate] refuses.
func compileStatuses(list []string) (s statusSet) {
	if list == nil {
		list = defaultFailures
	}
	for _, w := range list {
		s.addWord(w)
	}
	return s
}
