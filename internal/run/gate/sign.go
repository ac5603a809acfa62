package gate

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
)

// maxAnnotation is the maximum length in bytes of an annotation that Verify reads: the API server's limit for all annotations
// of an object.
const maxAnnotation = 256 << 10

// Key signs records and keys fingerprints.
type Key []byte

// Identity is the resource that a record belongs to.
type Identity struct{ Group, Kind, Namespace, Name string }

// Sign returns the annotation for a record: the record as JSON and its signature, both in base64url. It is empty if the key
// is empty.
func (k Key) Sign(id Identity, r Record) string {
	document, err := json.Marshal(r)
	if err != nil || len(k) == 0 { // A time after the year 9999 is not JSON.
		return ""
	}
	encoding := base64.RawURLEncoding
	return encoding.EncodeToString(document) + "." + encoding.EncodeToString(k.signature(id, document))
}

// Verify returns the record of an annotation, or nil if it was not signed with this key for this resource.
func (k Key) Verify(id Identity, annotation string) *Record {
	// encoding/base64 ignores line breaks.
	if len(k) == 0 || len(annotation) > maxAnnotation || strings.ContainsAny(annotation, "\r\n") {
		return nil
	}
	first, second, _ := strings.Cut(annotation, ".")
	encoding := base64.RawURLEncoding.Strict()
	document, err := encoding.DecodeString(first)
	if err != nil {
		return nil
	}
	signature, err := encoding.DecodeString(second)
	if err != nil || !hmac.Equal(signature, k.signature(id, document)) {
		return nil
	}
	var r Record
	if err := json.Unmarshal(document, &r); err != nil {
		return nil
	}
	return &r
}

func (k Key) signature(id Identity, document []byte) []byte {
	return k.hash("record", []byte(id.Group), []byte(id.Kind), []byte(id.Namespace), []byte(id.Name), document)
}

// hash returns the HMAC-SHA256 of the parts. Hashes for different purposes differ. Each part is preceded by its length, so
// that no other parts have the same hash.
func (k Key) hash(purpose string, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, k)
	for _, part := range append([][]byte{[]byte(purpose)}, parts...) {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write(part)
	}
	return h.Sum(nil)
}
