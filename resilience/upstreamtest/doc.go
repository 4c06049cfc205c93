// Package upstreamtest is a provider of language models that misbehaves on
// request, for tests.
package upstreamtest
