package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
)

var out = flag.String("out", "", "write the board to this file instead of comparing it")

// sittings is how often each contender is played on a fake clock. Waits are
// drawn by lot, and of each cell the worst counts: genai's first wait, for one,
// which is from 1 to 2 s whatever Retry-After says, is long enough by luck.
const sittings = 20

// The whole run, on a fake clock: the checked-in files are what it gives, and
// the profiles keep their promises.
func TestTheBoard(t *testing.T) {
	b := make(board, len(contenders))
	for i, c := range contenders {
		t.Run(c.name, func(t *testing.T) {
			if c.sockets {
				var err error
				b[i], err = played(".", &c)
				require.NoError(t, err)
				return
			}
			for range sittings {
				synctest.Test(t, func(t *testing.T) {
					row, err := sitting(&c, newSite(true))
					require.NoError(t, err)
					b[i] = worst(b[i], row)
				})
			}
		})
	}
	if t.Failed() {
		return
	}
	if *out != "" {
		data, err := json.Marshal(b)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(*out, data, 0o600))
		return
	}
	require.NoError(t, check(b, options{dir: "."}))
}

// even is a board with one verdict in every cell.
func even(v verdict) board {
	b := make(board, len(contenders))
	for i := range b {
		for range faults {
			b[i] = append(b[i], cell{Verdict: v, Got: "a <word> & more"})
		}
	}
	return b
}

func TestCheckFindsWhatHasChanged(t *testing.T) {
	dir := t.TempDir()
	assert.ErrorIs(t, check(even(pass), options{dir: dir}), os.ErrNotExist)

	require.NoError(t, write(even(pass), options{dir: dir}))
	require.NoError(t, check(even(pass), options{dir: dir}))

	b := even(pass)
	b[1][3].Verdict = safe
	err := check(b, options{dir: dir})
	require.Error(t, err)
	want := " says pass for " + contenders[1].name + ", " + faults[3].name + "; this run: safe"
	assert.Contains(t, err.Error(), markdownFile+want)
	assert.Contains(t, err.Error(), pictureFile+want)

	require.NoError(t, write(b, options{dir: dir}))
	require.Error(t, check(even(pass), options{dir: dir}))
	md, err := os.ReadFile(dir + "/" + markdownFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(dir+"/"+markdownFile, []byte(strings.Replace(string(md), ends.text, "no rule", 1)), 0o600))
	assert.ErrorContains(t, check(even(pass), options{dir: dir}), "the criteria")
}

// In real time there is one sitting, which luck may make better than the worst
// of many, and never worse.
func TestCheckOfARunInRealTime(t *testing.T) {
	dir := t.TempDir()
	b := even(pass)
	b[4][0].Verdict = partial
	require.NoError(t, write(b, options{dir: dir}))
	require.NoError(t, check(even(pass), options{dir: dir, full: true}))
	b[4][0].Verdict = safe
	require.Error(t, check(b, options{dir: dir, full: true}))
}

// live has nothing below safe, whole passes, and what the defaults do not pass
// has its reason.
func TestCheckKeepsThePromises(t *testing.T) {
	row := func(name string) int {
		return slices.IndexFunc(contenders, func(c contender) bool { return c.name == name })
	}
	for _, c := range []struct {
		name string
		id   string
		v    verdict
		ok   bool
	}{
		{"http.Client", "1", fail, true},
		{defaults, "6", fail, true},
		{budgeted, "6", fail, false},
		{defaults, "2", safe, false},
		{live, "8", safe, true},
		{live, "8", fail, false},
		{live, "7", partial, true},
		{whole, "7", partial, false},
	} {
		b := even(pass)
		b[row(c.name)][slices.Index(faults, byID(t, c.id))].Verdict = c.v
		assert.Equal(t, c.ok, promises(b) == nil, "%v", c)
	}
}

// A row that is explained is below a pass, and passes with the setting changed
// that is said to be the cause.
func TestTheNamedSettingIsTheCause(t *testing.T) {
	rows := map[string]func(...func(*resilience.Policy, *failover.Policy)) func(*site, http.RoundTripper) (ask, error){
		defaults: func(change ...func(*resilience.Policy, *failover.Policy)) func(*site, http.RoundTripper) (ask, error) {
			return chainOf(resilience.ProfileDefault, false, change...)
		},
		budgeted: func(change ...func(*resilience.Policy, *failover.Policy)) func(*site, http.RoundTripper) (ask, error) {
			return chainOf(resilience.ProfileDefault, true, change...)
		},
		live: func(change ...func(*resilience.Policy, *failover.Policy)) func(*site, http.RoundTripper) (ask, error) {
			return chainOf(resilience.ProfileLive, true, change...)
		},
	}
	for name, causes := range explained {
		for id, why := range causes {
			t.Run(name+" "+id, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					verdict := func(change ...func(*resilience.Policy, *failover.Policy)) verdict {
						s := newSite(true)
						defer s.close()
						a, err := rows[name](change...)(s, s.base())
						require.NoError(t, err)
						return playOne(a, byID(t, id), s, form{}).Verdict
					}
					assert.NotEqual(t, pass, verdict())
					assert.Equal(t, pass, verdict(why.change))
				})
			})
		}
	}
}

