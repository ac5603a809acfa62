package fetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

var content = bytes.Repeat([]byte("archive "), 10_000)

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }

// raw answers every connection with the given text and closes it.
func raw(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = io.WriteString(conn, answer)
			conn.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

func mustBeEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("%s holds %v, %v, want nothing", dir, entries, err)
	}
}

func TestFetch(t *testing.T) {
	tests := map[string]http.HandlerFunc{
		"with length": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			ok(w, r)
		},
		"chunked": func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			ok(w, r)
		},
		"claimed to be encoded": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Accept-Encoding") == "gzip" {
				t.Error("asked for an encoding")
			}
			w.Header().Set("Content-Encoding", "gzip")
			ok(w, r)
		},
	}
	for name, handler := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, err := (&Fetcher{MaxBytes: int64(len(content))}).Fetch(t.Context(), Request{URL: serve(t, handler)}, dir)
			if err != nil {
				t.Fatal(err)
			}
			if want := digest.FromBytes(content); file.Digest != want || file.Size != int64(len(content)) {
				t.Errorf("got %s of %d bytes, want %s of %d", file.Digest, file.Size, want, len(content))
			}
			if got, err := os.ReadFile(file.Path); err != nil || !bytes.Equal(got, content) {
				t.Errorf("the file differs: %d bytes, %v", len(got), err)
			}
			for range 2 {
				if err := file.Remove(); err != nil {
					t.Error(err)
				}
			}
			mustBeEmpty(t, dir)
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestFetchFailures(t *testing.T) {
	redirectTo := func(location string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		}
	}
	untrusted := httptest.NewTLSServer(http.HandlerFunc(ok))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(untrusted.Close)
	plain := serve(t, ok)
	tests := []struct {
		name      string
		url       string
		want      Reason
		retryable bool
		message   string
	}{
		{"unparsable", "http://h\x7f/?token=secret", InvalidURL, false, "not valid"},
		{"other scheme", "ftp://host/a?token=secret", InvalidURL, false, "ftp"},
		{"file", "file:///etc/passwd", InvalidURL, false, "file"},
		{"no scheme", "host/a", InvalidURL, false, "https"},
		{"no host", "http:///a", InvalidURL, false, "no host"},
		{"404", serve(t, status(404)), NotFound, true, "404"},
		{"410", serve(t, status(410)), NotFound, true, "410"},
		{"401", serve(t, status(401)), Unauthorized, true, "credentials"},
		{"403", serve(t, status(403)), Unauthorized, true, "credentials"},
		{"400", serve(t, status(400)), Rejected, false, "400"},
		{"204", serve(t, status(204)), Rejected, false, "204"},
		{"304", serve(t, status(304)), Rejected, false, "304"},
		{"206", serve(t, status(206)), Rejected, false, "206"},
		{"429", serve(t, status(429)), ServerError, true, "429"},
		{"500", serve(t, status(500)), ServerError, true, "500"},
		{"503", serve(t, status(503)), ServerError, true, "503"},
		{"refused", closedPort(t), Unreachable, true, "connection refused"},
		{"no such host", "http://archive.invalid/a?token=secret", Unreachable, true, "archive.invalid"},
		{"untrusted", untrusted.URL, UntrustedServer, true, "not trusted"},
		{"plain HTTP", strings.Replace(plain, "http:", "https:", 1), UntrustedServer, true, "does not speak TLS"},
		{"not HTTP", raw(t, "SSH-2.0-secret\r\n"), Unreachable, true, "not valid HTTP"},
		{"closed", raw(t, ""), Unreachable, true, "closed the connection"},
		{"short body", raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"), Truncated, true, "whole archive"},
		{"short chunks", raw(t, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"), Truncated, true, "whole archive"},
		{"large header", raw(t, "HTTP/1.1 200 OK\r\nX-A: "+strings.Repeat("x", 100<<10)+"\r\n\r\n"), Unreachable, true, "HTTP"},
		{"large", plain, TooLarge, false, "1000 bytes"},
		{"large without length", raw(t, "HTTP/1.0 200 OK\r\n\r\n"+strings.Repeat("x", 1001)), TooLarge, false, "1000 bytes"},
		{"redirect without location", serve(t, redirectTo("")), RedirectRefused, false, "invalid URL"},
		{"redirect to a file", serve(t, redirectTo("file:///etc/passwd?secret")), RedirectRefused, false, "invalid URL"},
		{"redirect to nonsense", serve(t, redirectTo("http://secret@h:port")), RedirectRefused, false, "invalid URL"},
		{"endless redirects", serve(t, redirectTo("/again?secret")), RedirectRefused, false, "too often"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			fetch := func() error {
				_, err := (&Fetcher{MaxBytes: 1000, HeaderTimeout: 5 * time.Second}).Fetch(t.Context(), Request{URL: tt.url}, dir)
				return err
			}
			err := fetch()
			var failed *Error
			if !errors.As(err, &failed) {
				t.Fatalf("got error %v, want one with reason %s", err, tt.want)
			}
			if failed.Reason != tt.want || failed.Retryable != tt.retryable {
				t.Errorf("got reason %s, retryable %t (%v), want %s, %t", failed.Reason, failed.Retryable, failed.Err, tt.want, tt.retryable)
			}
			if !strings.Contains(err.Error(), tt.message) || strings.Contains(err.Error(), "secret") {
				t.Errorf("message %q should mention %q and no secret", err, tt.message)
			}
			if again := fetch(); again.Error() != err.Error() {
				t.Errorf("the message changes from %q to %q", err, again)
			}
			mustBeEmpty(t, dir)
		})
	}
}

func TestFetchTimesOut(t *testing.T) {
	release := make(chan struct{})
	hang := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	silent := serve(t, hang)
	stalled := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(content[:10])
		w.(http.Flusher).Flush()
		hang(w, r)
	})
	t.Cleanup(func() { close(release) })
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name    string
		ctx     context.Context
		fetcher Fetcher
		url     string
		want    Reason
	}{
		{"header", t.Context(), Fetcher{HeaderTimeout: 20 * time.Millisecond}, silent, Timeout},
		{"whole time before the header", t.Context(), Fetcher{Timeout: 20 * time.Millisecond}, silent, Timeout},
		{"whole time in the body", t.Context(), Fetcher{Timeout: 50 * time.Millisecond}, stalled, Timeout},
		{"canceled", canceled, Fetcher{}, silent, Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := tt.fetcher.Fetch(tt.ctx, Request{URL: tt.url}, dir)
			var failed *Error
			if !errors.As(err, &failed) || failed.Reason != tt.want || !failed.Retryable {
				t.Errorf("got %v, want reason %s", err, tt.want)
			}
			mustBeEmpty(t, dir)
		})
	}
}

