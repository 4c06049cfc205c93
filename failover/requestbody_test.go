package failover_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/surefoot-go/surefoot/breaker"
	"github.com/surefoot-go/surefoot/failover"
	"github.com/surefoot-go/surefoot/resilience"
	"github.com/surefoot-go/surefoot/resilience/ending"
)

// plainReader is a body of a type that net/http does not know.
type plainReader struct{ io.ReadCloser }

// replacing is a layer that replaces the body and leaves GetBody, as most do.
func replacing(rt http.RoundTripper, length bool, wrap func(io.ReadCloser) io.ReadCloser) http.RoundTripper {
	return roundTripFunc(func(req *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		if err := req.Body.Close(); err != nil {
			return nil, err
		}
		text := strings.ReplaceAll(string(b), "4111-1111", "XX")
		out := req.Clone(req.Context())
		out.Body = wrap(io.NopCloser(strings.NewReader(text)))
		if out.ContentLength = -1; length {
			out.ContentLength = int64(len(text))
		}
		return rt.RoundTrip(out)
	})
}

// A redaction above a chain, between chain and stack, or below a stack is on
// the wire on every attempt and for every target (contract 2).
func TestARedactionIsNeverUndone(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":"my card is 4111-1111"}]}`
	same := func(rt http.RoundTripper) http.RoundTripper { return rt }
	for _, length := range []bool{true, false} {
		for kind, wrap := range map[string]func(io.ReadCloser) io.ReadCloser{
			"memory": func(rc io.ReadCloser) io.ReadCloser { return rc },
			"reader": func(rc io.ReadCloser) io.ReadCloser { return plainReader{rc} },
		} {
			redact := func(rt http.RoundTripper) http.RoundTripper { return replacing(rt, length, wrap) }
			for where, l := range map[string]struct {
				above, between, below func(http.RoundTripper) http.RoundTripper
			}{
				"above":   {redact, same, same},
				"between": {same, redact, same},
				"below":   {same, same, redact},
			} {
				t.Run(where+", "+kind, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						a, b := failing(503), newUpstream(reply{status: 503, body: "{}"}, reply{status: 200, body: okJSON})
						p := resilience.DefaultPolicy()
						sa, sb := stack(t, "a", l.below(a), p), stack(t, "b", l.below(b), p)
						c := chain(t, failover.Policy{Patience: failover.PatienceOff},
							failover.Target{Name: "a", Transport: l.between(sa)},
							failover.Target{Name: "b", Model: "m-2", BaseURL: "https://b.example/v1", Transport: l.between(sb)})
						r, err := failover.NewRouter(map[string]*failover.Chain{"m": c}, nil)
						require.NoError(t, err)
						got, err := do(t, l.above(r), post(t, chatURL, body))
						require.NoError(t, err)
						assert.Equal(t, 200, got.StatusCode)
						want := strings.ReplaceAll(body, "4111-1111", "XX")
						assert.Equal(t, 4, a.count())
						assert.Equal(t, 2, b.count())
						for _, s := range a.requests() {
							assert.Equal(t, want, s.body)
						}
						for _, s := range b.requests() {
							assert.Equal(t, strings.Replace(want, `"m"`, `"m-2"`, 1), s.body)
						}
						assert.Equal(t, 1, sa.Breakers()[0].Failures)
						assert.Equal(t, breaker.Closed, sb.Breakers()[0].State)
						assert.Zero(t, sb.Breakers()[0].Failures)
					})
				})
			}
		}
	}
}

