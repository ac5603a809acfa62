package fetch

import (
	"net/http"
	"regexp"
)

// Validators are the headers of a response that are used for conditional requests.
type Validators struct {
	// ETag is the header of that name, with its quotes.
	ETag string
	// LastModified is the header Last-Modified.
	LastModified string
}

// maxETag is the maximum length of an ETag. Longer ones are ignored.
const maxETag = 256

var etagPattern = regexp.MustCompile(`^(W/)?"[\x21\x23-\x7e]*"$`)

func (v Validators) empty() bool { return v == Validators{} }

// apply makes a request conditional. Servers that support ETags ignore the date.
func (v Validators) apply(header http.Header) {
	if v.ETag != "" {
		header.Set("If-None-Match", v.ETag)
	}
	if v.LastModified != "" {
		header.Set("If-Modified-Since", v.LastModified)
	}
}

// validatorsOf returns the validators of a response, without those that are malformed or too long.
func validatorsOf(header http.Header) Validators {
	var v Validators
	if etag := header.Get("ETag"); len(etag) <= maxETag && etagPattern.MatchString(etag) {
		v.ETag = etag
	}
	if modified, err := http.ParseTime(header.Get("Last-Modified")); err == nil {
		v.LastModified = modified.UTC().Format(http.TimeFormat)
	}
	return v
}
