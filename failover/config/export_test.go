package config

// Kept is how many chains are kept for models that requests named.
func Kept(a *Assembly) int {
	a.direct.mu.Lock()
	defer a.direct.mu.Unlock()
	return len(a.direct.chains)
}
