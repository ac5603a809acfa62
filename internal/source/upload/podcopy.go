package upload

import (
	"context"
	"crypto/hmac"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/store"
)

// receivePodCopy stores an archive that a client copied into the pod of another manager in the folder of this one, which leads.
func (h *Handler) receivePodCopy(w http.ResponseWriter, r *http.Request) (digest.Digest, error) {
	token, ok := bearerToken(r)
	if !ok || r.TLS == nil || h.PeerToken == "" || !hmac.Equal([]byte(token), []byte(h.PeerToken)) {
		return "", refuse(http.StatusUnauthorized, "the token of a manager is needed")
	}
	if !h.leads() {
		return "", refuse(http.StatusServiceUnavailable, "this manager is not the leader")
	}
	fields := strings.Split(strings.TrimPrefix(r.URL.Path, store.CopyPrefix), "/")
	if len(fields) != 3 || r.Method != http.MethodPut || h.Folder == nil {
		return "", refuse(http.StatusNotFound, "the path is %s<name>/<version>/<file>", store.CopyPrefix)
	}
	written, err := time.Parse(time.RFC3339Nano, r.Header.Get(store.CopyWrittenHeader))
	if err != nil {
		return "", refuse(http.StatusBadRequest, "the header %s is not a time", store.CopyWrittenHeader)
	}
	if now := time.Now(); written.After(now) { // The clocks differ.
		written = now
	}
	if !h.begin() {
		return "", refuse(http.StatusTooManyRequests, "too many uploads are in progress: try again later")
	}
	defer h.end()
	file, err := h.save(w, r, "")
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Remove() }() // Once stored it has another name.
	err = h.Folder.Put(fields[0], fields[1], fields[2], written, file)
	switch {
	case errors.Is(err, store.ErrOlderUpload):
		return "", refuse(http.StatusConflict, "%s", err)
	case err == nil:
		h.Folder.Changed(context.WithoutCancel(r.Context()), fields[0], fields[1]) // It is here, also if the client has gone.
	}
	return file.Digest, err
}
