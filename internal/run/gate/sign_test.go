package gate

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	key = Key(bytes.Repeat([]byte("k"), RecordKeyBytes))
	id  = Identity{Group: "acme.example.com", Kind: "Queue", Namespace: "team-a", Name: "q1"}
)

func TestVerifyReturnsWhatWasSigned(t *testing.T) {
	for name, r := range map[string]Record{
		"empty": {},
		"full": {
			Fingerprint: current, Event: EventDelete, Outcome: OutcomeFailed, RunID: "r1", Finished: now, Version: "1.0.0",
			Digest: "sha256:d", Attempt: 3, NextRetry: now, Due: now, Requested: "now\n\"\x00", Deleted: "u1",
		},
	} {
		annotation := key.Sign(id, r)
		if got := key.Verify(id, annotation); got == nil || !cmp.Equal(r, *got) {
			t.Errorf("%s: %s is %+v, want %+v", name, annotation, got, r)
		}
		if again := key.Sign(id, r); again != annotation {
			t.Errorf("%s: signed again it is %s, not %s", name, again, annotation)
		}
	}
}

func TestVerifyRejectsForgedRecords(t *testing.T) {
	annotation := key.Sign(id, *record(nil))
	document, signature, _ := strings.Cut(annotation, ".")
	encode := base64.RawURLEncoding.EncodeToString
	with := func(change func(*Identity)) Identity {
		other := id
		change(&other)
		return other
	}
	// The signature of a document that is not a record, made with the right key.
	odd := []byte(`[]`)
	for name, tc := range map[string]struct {
		key        Key
		id         Identity
		annotation string
	}{
		"nothing":             {key, id, ""},
		"no signature":        {key, id, document},
		"empty signature":     {key, id, document + "."},
		"part of a signature": {key, id, document + "." + signature[:20]},
		"longer signature":    {key, id, annotation + "AA"},
		"two signatures":      {key, id, annotation + "." + signature},
		"white space":         {key, id, annotation + "\n"},
		"other document":      {key, id, encode([]byte(`{"outcome":"Succeeded"}`)) + "." + signature},
		"no base64":           {key, id, "{}." + signature},
		"not a record":        {key, id, encode(odd) + "." + encode(key.signature(id, odd))},
		"too long":            {key, id, encode(bytes.Repeat([]byte(" "), maxAnnotation)) + "." + signature},
		"other key":           {Key("x"), id, annotation},
		"no key":              {nil, id, annotation},
		"other group":         {key, with(func(i *Identity) { i.Group = "x" }), annotation},
		"other kind":          {key, with(func(i *Identity) { i.Kind = "x" }), annotation},
		"other namespace":     {key, with(func(i *Identity) { i.Namespace = "team-b" }), annotation},
		"other name":          {key, with(func(i *Identity) { i.Name = "q2" }), annotation},
		"moved bytes":         {key, with(func(i *Identity) { i.Namespace, i.Name = "team-aq", "1" }), annotation},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.key.Verify(tc.id, tc.annotation); got != nil {
				t.Errorf("accepted as %+v", got)
			}
		})
	}
}

func TestAnEmptyKeySignsNothing(t *testing.T) {
	if got := (Key{}).Sign(id, *record(nil)); got != "" {
		t.Errorf("signed as %s", got)
	}
}

// FuzzVerify: whatever is accepted has exactly the form that Sign writes.
func FuzzVerify(f *testing.F) {
	f.Add(key.Sign(id, Record{}))
	f.Add(key.Sign(id, *record(nil)))
	f.Add("e30.")
	f.Add(".")
	f.Fuzz(func(t *testing.T, annotation string) {
		if r := key.Verify(id, annotation); r != nil && key.Sign(id, *r) != annotation {
			t.Errorf("%q is accepted as %+v", annotation, r)
		}
	})
}