// The README's table of profiles and its proof give the sums of the board.
func TestTheReadmeSaysTheSame(t *testing.T) {
	md, err := os.ReadFile(markdownFile)
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	said := map[string]string{
		defaults: "`default` %d pass, %d partial, %d safe, %d fail", budgeted: "and %d, %d, %d, %d with the 30 s",
		live: "`live` %d, %d, %d, %d;", whole: "`whole` %d, %d, %d, %d.",
	}
	for i, row := range verdictsOfMarkdown(string(md)) {
		name := contenders[i].name
		if said[name] == "" {
			continue
		}
		n := make([]any, len(verdicts))
		for k, v := range verdicts {
			n[k] = len(slices.DeleteFunc(slices.Clone(row[:public]), func(w verdict) bool { return w != v }))
		}
		assert.Contains(t, string(readme), fmt.Sprintf(said[name], n...))
		if name == budgeted {
			continue
		}
		_, profile, _ := strings.Cut(name, ", ")
		_, line, _ := strings.Cut(string(readme), "\n| `"+profile+"` |")
		line, _, _ = strings.Cut(line, "\n")
		assert.Contains(t, line, fmt.Sprintf("| %d, %d, %d, %d |", n...), profile)
	}
}

func TestThePictureIsWellFormedAndNamesItsCommand(t *testing.T) {
	svg := picture(even(partial), options{full: true})
	assert.Contains(t, svg, "go run . -full -write")
	assert.Contains(t, svg, "prefers-color-scheme:dark")
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
}

func TestWhatThePlainClientTakesForAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		body, text string
		isErr      bool
	}{
		"whole":       {"data: {\"choices\":[{\"delta\":{\"content\":\"h\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"i\"}}]}\n\ndata: [DONE]\n\n", "hi", false},
		"ends early":  {"data: {\"choices\":[{\"delta\":{\"content\":\"h\"}}]}\n\n", "h", false},
		"bad chunk":   {"data: {\"choices\n\n", "", true},
		"error event": {"data: {\"error\":{\"code\":500}}\n\n", "", true},
	} {
		var r result
		err := readStream(&r, strings.NewReader(c.body))
		assert.Equal(t, c.isErr, err != nil, name)
		assert.Equal(t, c.text, r.text, name)
	}
}

// The backup of fault 14 refuses a prefill, and nothing else.
func TestTheBackupRefusesAPrefill(t *testing.T) {
	s := newSite(false)
	defer s.close()
	s.prepare(byID(t, "14"), form{})
	client := s.backup.Client()
	defer client.CloseIdleConnections()
	for role, want := range map[string]int{"user": http.StatusOK, "assistant": http.StatusBadRequest} {
		body := `{"model":"model-b","messages":[{"role":"user","content":"hello"},{"role":"` + role + `","content":"w1"}]}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.backup.URL+"/v1/chat/completions", strings.NewReader(body))
		require.NoError(t, err)
		resp, err := client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, want, resp.StatusCode, role)
	}
}

// A library that says that another model answered than the answer does is
// found out.
func TestTheLibrarysWordHasToAgree(t *testing.T) {
	s := newSite(true)
	defer s.close()
	s.prepare(byID(t, "11"), form{})
	r := plain(&http.Client{Transport: s.base()}, s.primary.URL, func(*http.Response) string { return backupModel })(t.Context())
	require.True(t, r.whole())
	assert.NotEqual(t, primaryModel, r.model)
}

// Over sockets the faults are what they are in memory, as far as they hang on no
// wait.
func TestTheFaultsOverSockets(t *testing.T) {
	for _, id := range []string{"3", "5", "8", "8c", "10", "12", "13", "14"} {
		f := byID(t, id)
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			md, err := os.ReadFile(markdownFile)
			require.NoError(t, err)
			was := verdictsOfMarkdown(string(md))
			for i, c := range contenders {
				s := newSite(false)
				base := s.base()
				a, err := c.open(s, base)
				require.NoError(t, err)
				x := playOne(a, f, s, c.form)
				assert.Equal(t, was[i][slices.Index(faults, f)], x.Verdict, "%s: %s; %s", c.name, x.Got, x.Why)
				base.(*http.Transport).CloseIdleConnections()
				s.close()
			}
		})
	}
}
