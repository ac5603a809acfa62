package fetch

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/internal/platform/dialguard"
)

func allowList(t *testing.T, prefixes ...string) AllowList {
	t.Helper()
	var list AllowList
	for _, text := range prefixes {
		prefix, err := ParseURLPrefix(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, prefix)
	}
	return list
}

// serveAt listens on a given address of loopback.
func serveAt(t *testing.T, host string, handler http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func TestTheGuardIsAskedOnEachHop(t *testing.T) {
	asked := make(chan string, 100)
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Host
		ok(w, r)
	})
	port := target[strings.LastIndex(target, ":"):]
	origin := serveAt(t, "127.0.0.2", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	})
	// Only the loopback address of the origin is allowed, for the first hop.
	second := &dialguard.Guard{AllowLocal: true, Forbidden: []netip.Prefix{
		netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("169.254.0.0/16"),
	}}
	for _, test := range []struct {
		url     string
		guard   *dialguard.Guard
		want    Reason
		message string
	}{
		{target, &dialguard.Guard{}, AddressForbidden, `"127.0.0.1" has a loopback address`},
		{"http://localhost" + port, &dialguard.Guard{}, AddressForbidden, `"localhost" has a loopback address`},
		{"http://[::ffff:127.0.0.1]" + port, &dialguard.Guard{}, AddressForbidden, "loopback"},
		{"http://0.0.0.0" + port, &dialguard.Guard{}, AddressForbidden, "unspecified"},
		{"http://169.254.169.254/latest/meta-data", &dialguard.Guard{}, AddressForbidden, "metadata"},
		{"https://169.254.169.254/latest/meta-data", &dialguard.Guard{}, AddressForbidden, "metadata"},
		{origin + "?to=" + target, second, AddressForbidden, "127.0.0.1/32"},
		{origin + "?to=http://localhost" + port, second, AddressForbidden, `the host "localhost" has`},
		{origin + "?to=http://169.254.169.254/latest/meta-data", second, AddressForbidden, "169.254.0.0/16"},
		{origin + "?to=http://[::ffff:169.254.169.254]/", second, AddressForbidden, "169.254.0.0/16"},
		{target, &dialguard.Guard{AllowLocal: true}, "", ""},
		{origin + "?to=" + target, &dialguard.Guard{AllowLocal: true}, "", ""},
	} {
		dir := t.TempDir()
		fetcher := &Fetcher{Control: test.guard.Control, HeaderTimeout: 5 * time.Second}
		file, err := fetcher.Fetch(t.Context(), Request{URL: test.url}, dir)
		wantReason(t, err, test.want)
		if test.want == "" {
			if file != nil {
				file.Remove()
			}
			<-asked
			continue
		}
		var failed *Error
		if errors.As(err, &failed); failed == nil || !failed.Retryable || !strings.Contains(failed.Detail, test.message) {
			t.Errorf("%s: got %v, want one that may heal and says %q", test.url, err, test.message)
		}
		select {
		case host := <-asked:
			t.Errorf("%s: %s was asked", test.url, host)
		default:
		}
		mustBeEmpty(t, dir)
	}
}