// Large requests, as screenshots make them, come from an http.Handler without a
// GetBody; each body is exact (G65).
func TestALargeBodyIsRewrittenForEveryTarget(t *testing.T) {
	image := strings.Repeat("QUJD", 5<<20/4)
	body := `{"messages":[{"role":"user","content":"` + image + `"}],"model":"a-1","stream":false}`
	for _, through := range []string{"chain", "router"} {
		t.Run(through, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := failing(503), healthy()
				p := resilience.DefaultPolicy()
				p.Retry.MaxRetries = 2
				c := chain(t, failover.DefaultPolicy(),
					failover.Target{Name: "a", Transport: stack(t, "a", a, p)},
					failover.Target{Name: "b", Model: "b-1", Transport: stack(t, "b", b, p)})
				var rt http.RoundTripper = c
				if through == "router" {
					r, err := failover.NewRouter(map[string]*failover.Chain{"a-1": c}, nil)
					require.NoError(t, err)
					rt = r
				}
				req := post(t, chatURL, "")
				req.Body, req.GetBody, req.ContentLength = plainReader{io.NopCloser(strings.NewReader(body))}, nil, -1
				got, err := do(t, rt, req)
				require.NoError(t, err)
				assert.Equal(t, 200, got.StatusCode)
				require.Equal(t, 3, a.count())
				for _, s := range a.requests() {
					assert.True(t, body == s.body)
					assert.EqualValues(t, len(body), s.length)
				}
				assert.True(t, strings.Replace(body, `"a-1"`, `"b-1"`, 1) == b.requests()[0].body)
			})
		})
	}
}

// An audio upload through a chain: the field is replaced and all other bytes
// are exact; alone it is of an unknown format and sent once (G66).
func TestTheModelOfAnUploadIsReplaced(t *testing.T) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	file, err := w.CreateFormFile("file", "a.wav")
	require.NoError(t, err)
	_, err = file.Write(bytes.Repeat([]byte("\r\nmodel=whisper-1\r\n"), 1000))
	require.NoError(t, err)
	require.NoError(t, w.WriteField("model", "whisper-1"))
	require.NoError(t, w.Close())
	u := failing(503)
	c := chain(t, failover.Policy{}, failover.Target{Name: "b", Model: "w-2", Transport: u}, failover.Target{Name: "c", Transport: healthy()})
	req := post(t, "https://a.example/v1/audio/transcriptions", b.String())
	req.Header.Set("Content-Type", w.FormDataContentType())
	got, err := do(t, c, req)
	require.NoError(t, err)
	assert.Equal(t, 503, got.StatusCode)
	require.Equal(t, 1, u.count())
	assert.Equal(t, strings.Replace(b.String(), "\r\n\r\nwhisper-1\r\n", "\r\n\r\nw-2\r\n", 1), u.requests()[0].body)
}

// Model names in paths keep their escapes, on both sides (G47).
func TestAModelThatNeedsEscapingStandsInThePath(t *testing.T) {
	const arn = "arn:aws:bedrock:eu:1:application-inference-profile/x"
	for name, tc := range map[string]struct{ url, model, path, escaped string }{
		"Bedrock":                {"https://a.example/model/a%3A1/converse", arn, "/model/" + arn + "/converse", "/model/arn:aws:bedrock:eu:1:application-inference-profile%2Fx/converse"},
		"a caller's own escapes": {"https://a.example/p%2Fq%3A/model/arn%3Aaws%2Fx/converse", "m", "/p/q:/model/m/converse", "/p%2Fq%3A/model/m/converse"},
		"no model of its own":    {"https://a.example/model/arn%3Aaws%2Fx/converse", "", "/model/arn:aws/x/converse", "/model/arn%3Aaws%2Fx/converse"},
		"a tuned model":          {"https://a.example/v1beta/tunedModels/x:generateContent", "y", "/v1beta/tunedModels/y:generateContent", "/v1beta/tunedModels/y:generateContent"},
	} {
		t.Run(name, func(t *testing.T) {
			b := healthy()
			var path, escaped string
			b.hook = func(req *http.Request) { path, escaped = req.URL.Path, req.URL.EscapedPath() }
			c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: failing(503)}, failover.Target{Name: "b", Model: tc.model, Transport: b})
			got, err := do(t, c, post(t, tc.url, `{"messages":[]}`))
			require.NoError(t, err)
			assert.Equal(t, 200, got.StatusCode)
			assert.Equal(t, tc.path, path)
			assert.Equal(t, tc.escaped, escaped)
		})
	}
}

