package fetch

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// AllowList lists the URL prefixes from which archives may be fetched. An empty list allows all URLs.
type AllowList []URLPrefix

// URLPrefix matches all URLs with the same scheme, host and port, whose path begins with its path segments.
type URLPrefix struct {
	scheme, host, port string
	segments           []string
}

// ParseURLPrefix parses a prefix such as https://artifacts.example.com/collections. A trailing slash is ignored.
func ParseURLPrefix(text string) (URLPrefix, error) {
	u, err := url.Parse(text)
	if err != nil {
		return URLPrefix{}, fmt.Errorf("%q is not a URL", text)
	}
	if err := checkURL(u); err != nil {
		return URLPrefix{}, fmt.Errorf("%q: it must begin with https:// or http:// and name a host", text)
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#") {
		return URLPrefix{}, fmt.Errorf("%q: it must hold no user, query or fragment", u.Redacted())
	}
	segments, plain := pathSegments(u)
	if !plain {
		return URLPrefix{}, fmt.Errorf("%q: its path must hold no dot segments, backslashes, encoded slashes or percent signs", text)
	}
	if last := len(segments) - 1; last >= 0 && segments[last] == "" {
		segments = segments[:last]
	}
	return URLPrefix{scheme: u.Scheme, host: strings.ToLower(u.Hostname()), port: port(u), segments: segments}, nil
}

// allows reports whether a URL may be fetched. It compares path segments, not text: https://host/a allows neither
// https://host.evil/a nor https://host/ab nor https://host/a/../b.
func (l AllowList) allows(u *url.URL) bool {
	if len(l) == 0 {
		return true
	}
	segments, plain := pathSegments(u)
	return plain && slices.ContainsFunc(l, func(p URLPrefix) bool {
		return p.scheme == u.Scheme && p.host == strings.ToLower(u.Hostname()) && p.port == port(u) &&
			len(segments) >= len(p.segments) && slices.Equal(p.segments, segments[:len(p.segments)])
	})
}

// pathSegments returns the decoded path segments of a URL. They are not plain if a server might interpret the path
// differently: it may resolve dot segments, also those with parameters, treat a backslash as a slash, or decode twice.
func pathSegments(u *url.URL) (segments []string, plain bool) {
	encoded := strings.ToLower(u.EscapedPath())
	if strings.ContainsAny(u.Path, `\%`) || strings.Contains(encoded, "%2f") {
		return nil, false
	}
	path := strings.TrimPrefix(u.Path, "/")
	if path == "" {
		return nil, true
	}
	segments = strings.Split(path, "/")
	for _, segment := range segments {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return nil, false
		}
	}
	return segments, true
}

func port(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

func notAllowed(from, current *url.URL) *Error {
	if from == current {
		return failure(URLForbidden, "the URL is not below a prefix that the manager allows", nil)
	}
	return failure(URLForbidden, "the server redirects to a URL that is not below a prefix that the manager allows", nil)
}

func checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return failure(InvalidURL, fmt.Sprintf("the URL's scheme is %q; only https and http are supported", u.Scheme), nil)
	}
	if u.Hostname() == "" {
		return failure(InvalidURL, "the URL names no host", nil)
	}
	return nil
}
