package reserved

import (
	"fmt"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

var (
	pemKey = "sha256:" + strings.Repeat("0a", 32)
	gpgKey = strings.Repeat("0A", 20)
)

func TestParseRefuses(t *testing.T) {
	for entry, want := range map[string]string{
		"acme":                                "want DOMAIN=namespace:NAMESPACE",
		"acme=prod":                           "want DOMAIN=namespace:NAMESPACE",
		"acme=user:prod":                      "want DOMAIN=namespace:NAMESPACE",
		"=namespace:prod":                     "is not a domain",
		"Acme=namespace:prod":                 "is not a domain",
		"*=namespace:prod":                    "is not a domain",
		"acme/=namespace:prod":                "is not a name",
		"acme/a/b=namespace:prod":             "is not a name",
		"acme=namespace:":                     "is not a namespace",
		"acme=namespace:Prod":                 "is not a namespace",
		"acme=key:" + pemKey[7:]:              "is not the fingerprint",
		"acme=key:" + strings.ToLower(gpgKey): "is not the fingerprint",
		"acme=key:sha256:0a":                  "is not the fingerprint",
		"acme=key:":                           "is not the fingerprint",
	} {
		_, err := Parse([]string{"other=namespace:prod", entry})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), fmt.Sprintf("%q", entry)) {
			t.Errorf("%s: got %v, want %q", entry, err, want)
		}
	}
	if _, err := Parse([]string{"a", "b"}); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("not all errors are reported: %v", err)
	}
}

func TestCheck(t *testing.T) {
	domains, err := Parse([]string{
		"acme=namespace:prod", " acme=key:" + pemKey, "acme=key:" + gpgKey, "", "acme/files=namespace:files", "acme=namespace:prod",
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		domain, name, namespace, key, refused string
	}{
		"its namespace":              {"acme", "queues", "prod", "", ""},
		"its key":                    {"acme", "queues", "team", pemKey, ""},
		"its GPG key":                {"acme", "queues", "team", gpgKey, ""},
		"another domain":             {"free", "queues", "team", "", ""},
		"a domain that begins alike": {"acme.x", "queues", "team", "", ""},
		"another namespace":          {"acme", "queues", "team", "", `domain "acme" is reserved for archives signed with the key ` + gpgKey + ", archives signed with the key " + pemKey + `, namespace "prod": this OperatorCollection is in namespace "team", and its archive was not verified with a signature.`},
		"another key":                {"acme", "queues", "team", "sha256:b", "its archive is signed with the key sha256:b."},
		"a name of its own":          {"acme", "files", "files", "", ""},
		"not for the whole domain":   {"acme", "files", "prod", pemKey, `collection acme/files is reserved for namespace "files"`},
		"only that name":             {"acme", "queues", "files", "", `domain "acme" is reserved`},
		"a namespace is not a key":   {"acme", "queues", "", "prod", "is reserved"},
	} {
		err := domains.Check(model.ID{Domain: test.domain, Name: test.name}, test.namespace, test.key)
		if test.refused == "" && err != nil || test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
			t.Errorf("%s: got %v, want %q", name, err, test.refused)
		}
	}
	if err := (Domains)(nil).Check(model.ID{Domain: "acme", Name: "queues"}, "team", ""); err != nil {
		t.Errorf("without reservations: %v", err)
	}
	var many []string
	for i := range 8 {
		many = append(many, fmt.Sprintf("acme=namespace:n%d", i))
	}
	domains, _ = Parse(many)
	if err := domains.Check(model.ID{Domain: "acme", Name: "queues"}, "team", ""); err == nil || !strings.Contains(err.Error(), `"n4", 3 more:`) {
		t.Errorf("a long list: %v", err)
	}
}
