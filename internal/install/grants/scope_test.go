package grants

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

const (
	ofCollection = render.AnnotationGrantCollection
	ofNamespace  = render.AnnotationGrantNamespace
	in           = render.AnnotationGrantIn
	ofDigest     = render.AnnotationGrantDigest
)

func TestScopeOfAGrant(t *testing.T) {
	archive, other := digest.FromString("one"), digest.FromString("two")
	grantee := render.Grantee{ID: model.ID{Domain: "acme", Name: "things"}, Namespace: "zos", Digest: archive}
	for name, test := range map[string]struct {
		annotations map[string]string
		includes    bool
		appliesIn   []string
		concerns    bool
	}{
		"all archives":            {map[string]string{ofCollection: "acme/things", ofNamespace: "zos"}, true, []string{"", "zos", "other"}, true},
		"this archive":            {map[string]string{ofCollection: "acme/things", ofNamespace: "zos", ofDigest: archive.String()}, true, []string{"", "zos", "other"}, true},
		"another archive":         {map[string]string{ofCollection: "acme/things", ofNamespace: "zos", ofDigest: other.String()}, false, []string{"", "zos", "other"}, true},
		"one namespace":           {map[string]string{ofCollection: "acme/things", ofNamespace: "zos", in: "zos"}, true, []string{"zos"}, true},
		"two namespaces":          {map[string]string{ofCollection: "acme/things", ofNamespace: "zos", in: "other, zos"}, true, []string{"zos", "other"}, true},
		"another claim":           {map[string]string{ofCollection: "acme/things", ofNamespace: "other"}, false, []string{"", "zos", "other"}, false},
		"another collection":      {map[string]string{ofCollection: "acme/thing", ofNamespace: "zos"}, false, []string{"", "zos", "other"}, false},
		"what has nothing to say": {map[string]string{ofCollection: "acme/things", ofNamespace: "zos", "example.com/grant-x": "y"}, true, []string{"", "zos", "other"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			scope, err := ParseScope(test.annotations)
			if err != nil {
				t.Fatal(err)
			}
			if scope.includes(grantee) != test.includes || scope.mayConcern(grantee) != test.concerns {
				t.Errorf("includes %v, concerns %v", scope.includes(grantee), scope.mayConcern(grantee))
			}
			var applies []string
			for _, namespace := range []string{"", "zos", "other"} {
				if scope.appliesIn(namespace) {
					applies = append(applies, namespace)
				}
			}
			if strings.Join(applies, ",") != strings.Join(test.appliesIn, ",") {
				t.Errorf("applies in %q", applies)
			}
		})
	}
}

func TestMalformedScopes(t *testing.T) {
	grantee := render.Grantee{ID: model.ID{Domain: "acme", Name: "things"}, Namespace: "zos"}
	for name, test := range map[string]struct {
		annotations map[string]string
		problem     string
		concerns    bool
	}{
		"nothing":                      {nil, "grant-collection: \"\" is not <domain>/<name>", true},
		"no collection":                {map[string]string{ofNamespace: "zos"}, "grant-collection", true},
		"no collection, another claim": {map[string]string{ofNamespace: "other"}, "grant-collection", false},
		"no domain":                    {map[string]string{ofCollection: "/things", ofNamespace: "zos"}, "grant-collection", true},
		"three parts":                  {map[string]string{ofCollection: "acme/things/more", ofNamespace: "zos"}, "grant-collection", true},
		"a wildcard":                   {map[string]string{ofCollection: "acme/*", ofNamespace: "zos"}, "\"acme/*\" is not", true},
		"no namespace":                 {map[string]string{ofCollection: "acme/things"}, "grant-namespace: \"\" is not the name", true},
		"no namespace, another":        {map[string]string{ofCollection: "acme/others"}, "grant-namespace", false},
		"any namespace":                {map[string]string{ofCollection: "acme/things", ofNamespace: "*"}, "grant-namespace: \"*\"", true},
		"in nothing":                   {map[string]string{ofCollection: "acme/things", ofNamespace: "zos", in: ""}, "grant-in", true},
		"in a list that ends":          {map[string]string{ofCollection: "acme/things", ofNamespace: "zos", in: "a,"}, "grant-in", true},
		"a short digest":               {map[string]string{ofCollection: "acme/things", ofNamespace: "zos", ofDigest: "sha256:01"}, "grant-digest", true},
		"an empty digest":              {map[string]string{ofCollection: "acme/things", ofNamespace: "zos", ofDigest: ""}, "grant-digest", true},
		"a misspelt annotation":        {map[string]string{ofCollection: "acme/things", ofNamespace: "zos", "zoscb.ibm.com/grant-digets": "x"}, "grant-digets: it is unknown", true},
		"a text without end":           {map[string]string{ofCollection: strings.Repeat("x", 100_000), ofNamespace: "zos"}, "grant-collection", true},
	} {
		t.Run(name, func(t *testing.T) {
			scope, err := ParseScope(test.annotations)
			if err == nil || !strings.Contains(err.Error(), test.problem) || len(err.Error()) > 500 {
				t.Fatalf("got %v", err)
			}
			if scope.mayConcern(grantee) != test.concerns {
				t.Errorf("concerns %v", !test.concerns)
			}
		})
	}
}
