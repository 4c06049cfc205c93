package discovery

import (
	"net/http"
)

// listedModel is a model as OpenAI's list has it.
type listedModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// ModelsHandler serves what may be offered now, as OpenAI's GET /v1/models
// does, for callers of a router over several providers: first the virtual
// models of that name, then each of [Registry.Models] by its qualified name,
// "provider/model". With nothing to serve from it answers 503 with an error in
// OpenAI's form. It can be mounted at any path.
func (r *Registry) ModelsHandler(virtual ...string) http.Handler {
	var first []listedModel
	for _, name := range virtual {
		first = append(first, listedModel{ID: name, Object: "model"})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		models := r.Models()
		data := make([]listedModel, 0, len(first)+len(models))
		data = append(data, first...)
		for _, m := range models {
			l := listedModel{ID: m.Name(), Object: "model", OwnedBy: m.OwnedBy}
			if l.OwnedBy == "" {
				l.OwnedBy = m.Provider
			}
			if !m.Created.IsZero() {
				l.Created = m.Created.Unix()
			}
			data = append(data, l)
		}
		if len(data) == 0 {
			writeJSON(w, req, http.StatusServiceUnavailable, map[string]any{"error": map[string]any{
				"message": ErrUnavailable.Error(), "type": "server_error", "param": nil, "code": "no_models",
			}})
			return
		}
		writeJSON(w, req, http.StatusOK, map[string]any{"object": "list", "data": data})
	})
}