func zipped(t testing.TB, text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

// A chain re-writes whatever shows where its model is, or says that it cannot
// and sends nothing (contract 1, 7.5).
func TestABodyIsRewrittenOrNotSent(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for name, tc := range map[string]struct {
		url, body, encoding string
		want                string // "": not sent
		status              int
	}{
		"NaN":                           {body: `{"model":"a","x":NaN}`, want: `{"model":"b","x":NaN}`},
		"text behind":                   {body: `{"model":"a"} x`, want: `{"model":"b"} x`},
		"a second object behind":        {body: `{"model":"a"}{"model":"a"}`, want: `{"model":"b"}{"model":"a"}`},
		"deep nesting":                  {body: `{"x":` + deep + `,"model":"a"}`, want: `{"x":` + deep + `,"model":"b"}`},
		"a byte order mark":             {body: "\xef\xbb\xbf" + `{"model":"a"}`, want: "\xef\xbb\xbf" + `{"model":"b"}`},
		"twice":                         {body: `{"model":"a","model":"c"}`, want: `{"model":"b","model":"b"}`},
		"in capitals":                   {body: `{"MODEL":"a"}`, want: `{"MODEL":"b"}`},
		"in both":                       {body: `{"model":"a","Model":"c"}`, want: `{"model":"b","Model":"b"}`},
		"escaped":                       {body: `{"mod\u0065l":"a"}`, want: `{"mod\u0065l":"b"}`},
		"no text":                       {body: `{"model":7}`, want: `{"model":"b"}`},
		"cut off behind it":             {body: `{"model":"a","x":"`, want: `{"model":"b","x":"`},
		"cut off before it":             {body: `{"x":"`, status: 400},
		"no JSON":                       {body: `model=a`, status: 400},
		"gzip":                          {body: zipped(t, `{"model":"a"}`), encoding: "gzip", status: 415},
		"gzip, the model in the path":   {url: "https://a.example/model/a/converse", body: zipped(t, `{}`), encoding: "gzip", want: zipped(t, `{}`)},
		"gzip, of no known format":      {url: "https://a.example/v1/files", body: zipped(t, `{}`), encoding: "gzip", want: zipped(t, `{}`)},
		"identity":                      {body: `{"model":"a"}`, encoding: "identity", want: `{"model":"b"}`},
		"no model":                      {body: `{"messages":[]}`, want: `{"messages":[]}`},
		"too large":                     {body: `{"model":"a","x":"` + strings.Repeat("x", 2<<10) + `"}`, status: 413},
		"too large, of no known format": {url: "https://a.example/v1/custom", body: `{"model":"a","x":"` + strings.Repeat("x", 2<<10) + `"}`, status: 413},
	} {
		for _, getBody := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				u := healthy()
				c := chain(t, failover.Policy{MaxBody: 1 << 10}, failover.Target{Name: "b", Model: "b", Transport: u})
				if strings.HasPrefix(name, "deep") {
					c = chain(t, failover.Policy{}, failover.Target{Name: "b", Model: "b", Transport: u})
				}
				url := chatURL
				if tc.url != "" {
					url = tc.url
				}
				req := post(t, url, tc.body)
				if !getBody {
					req.Body, req.GetBody, req.ContentLength = plainReader{req.Body}, nil, -1
				}
				req.Header.Set("Content-Type", "application/json")
				if tc.encoding != "" {
					req.Header.Set("Content-Encoding", tc.encoding)
				}
				got, err := do(t, c, req)
				if tc.status == 0 {
					require.NoError(t, err)
					assert.Equal(t, 200, got.StatusCode)
					require.Equal(t, 1, u.count())
					assert.Equal(t, tc.want, u.requests()[0].body)
					return
				}
				var (
					unwritable *failover.BodyError
					fault      *ending.RequestError
					all        *failover.Error
				)
				require.ErrorAs(t, err, &unwritable)
				require.ErrorAs(t, err, &fault)
				require.ErrorAs(t, err, &all)
				assert.Equal(t, tc.status, unwritable.Status)
				assert.Equal(t, tc.status, resilience.StatusOf(err))
				assert.Zero(t, u.count())
				assert.Equal(t, "b:-not_rewritable", trail(all.Attempts), "nothing was sent, and no record says otherwise")
			})
		}
	}
}