func TestCredentialsGoOnlyToTheRequestedHost(t *testing.T) {
	type seen struct{ authorization, referer string }
	var other, first seen
	stranger := serve(t, func(w http.ResponseWriter, r *http.Request) {
		other = seen{r.Header.Get("Authorization"), r.Header.Get("Referer")}
		ok(w, r)
	})
	origin := serve(t, func(w http.ResponseWriter, r *http.Request) {
		first = seen{r.Header.Get("Authorization"), r.Header.Get("Referer")}
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, stranger, http.StatusFound)
		case "/around":
			http.Redirect(w, r, "/here", http.StatusFound)
		default:
			ok(w, r)
		}
	})
	withUser := strings.Replace(origin, "http://", "http://me:hush@", 1)
	tests := []struct {
		name    string
		request Request
		want    string
	}{
		{"bearer", Request{URL: origin + "/here", Credentials: Credentials{BearerToken: "t0ken"}}, "Bearer t0ken"},
		{"basic", Request{URL: origin + "/here", Credentials: Credentials{Username: "me", Password: "hush"}}, "Basic bWU6aHVzaA=="},
		{"in the URL", Request{URL: withUser + "/here"}, "Basic bWU6aHVzaA=="},
		{"bearer before the URL", Request{URL: withUser + "/here", Credentials: Credentials{BearerToken: "t0ken"}}, "Bearer t0ken"},
		{"same host", Request{URL: withUser + "/around"}, "Basic bWU6aHVzaA=="},
		{"other host", Request{URL: withUser + "/away?token=x"}, "Basic bWU6aHVzaA=="},
		{"none", Request{URL: origin + "/here"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			first, other = seen{}, seen{}
			file, err := (&Fetcher{}).Fetch(t.Context(), tt.request, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer file.Remove()
			if first.authorization != tt.want || first.referer != "" {
				t.Errorf("the host saw %+v, want %q and no referer", first, tt.want)
			}
			if other != (seen{}) {
				t.Errorf("another host saw %+v", other)
			}
		})
	}
	_, err := (&Fetcher{MaxRedirects: -1}).Fetch(t.Context(), Request{URL: withUser + "/away?token=x"}, t.TempDir())
	if err == nil || strings.Contains(err.Error(), "hush") || strings.Contains(err.Error(), "token") {
		t.Errorf("got %v, want a refused redirect without secrets", err)
	}
}

