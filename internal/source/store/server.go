package store

import (
	"net/http"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
)

const urlPrefix = "/artifacts/" + string(algorithm) + "/"

// URLPath is the path under which Handler serves the archive with this digest: /artifacts/sha256/<hex>.tar.gz.
func URLPath(archive digest.Digest) string {
	return urlPrefix + strings.TrimPrefix(archive.String(), string(algorithm)+":") + suffix
}

// Handler serves the store's archives for GET and HEAD, each under its URLPath, and nothing else: no listing, no
// writing. An archive never changes under its path, so clients may keep it for ever.
func (s *Store) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, urlPrefix)
		hex, isArchive := strings.CutSuffix(name, suffix)
		if !ok || !isArchive || algorithm.Validate(hex) != nil {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		archive := digest.NewDigestFromEncoded(algorithm, hex)
		f, info, err := s.open(archive)
		if err == nil {
			defer f.Close()
		}
		if err != nil || !info.Mode().IsRegular() {
			http.NotFound(w, r)
			return
		}
		header := w.Header()
		header.Set("Content-Type", "application/gzip")
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
		header.Set("ETag", `"`+archive.String()+`"`)
		http.ServeContent(w, r, "", time.Time{}, f)
	})
}
