package resilience_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has the collector begin earlier where bodies of many megabytes are
// about, which the race detector makes several times larger.
func TestMain(m *testing.M) {
	debug.SetMemoryLimit(300 << 20)
	os.Exit(m.Run())
}
