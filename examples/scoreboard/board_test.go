package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// even is a board with one verdict in every cell.
func even(v verdict) board {
	b := make(board, len(contenders))
	for i := range b {
		for range faults {
			b[i] = append(b[i], cell{verdict: v, got: "a <word> & more"})
		}
	}
	return b
}

// The whole run, as the command makes it: the checked-in files are what it
// gives, and the last two rows are as promised.
func TestTheCheckedInBoardIsWhatARunGives(t *testing.T) {
	b, err := play(short)
	require.NoError(t, err)
	require.NoError(t, check(b, "."))
}

func TestCheckFindsWhatHasChanged(t *testing.T) {
	dir := t.TempDir()
	assert.ErrorIs(t, check(even(pass), dir), os.ErrNotExist)

	require.NoError(t, write(even(pass), options{dir: dir}))
	require.NoError(t, check(even(pass), dir))

	b := even(pass)
	b[1][3].verdict = safe
	err := check(b, dir)
	require.Error(t, err)
	want := " says pass for " + contenders[1].name + ", " + faults[3].name + "; this run: safe"
	assert.Contains(t, err.Error(), markdownFile+want)
	assert.Contains(t, err.Error(), pictureFile+want)

	md, err := os.ReadFile(dir + "/" + markdownFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/"+markdownFile, []byte(strings.Replace(string(md), noHang.text, "no rule", 1)), 0o600))
	assert.ErrorContains(t, check(even(pass), dir), "criteria")
}

func TestCheckKeepsThePromises(t *testing.T) {
	b := even(pass)
	last := len(b) - 1
	require.NoError(t, promises(b))
	b[last-1][2].verdict = safe
	b[0][0].verdict = fail
	require.NoError(t, promises(b), "a default chain may be safe, others may fail")
	b[last-1][2].verdict = fail
	assert.ErrorContains(t, promises(b), "want safe or better")
	b[last-1][2].verdict = pass
	b[last][5].verdict = safe
	assert.ErrorContains(t, promises(b), faults[5].name)
}

func TestThePictureIsWellFormedAndNamesItsCommand(t *testing.T) {
	svg := picture(even(safe), options{full: true})
	assert.Contains(t, svg, "go run . -full -write")
	assert.Contains(t, svg, "prefers-color-scheme:dark")
	assert.NotContains(t, svg, "@import")
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestThePlainReader(t *testing.T) {
	for name, c := range map[string]struct {
		stream         bool
		body           string
		text           string
		isErr, isInErr bool
	}{
		"whole":         {false, `{"model":"m","choices":[{"message":{"content":"hi"}}]}`, "hi", false, false},
		"stream":        {true, "data: {\"choices\":[{\"delta\":{\"content\":\"h\"}}]}\n\ndata:{\"choices\":[{\"delta\":{\"content\":\"i\"}}]}\n\ndata: [DONE]\n\n", "hi", false, false},
		"ends early":    {true, "data: {\"choices\":[{\"delta\":{\"content\":\"h\"}}]}\n\n", "h", false, false},
		"bad chunk":     {true, "data: {\"choices\n\n", "", true, false},
		"error event":   {true, "data: {\"error\":{\"code\":500}}\n\n", "", true, true},
		"error in 200":  {false, `{"error":"no"}`, "", true, true},
		"no JSON":       {false, `<html>`, "", true, false},
		"a null error ": {false, `{"error":null,"choices":[{"message":{"content":"hi"}}]}`, "hi", false, false},
	} {
		var r result
		read := readWhole
		if c.stream {
			read = readStream
		}
		err := read(&r, strings.NewReader(c.body))
		assert.Equal(t, c.isErr, err != nil, name)
		assert.Equal(t, c.isInErr, errors.Is(err, errToldInBand), name)
		assert.Equal(t, c.text, r.text, name)
	}
}

// The backup of the fault does refuse a prefill, and nothing else.
func TestTheBackupRefusesAPrefill(t *testing.T) {
	s := newSite(byName(t, "cut stream, backup refuses a prefill"), short)
	defer s.close()
	for role, want := range map[string]int{"user": http.StatusOK, "assistant": http.StatusBadRequest} {
		body := `{"model":"model-b","messages":[{"role":"user","content":"hello"},{"role":"` + role + `","content":"Nine words"}]}`
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.backup.URL+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		resp, err := s.backup.Client().Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, want, resp.StatusCode, role)
	}
}

// A library that says that another model answered than the answer does is
// found out.
func TestTheLibrarysWordHasToAgree(t *testing.T) {
	f := byName(t, "no [DONE]")
	s := newSite(f, short)
	defer s.close()
	a := plain(s.primary.Client(), s.primary.URL, func(*http.Response) string { return backupModel })
	r := a(context.Background(), f)
	require.True(t, r.whole())
	assert.NotEqual(t, primaryModel, r.model)
}