func TestAllowList(t *testing.T) {
	list := allowList(t, "https://host/a", "https://host/dir/b/", "http://plain:8080", "https://[2001:db8::1]/x", "https://CASE.example/Y")
	for text, want := range map[string]bool{
		"https://host/a":                  true,
		"https://host/a/":                 true,
		"https://host/a/b.tar.gz":         true,
		"https://host/a/b.tar.gz?x=../..": true,
		"https://HOST:443/a/b":            true,
		"https://host/%61/b":              true,
		"https://host/a//b":               true,
		"https://host/a/..b":              true,
		"https://host/dir/b/c":            true,
		"http://plain:8080":               true,
		"http://plain:8080/any/thing":     true,
		"https://[2001:DB8::1]/x/y":       true,
		"https://case.example/Y":          true,
		"https://me:hush@host/a/b":        true, // The user is no part of the host.

		"https://host.evil/a":           false,
		"https://evil.host/a":           false,
		"https://host@evil/a":           false,
		"https://host:443@evil/a":       false,
		"https://host./a":               false,
		"http://host/a":                 false,
		"https://host:8443/a":           false,
		"https://host":                  false,
		"https://host/":                 false,
		"https://host/ab":               false,
		"https://host/A":                false,
		"https://host//a":               false,
		"https://host/a/../b":           false,
		"https://host/a/%2e%2e/b":       false,
		"https://host/a/.%2E/b":         false,
		"https://host/a/%252e%252e/b":   false,
		"https://host/a/..%2fb":         false,
		"https://host/a%2fb":            false,
		"https://host/a/..%5cb":         false,
		`https://host/a/..\b`:           false,
		"https://host/a/..;/b":          false,
		"https://host/a/..;x=y/b":       false,
		"https://host/a/./b":            false,
		"https://host/x/../a":           false,
		"https://host/dir":              false,
		"https://host/dir/bc":           false,
		"http://plain":                  false,
		"https://plain:8080":            false,
		"https://[2001:db8::2]/x":       false,
		"https://case.example/y":        false,
		"https://evil/?https://host/a/": false,
		"https://evil/#https://host/a/": false,
	} {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := list.allows(u); got != want {
			t.Errorf("%s: got %t, want %t", text, got, want)
		}
		if !AllowList(nil).allows(u) {
			t.Errorf("an empty list refuses %s", text)
		}
	}
}

func TestParseURLPrefixRefuses(t *testing.T) {
	for _, text := range []string{
		"", "host/a", "ftp://host", "https://", "https:///a", "https://me:hush@host/", "https://host/?a", "https://host/a?", "https://host/#a",
		"https://host/#", "https://host/a/../b", "https://host/%2e%2e", "https://host/a%2fb", "https://h\x7f",
	} {
		if prefix, err := ParseURLPrefix(text); err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: got %+v, %v", text, prefix, err)
		}
	}
}

func TestTheAllowListCountsOnEachHop(t *testing.T) {
	elsewhere := serve(t, ok)
	var origin string
	origin = serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a/away":
			http.Redirect(w, r, elsewhere+"/b/secret", http.StatusFound)
		case "/a/up":
			w.Header().Set("Location", "/a/../secret")
			w.WriteHeader(http.StatusFound)
		case "/a/encoded":
			w.Header().Set("Location", "/a/%2e%2e/secret")
			w.WriteHeader(http.StatusFound)
		case "/a/around":
			http.Redirect(w, r, origin+"/a/x", http.StatusFound)
		default:
			ok(w, r)
		}
	})
	for path, want := range map[string]Reason{
		"/a/x": "", "/a/around": "", "/b": URLForbidden, "/a/away": URLForbidden, "/a/up": URLForbidden, "/a/encoded": URLForbidden,
	} {
		fetcher := &Fetcher{Allowed: allowList(t, "https://artifacts.example.com", origin+"/a")}
		_, err := fetcher.Fetch(t.Context(), Request{URL: origin + path}, t.TempDir())
		wantReason(t, err, want)
		var failed *Error
		if errors.As(err, &failed) && (failed.Retryable || strings.Contains(failed.Error(), "secret")) {
			t.Errorf("%s: %v should be final, and not tell where it leads", path, err)
		}
	}
}

func FuzzAllowList(f *testing.F) {
	for _, seed := range []string{"https://host/a/b", "https://host/a/%2e%2e/b", "https://host@evil/a", `https://host/a/..\b`, "https://host:443/a"} {
		f.Add(seed)
	}
	prefix, err := ParseURLPrefix("https://host/a")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, _, err := parse(Request{URL: text})
		if err != nil || !(AllowList{prefix}).allows(u) {
			return
		}
		// Any interpretation by a server is still below the prefix.
		clean := u.JoinPath().EscapedPath()
		if u.Scheme != "https" || !strings.EqualFold(u.Hostname(), "host") || clean != "/a" && !strings.HasPrefix(clean, "/a/") && !strings.HasPrefix(clean, "/%61") {
			t.Errorf("%q is allowed, and means %q", text, u)
		}
	})
}
