package upstreamtest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	ut "github.com/surefoot-go/surefoot/resilience/upstreamtest"
)

func TestRecord(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		assert.Zero(t, r.up.Last())
		g := r.do(t, http.MethodPost, chatPath+"?key=K&a=%zz&a=1", ask("m", true), http.Header{"Authorization": {"Bearer P"}, "Cookie": {"s=C"}})
		require.NoError(t, g.err)
		q := r.up.Last()
		assert.Equal(t, 1, q.Seq)
		assert.Equal(t, http.MethodPost, q.Method)
		assert.Equal(t, strings.TrimPrefix(r.up.URL, "http://"), q.Host)
		assert.Equal(t, chatPath, q.Path)
		assert.Equal(t, "K", q.Query().Get("key"))
		assert.Equal(t, "1", q.Query().Get("a"))
		assert.Equal(t, "Bearer P", q.Header.Get("Authorization"))
		assert.Equal(t, ask("m", true), string(q.Body))
		assert.EqualValues(t, len(q.Body), q.Size)
		assert.EqualValues(t, len(q.Body), q.Length)
		assert.Equal(t, sha256.Sum256(q.Body), q.Sum)
		assert.Equal(t, "HTTP/1.1", q.Proto)
		assert.False(t, q.Time.IsZero())
		dump := q.Dump()
		for _, s := range []string{"POST " + chatPath + "?key=K", "Authorization: Bearer P\r\n", "s=C", `"model":"m"`, "Host: "} {
			assert.Contains(t, dump, s)
		}
		g = r.do(t, http.MethodGet, "/x", "", nil)
		require.NoError(t, g.err)
		q = r.up.Last()
		assert.Zero(t, q.Size)
		assert.Zero(t, q.Length)
		assert.Empty(t, q.Model)
		assert.Len(t, r.up.Requests(), 2)
		assert.Equal(t, 2, r.up.Count())
		assert.Equal(t, 1, r.up.CountModel("m"))
		assert.Zero(t, r.up.CountModel("other"))
	})
}

func TestLargeBodies(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		body := []byte(`{"pad":"` + strings.Repeat("x", 9<<20) + `","stream":true,"model":"last"}`)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.up.URL+chatPath, struct{ *bytes.Reader }{bytes.NewReader(body)})
		require.NoError(t, err)
		req.ContentLength = -1
		resp, err := r.client.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		q := r.up.Last()
		assert.Equal(t, "last", q.Model)
		assert.True(t, q.Stream)
		assert.Len(t, q.Body, 1<<20)
		assert.EqualValues(t, len(body), q.Size)
		assert.EqualValues(t, -1, q.Length)
		assert.Equal(t, sha256.Sum256(body), q.Sum)
	})
}

func TestMemoryIsBounded(t *testing.T) {
	up := ut.NewInMemory("")
	defer up.Close()
	r := reach{"memory", up, up.Client()}
	up.Default(ut.Empty())
	big := strings.Repeat("x", 1<<20)
	for range 36 {
		require.NoError(t, r.post(t, chatPath, big).err)
	}
	all := up.Requests()
	require.Len(t, all, 36)
	assert.Nil(t, all[0].Body)
	assert.Nil(t, all[3].Body)
	assert.Len(t, all[4].Body, 1<<20)
	assert.EqualValues(t, 1<<20, all[0].Size)
	for i := range 10_000 {
		require.NoError(t, r.post(t, chatPath, ask("m"+strconv.Itoa(i), false)).err)
	}
	all = up.Requests()
	require.Len(t, all, 10_000)
	assert.Equal(t, 37, all[0].Seq)
	assert.Equal(t, 10_036, all[9_999].Seq)
	assert.Equal(t, 10_036, up.Count())
	require.NoError(t, r.post(t, chatPath, ask("one too many", false)).err)
	assert.Equal(t, 1, up.CountModel("m9999"))
	assert.Zero(t, up.CountModel("one too many"))
	for range 40 { // the sum of what is held stays right
		require.NoError(t, r.post(t, chatPath, big).err)
	}
	held := 0
	for _, q := range up.Requests() {
		held += len(q.Body)
	}
	assert.LessOrEqual(t, held, 32<<20)
	assert.Greater(t, held, 30<<20)
}

