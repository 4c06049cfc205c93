package resilience_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every rule that code and tests cite stands in CONTRACT.md.
func TestCitedRulesExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("CONTRACT.md")
	require.NoError(t, err)
	rules := "\n" + string(text)
	cite := regexp.MustCompile(`\(?contract ((?:\d+(?:\.\d+)?)(?:(?:,| and) \d+(?:\.\d+)?)*)`)
	number := regexp.MustCompile(`\d+(?:\.\d+)?`)
	cited := 0
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range cite.FindAllStringSubmatch(string(source), -1) {
			for _, n := range number.FindAllString(m[1], -1) {
				cited++
				head := "\n## " + n + ". "
				if strings.Contains(n, ".") {
					head = "\n" + n + " "
				}
				assert.Contains(t, rules, head, "%s cites contract %s", path, n)
			}
		}
		return nil
	})
	require.NoError(t, err)
	assert.Greater(t, cited, 20)
}
