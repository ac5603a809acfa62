package apiserver

import (
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// Writes has the requests of clients that would change an object, in their order. Dry runs are not among them, nor are questions
// about permissions and requests for tokens.
type Writes struct {
	mutex sync.Mutex
	seen  []string
}

// Of returns the configuration of a client whose writes are added.
func (w *Writes) Of(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recorder{next, w} })
	return config
}

// Take returns what was written since the last call, each as method and path: "PATCH /api/v1/namespaces/a/configmaps/b".
func (w *Writes) Take() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

type recorder struct {
	next   http.RoundTripper
	writes *Writes
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	path := request.URL.Path
	isRead := request.Method == http.MethodGet || request.URL.Query().Has("dryRun")
	if !isRead && !strings.HasSuffix(path, "reviews") && !strings.HasSuffix(path, "/token") {
		r.writes.mutex.Lock()
		r.writes.seen = append(r.writes.seen, request.Method+" "+path)
		r.writes.mutex.Unlock()
	}
	return r.next.RoundTrip(request)
}