func TestRedirect(t *testing.T) {
	tests := []struct {
		from, location, want string
	}{
		{"https://a/x", "/y?z", "https://a/y?z"},
		{"https://a/x", "https://b/y#f", "https://b/y"},
		{"http://a/x", "https://u:p@a/y", "https://a/y"},
		{"https://a/x", "http://a/y", ""},
		{"https://a/x", "//b/y", "https://b/y"},
		{"https://a/x", "javascript:1", ""},
	}
	for _, tt := range tests {
		from, err := url.Parse(tt.from)
		if err != nil {
			t.Fatal(err)
		}
		got, err := redirect(from, tt.location)
		if (tt.want == "") != (err != nil) || err == nil && got.String() != tt.want {
			t.Errorf("%s to %s: got %v, %v, want %q", tt.from, tt.location, got, err, tt.want)
		}
	}
}

func TestControlMayRefuseAnAddress(t *testing.T) {
	refusal := errors.New("not this address")
	fetcher := &Fetcher{Control: func(string, string, syscall.RawConn) error { return refusal }}
	if _, err := fetcher.Fetch(t.Context(), Request{URL: serve(t, ok)}, t.TempDir()); !errors.Is(err, refusal) {
		t.Errorf("got %v, want %v", err, refusal)
	}
}

func TestStorageFailure(t *testing.T) {
	_, err := (&Fetcher{}).Fetch(t.Context(), Request{URL: serve(t, ok)}, t.TempDir()+"/missing")
	var failed *Error
	if !errors.As(err, &failed) || failed.Reason != StorageFailed || !failed.Retryable {
		t.Errorf("got %v, want reason %s", err, StorageFailed)
	}
}

func FuzzRequestURL(f *testing.F) {
	f.Add("https://user:secret@host:8443/a.tar.gz?token=secret#secret", "/b?secret")
	f.Add("http://[::1]:80/", "//other/secret")
	f.Add("ftp://host", "")
	f.Fuzz(func(t *testing.T, from, location string) {
		u, _, err := parse(Request{URL: from})
		if err != nil {
			return
		}
		if u.User != nil || u.Hostname() == "" || strings.Contains(redact(u), "?") {
			t.Errorf("accepted %q as %q, shown as %q", from, u, redact(u))
		}
		if to, err := redirect(u, location); err == nil && (to.User != nil || u.Scheme == "https" && to.Scheme != "https") {
			t.Errorf("redirected from %q to %q", u, to)
		}
	})
}