func TestModelLists(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Models("a", "b", "c")
		list := func(path string, header http.Header) map[string]any {
			t.Helper()
			g := r.do(t, http.MethodGet, path, "", header)
			require.NoError(t, g.err)
			assert.Equal(t, ut.Models, r.up.Last().Format)
			var v map[string]any
			require.NoError(t, json.Unmarshal([]byte(g.body), &v), g.body)
			return v
		}
		names := func(v any, key string) (out []string) {
			for _, m := range v.([]any) {
				out = append(out, m.(map[string]any)[key].(string))
			}
			return out
		}
		v := list("/v1/models", nil)
		assert.Equal(t, []string{"a", "b", "c"}, names(v["data"], "id"))
		v = list("/api/tags", nil)
		assert.Equal(t, []string{"a", "b", "c"}, names(v["models"], "name"))

		anthropic := http.Header{"Anthropic-Version": {"2023-06-01"}}
		v = list("/v1/models?limit=2", anthropic)
		assert.Equal(t, []string{"a", "b"}, names(v["data"], "id"))
		assert.Equal(t, true, v["has_more"])
		v = list("/v1/models?limit=2&after_id="+v["last_id"].(string), anthropic)
		assert.Equal(t, []string{"c"}, names(v["data"], "id"))
		assert.Equal(t, false, v["has_more"])

		v = list("/v1beta/models?pageSize=2", nil)
		assert.Equal(t, []string{"models/a", "models/b"}, names(v["models"], "name"))
		v = list("/v1beta/models?pageSize=2&pageToken="+v["nextPageToken"].(string), nil)
		assert.Equal(t, []string{"models/c"}, names(v["models"], "name"))
		assert.NotContains(t, v, "nextPageToken")

		v = list("/v1/models?page_size=2", nil)
		v = list("/v1/models?page_size=2&page_token="+v["next_page_token"].(string), nil)
		assert.Equal(t, []string{"c"}, names(v["models"], "name"))
		v = list("/v1/models?page_size=2&page_token=-7", nil)
		assert.Equal(t, []string{"a", "b"}, names(v["models"], "name"))

		r.up.Models()
		v = list("/v1/models", anthropic)
		assert.Empty(t, v["data"])
		assert.Nil(t, v["last_id"])
	})
}

func TestListScript(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.List(ut.ModelList("m1"), ut.ModelList(), ut.Hidden(ut.HiddenCode, 500), ut.HTML(), ut.Body("application/json", `{"data":null}`),
			ut.Status(500), ut.ModelList("m1").CutBytes(10).Reset())
		r.up.Next(ut.Status(418)) // not for lists
		r.up.Default(ut.Status(503))
		var out []string
		for range 7 {
			g := r.do(t, http.MethodGet, "/v1/models", "", nil)
			require.NoError(t, g.err)
			out = append(out, strconv.Itoa(g.status)+g.body)
			if g.read != nil {
				out[len(out)-1] += "!"
			}
		}
		assert.Contains(t, out[0], `"id":"m1"`)
		assert.Equal(t, `200{"object":"list","data":[]}`, out[1])
		assert.Contains(t, out[2], `"code":500`)
		assert.Contains(t, out[3], "<!DOCTYPE")
		assert.Equal(t, `200{"data":null}`, out[4])
		assert.True(t, strings.HasPrefix(out[5], "500"))
		assert.Equal(t, `200{"object":!`, out[6])
		assert.Equal(t, 418, r.post(t, chatPath, ask("m", false)).status)
	})
}

func TestNoContentTypeMeansNone(t *testing.T) {
	both(t, func(t *testing.T, r reach) {
		r.up.Next(ut.Body("", "<html>"), ut.Empty())
		for range 2 {
			g := r.post(t, chatPath, "")
			assert.NotContains(t, g.header, "Content-Type")
		}
		assert.Zero(t, r.post(t, chatPath, "").read)
	})
}
