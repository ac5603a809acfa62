package fetch

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestAnUnchangedArchiveIsNotDownloadedAgain(t *testing.T) {
	modified := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const etag = `"v1"`
	served := func(etag string, modified time.Time) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if etag != "" {
				w.Header().Set("ETag", etag)
			}
			http.ServeContent(w, r, "archive", modified, bytes.NewReader(content))
		}
	}
	var redirecting string
	target := serve(t, served(etag, modified))
	redirecting = serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target, http.StatusFound) })
	for name, test := range map[string]struct {
		url       string
		want      Validators
		unchanged bool
	}{
		"ETag and date":         {serve(t, served(etag, modified)), Validators{etag, "Fri, 02 Jan 2026 03:04:05 GMT"}, true},
		"ETag":                  {serve(t, served(etag, time.Time{})), Validators{ETag: etag}, true},
		"weak ETag":             {serve(t, served(`W/"v1"`, time.Time{})), Validators{ETag: `W/"v1"`}, true},
		"date":                  {serve(t, served("", modified)), Validators{LastModified: "Fri, 02 Jan 2026 03:04:05 GMT"}, true},
		"behind a redirect":     {redirecting, Validators{etag, "Fri, 02 Jan 2026 03:04:05 GMT"}, true},
		"none":                  {serve(t, served("", time.Time{})), Validators{}, false},
		"a server that ignores": {serve(t, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("ETag", etag); ok(w, r) }), Validators{ETag: etag}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, err := (&Fetcher{}).Fetch(t.Context(), Request{URL: test.url}, dir)
			if err != nil {
				t.Fatal(err)
			}
			file.Remove()
			if file.Validators != test.want {
				t.Errorf("got %+v, want %+v", file.Validators, test.want)
			}
			again, err := (&Fetcher{}).Fetch(t.Context(), Request{URL: test.url, Known: file.Validators}, dir)
			if errors.Is(err, ErrNotModified) != test.unchanged {
				t.Errorf("the second time: got %v", err)
			}
			if again != nil {
				again.Remove()
			}
			mustBeEmpty(t, dir)
		})
	}
}

func TestA304ThatNobodyAskedForIsRefused(t *testing.T) {
	url := serve(t, status(http.StatusNotModified))
	_, err := (&Fetcher{}).Fetch(t.Context(), Request{URL: url}, t.TempDir())
	wantReason(t, err, Rejected)
	_, err = (&Fetcher{}).Fetch(t.Context(), Request{URL: url, Known: Validators{ETag: `"x"`}}, t.TempDir())
	if !errors.Is(err, ErrNotModified) {
		t.Errorf("got %v", err)
	}
}

func TestValidatorsOf(t *testing.T) {
	for _, test := range []struct{ etag, modified, wantETag, wantModified string }{
		{`"a"`, "", `"a"`, ""},
		{`W/"a"`, "", `W/"a"`, ""},
		{`""`, "", `""`, ""},
		{`a`, "", "", ""},
		{`"a`, "", "", ""},
		{`"a b"`, "", "", ""},
		{`"a"b"`, "", "", ""},
		{"\"a\r\nX: y\"", "", "", ""},
		{`"` + strings.Repeat("x", maxETag-2) + `"`, "", `"` + strings.Repeat("x", maxETag-2) + `"`, ""},
		{`"` + strings.Repeat("x", maxETag-1) + `"`, "", "", ""},
		{"", "Fri, 02 Jan 2026 03:04:05 GMT", "", "Fri, 02 Jan 2026 03:04:05 GMT"},
		{"", "yesterday", "", ""},
		{`"a"`, "yesterday", `"a"`, ""},
	} {
		got := validatorsOf(http.Header{"Etag": {test.etag}, "Last-Modified": {test.modified}})
		if got != (Validators{test.wantETag, test.wantModified}) {
			t.Errorf("%q, %q: got %+v", test.etag, test.modified, got)
		}
	}
}
