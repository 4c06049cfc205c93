package resilience

import "context"

// ModelOf returns the model that [WithModel] named, "" if it was not used.
func ModelOf(ctx context.Context) string { return modelOf(ctx) }
