package upload_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/store"
)

func writtenAt(at time.Time) map[string]string {
	return map[string]string{store.CopyWrittenHeader: at.UTC().Format(time.RFC3339Nano)}
}

func writtenNow() map[string]string { return writtenAt(time.Now()) }

// copied is the request with which a manager hands over a file that a client copied into its pod.
func copied(content string, header map[string]string) request {
	return request{http.MethodPut, store.CopyPrefix + "demo/1.0.0/a.tar.gz", "peer", header, strings.NewReader(content)}
}

// The last that was written counts, whenever it arrives.
func TestACopyIsStoredAndReported(t *testing.T) {
	r := newRig(t)
	now := time.Now().Truncate(time.Second)
	for _, test := range []struct {
		content string
		written time.Time
		status  int
		text    string
		kept    string
	}{
		{"first", now.Add(-time.Hour), http.StatusCreated, digest.FromString("first").String(), "first"},
		{"older", now.Add(-2 * time.Hour), http.StatusConflict, store.ErrOlderUpload.Error(), "first"},
		{"newer", now.Add(-time.Minute), http.StatusCreated, digest.FromString("newer").String(), "newer"},
		{"of a clock that is fast", now.Add(time.Hour), http.StatusCreated, "", "of a clock that is fast"},
	} {
		r.changed = nil
		r.expect(t, test.content, copied(test.content, writtenAt(test.written)), test.status, test.text)
		path := filepath.Join(r.dir, "folder/demo/1.0.0/a.tar.gz")
		content, err := os.ReadFile(path)
		if err != nil || string(content) != test.kept {
			t.Errorf("%s: the folder has %q, %v", test.content, content, err)
		}
		if got, stored := fmt.Sprint(r.changed), test.status == http.StatusCreated; stored != (got == "[demo 1.0.0]") {
			t.Errorf("%s: reported %s", test.content, got)
		}
		if info, err := os.Stat(path); err != nil || info.ModTime().After(time.Now()) {
			t.Errorf("%s: it is of the future: %v, %v", test.content, info, err)
		}
		if files := r.files(t); len(files) != 1 {
			t.Errorf("%s: there are %s", test.content, files)
		}
	}
}

func TestCopiesThatAreRefused(t *testing.T) {
	r := newRig(t)
	user := r.uploader(t)
	with := func(change func(*request)) request {
		request := copied("a", writtenNow())
		change(&request)
		return request
	}
	for name, test := range map[string]struct {
		request request
		status  int
		text    string
	}{
		"without a token":        {with(func(r *request) { r.token = "" }), http.StatusUnauthorized, "the token of a manager is needed"},
		"with a user's":          {with(func(r *request) { r.token = user }), http.StatusUnauthorized, "the token of a manager is needed"},
		"with another":           {with(func(r *request) { r.token = "pee" }), http.StatusUnauthorized, "the token of a manager is needed"},
		"with another method":    {with(func(r *request) { r.method = http.MethodPost }), http.StatusNotFound, "the path is"},
		"without a file":         {with(func(r *request) { r.path = store.CopyPrefix + "demo/1.0.0" }), http.StatusNotFound, "the path is"},
		"with a folder too many": {with(func(r *request) { r.path += "/b" }), http.StatusNotFound, "the path is"},
		"without a time":         {with(func(r *request) { r.header = nil }), http.StatusBadRequest, "is not a time"},
		"that is too large":      {copied(strings.Repeat("x", maxBytes+1), writtenNow()), http.StatusRequestEntityTooLarge, "larger than"},
		"that leaves the folder": {with(func(r *request) { r.path = store.CopyPrefix + "../../a.tar.gz" }), http.StatusInternalServerError, "see the manager's log"},
	} {
		r.expect(t, name, test.request, test.status, test.text)
	}
	r.expectNothingStored(t)

	elected := r.Elected
	r.Elected = nil
	r.expect(t, "by a manager that does not lead", copied("a", writtenNow()), http.StatusServiceUnavailable, "not the leader")
	r.Elected, r.PeerToken = elected, ""
	r.expect(t, "where managers have no token", copied("a", writtenNow()), http.StatusUnauthorized, "the token of a manager is needed")
	folder := r.Folder
	r.PeerToken, r.Folder = "peer", nil
	r.expect(t, "where pods take no copies", copied("a", writtenNow()), http.StatusNotFound, "the path is")
	r.Folder = folder
	r.expectNothingStored(t)
}