// Where one target cannot be asked, another one may.
func TestATargetThatNeedsNoRewritingTakesALargeBody(t *testing.T) {
	big := `{"model":"a","x":"` + strings.Repeat("x", 2<<10) + `"}`
	for name, tc := range map[string]struct {
		first  int // status of the target that keeps the model
		order  bool
		want   int
		trails string
	}{
		"first":                {200, true, 200, "keeps:ok"},
		"first, and it failed": {503, true, 503, "keeps:503 own:-not_rewritable"},
		"second":               {200, false, 200, "own:-not_rewritable keeps:ok"},
	} {
		t.Run(name, func(t *testing.T) {
			keeps := newUpstream(reply{status: tc.first, body: okJSON})
			targets := []failover.Target{{Name: "keeps", Transport: keeps}, {Name: "own", Model: "b", Transport: healthy()}}
			if !tc.order {
				targets[0], targets[1] = targets[1], targets[0]
			}
			got, err := do(t, chain(t, failover.Policy{MaxBody: 1 << 10}, targets...), post(t, chatURL, big))
			require.NoError(t, err)
			assert.Equal(t, tc.want, got.StatusCode)
			assert.Equal(t, big, keeps.requests()[0].body)
			assert.Equal(t, tc.trails, trail(failover.AttemptsOf(got.Response)))
		})
	}
}

// One chain's small limit hides no model from those that next serves.
func TestARouterReadsAsMuchAsNextRewrites(t *testing.T) {
	small := map[string]*failover.Chain{"fast": chain(t, failover.Policy{MaxBody: 16}, failover.Target{Name: "f", Model: "f", Transport: healthy()})}
	for name, wrap := range map[string]func(*failover.Chain) http.RoundTripper{
		"chain": func(c *failover.Chain) http.RoundTripper { return c },
		"router": func(c *failover.Chain) http.RoundTripper {
			r, err := failover.NewRouter(nil, c)
			require.NoError(t, err)
			return r
		},
		"its own": func(c *failover.Chain) http.RoundTripper { return ownLimit{c} },
	} {
		t.Run(name, func(t *testing.T) {
			u := healthy()
			r, err := failover.NewRouter(small, wrap(chain(t, failover.Policy{MaxBody: 1 << 10}, failover.Target{Name: "n", Model: "n", Transport: u})))
			require.NoError(t, err)
			req := post(t, chatURL, `{"x":"`+strings.Repeat("x", 64)+`","model":"slow"}`)
			req.Body, req.GetBody, req.ContentLength = plainReader{req.Body}, nil, -1
			got, err := do(t, r, req)
			require.NoError(t, err)
			assert.Equal(t, 200, got.StatusCode)
			assert.Equal(t, `{"x":"`+strings.Repeat("x", 64)+`","model":"n"}`, u.requests()[0].body)
		})
	}
}

// ownLimit is a next of somebody else's type.
type ownLimit struct{ http.RoundTripper }

func (ownLimit) MaxBody() int64 { return 1 << 10 }

// A router finds a configured name in any body that may be re-written, and says
// so where a body is too large for that.
func TestARouterAndALargeBody(t *testing.T) {
	body := `{"x":"` + strings.Repeat("x", 5<<20) + `","model":"fast"}`
	for _, limit := range []int64{0, 4 << 20} {
		u, next := healthy(), newUpstream(reply{status: 200, body: "{}"})
		r, err := failover.NewRouter(map[string]*failover.Chain{
			"fast": chain(t, failover.Policy{MaxBody: limit}, failover.Target{Name: "x", Provider: "p", Model: "long", Transport: u}),
		}, next)
		require.NoError(t, err)
		handler := http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
			out := in.Clone(in.Context())
			out.RequestURI, out.URL.Scheme, out.URL.Host = "", "https", "a.example"
			resp, err := r.RoundTrip(out)
			if err != nil {
				w.WriteHeader(resilience.StatusOf(err))
				return
			}
			w.WriteHeader(resp.StatusCode)
			_ = resp.Body.Close()
		})
		rec := httptest.NewRecorder()
		in := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", plainReader{io.NopCloser(strings.NewReader(body))})
		handler.ServeHTTP(rec, in)
		assert.Zero(t, next.count())
		if limit == 0 {
			assert.Equal(t, 200, rec.Code)
			assert.True(t, strings.Replace(body, "fast", "long", 1) == u.requests()[0].body)
		} else {
			assert.Equal(t, 413, rec.Code)
			assert.Zero(t, u.count())
		}
	}
}

