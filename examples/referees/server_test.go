package referees_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// The answers of aimock: a text that takes more than deepestCut chunks, and a
// tool call that takes fewer, so that some cuts fall near its end.
const (
	sentence = "The river bends twice before the mill, and every stone below it was once part of a wall; " +
		"whoever walks there at dusk still hears the wheel and smells the flour."
	toolName = "book_a_boat"
	toolNote = "two adults and a dog, from the landing to the ferry"
)

const (
	chunkSize = "8" // characters
	// latency keeps the chunks apart, in milliseconds: a server that writes and
	// cuts at once loses what it has written.
	latency = 1
)

// deepestCut is the largest number of chunks after which a stream is cut.
const deepestCut = 15

var (
	setup      sync.Once
	entryPoint = filepath.Join("node_modules", "@copilotkit", "aimock", "dist", "cli.js")
	ownNode    = filepath.Join("node_modules", ".bin", "node") // where the system's is too old
	listening  = regexp.MustCompile(`listening on (http://\S+)`)
)

// install installs what is missing of the server and of Node.js, and returns the
// Node.js to run it with.
func install(t *testing.T) (node string) {
	setup.Do(func() {
		out, err := exec.CommandContext(t.Context(), "./setup.sh").CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	if _, err := os.Stat(ownNode); err == nil {
		return ownNode
	}
	return "node"
}

// aimock starts the server and returns its URL.
func aimock(t *testing.T) string {
	cmd := exec.CommandContext(t.Context(), install(t), entryPoint, "--port", "0", "--chunk-size", chunkSize, "--strict", "--fixtures", fixtures(t))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // t.Context has ended it already
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	said := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said += lines.Text() + "\n"
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			go io.Copy(io.Discard, out) //nolint:errcheck // ends with the process
			return m[1]
		}
	}
	require.Fail(t, "aimock did not start", said)
	return ""
}

// answer is what the fixtures answer with.
type answer string

const (
	text answer = "text"
	tool answer = "tool"
)

// prompt is the user message that is answered so, cut after so many chunks.
func prompt(a answer, cut int) string { return fmt.Sprintf("[%s-%02d]", a, cut) }

// fixtures writes aimock's configuration: an answer for each prompt.
func fixtures(t *testing.T) string {
	responses := map[answer]any{
		text: map[string]any{"content": sentence},
		tool: map[string]any{"toolCalls": []any{map[string]any{"name": toolName, "arguments": map[string]any{"note": toolNote, "hours": 2}}}},
	}
	var list []any
	for a, response := range responses {
		for cut := range deepestCut + 1 {
			f := map[string]any{"match": map[string]any{"userMessage": prompt(a, cut)}, "response": response}
			if cut > 0 {
				f["truncateAfterChunks"], f["latency"] = cut, latency
			}
			list = append(list, f)
		}
	}
	data, err := json.Marshal(map[string]any{"fixtures": list})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "fixtures.json")
	require.NoError(t, os.WriteFile(file, data, 0o600))
	return file
}