// Length and digest headers of a body that was re-written are set anew or
// dropped, in any spelling (contract 7.5).
func TestHeadersOfTheOldBytesGoWithThem(t *testing.T) {
	stale := http.Header{
		"content-length": {"1"}, "Content-Length": {"1"}, "CONTENT-LENGTH": {"1"}, "transfer-encoding": {"gzip"},
		"Content-Digest": {"sha-256=:x:"}, "content-digest": {"x"}, "Repr-Digest": {"x"}, "DIGEST": {"x"}, "Content-MD5": {"x"}, "content-md5": {"x"},
		"X-Amz-Content-Sha256": {"x"}, "Want-Content-Digest": {"sha-256=1"}, "X-Other": {"y"},
	}
	send := func(model string) sent {
		u := healthy()
		c := chain(t, failover.Policy{}, failover.Target{Name: "b", Model: model, Transport: u})
		req := post(t, chatURL, `{"model":"a"}`)
		req.Header = stale.Clone()
		_, err := do(t, c, req)
		require.NoError(t, err)
		assert.Equal(t, stale, req.Header)
		return u.requests()[0]
	}
	got := send("longer")
	assert.Equal(t, http.Header{"Content-Length": {"18"}, "Want-Content-Digest": {"sha-256=1"}, "X-Other": {"y"}}, got.header)
	assert.EqualValues(t, 18, got.length)
	assert.Equal(t, stale, send("").header, "the bytes are the caller's")
}

// Whatever a body does, it is closed, and a GetBody is not asked.
func TestTheBodyIsClosedWhateverItDoes(t *testing.T) {
	gone := errors.New("gone")
	for name, tc := range map[string]struct {
		read  func([]byte) (int, error)
		panic bool
		is    error
	}{
		"it fails":            {func([]byte) (int, error) { return 0, gone }, false, gone},
		"it panics":           {func([]byte) (int, error) { panic(gone) }, true, nil},
		"its length is wrong": {func([]byte) (int, error) { return 0, io.EOF }, false, nil},
	} {
		u := healthy()
		c := chain(t, failover.Policy{}, failover.Target{Name: "b", Model: "b", Transport: u})
		r, err := failover.NewRouter(map[string]*failover.Chain{"m": c}, nil)
		require.NoError(t, err)
		for _, rt := range []http.RoundTripper{c, r} {
			body := &closing{Reader: readerFunc(tc.read)}
			req := post(t, chatURL, "")
			req.Body, req.ContentLength = body, 5
			req.GetBody = func() (io.ReadCloser, error) { t.Error("GetBody was called"); return nil, nil }
			call := func() { _, err = do(t, rt, req) }
			if tc.panic {
				assert.PanicsWithValue(t, gone, call)
			} else {
				call()
				require.Error(t, err)
				var fault *ending.RequestError
				require.ErrorAs(t, err, &fault, name)
			}
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
			assert.NotZero(t, body.closed, name)
			assert.Zero(t, u.count())
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// A GetBody that gives nothing harms nobody.
func TestGetBodyMayGiveNothing(t *testing.T) {
	u := healthy()
	c := chain(t, failover.Policy{}, failover.Target{Name: "a", Transport: failing(503)}, failover.Target{Name: "b", Model: "b", Transport: u})
	r, err := failover.NewRouter(map[string]*failover.Chain{"a": c}, nil)
	require.NoError(t, err)
	for _, rt := range []http.RoundTripper{c, r} {
		req := post(t, chatURL, `{"model":"a"}`)
		req.GetBody = func() (io.ReadCloser, error) { return nil, nil }
		got, err := do(t, rt, req)
		require.NoError(t, err)
		assert.Equal(t, 200, got.StatusCode)
	}
	assert.Equal(t, `{"model":"b"}`, u.requests()[1].body)
}
