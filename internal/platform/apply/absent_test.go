package apply

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errMetadata is that of a client that reads only metadata, if the path has no handler.
var errMetadata = apierrors.NewGenericServerResponse(http.StatusNotFound, "get", schema.GroupResource{}, "", "404 page not found", 0, true)

func TestUnserved(t *testing.T) {
	subscriptions := schema.GroupResource{Group: "operators.coreos.com", Resource: "subscriptions"}
	for name, test := range map[string]struct {
		err  error
		want []string
	}{
		"no error":                   {nil, nil},
		"an object":                  {apierrors.NewNotFound(subscriptions, "files"), nil},
		"another error":              {errors.New("404 page not found"), nil},
		"a path without a handler":   {fmt.Errorf("listing: %w", apierrors.NewGenericServerResponse(http.StatusNotFound, "get", subscriptions, "", "404 page not found", 0, true)), []string{"subscriptions.operators.coreos.com"}},
		"discovery without the kind": {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "operators.coreos.com", Kind: "Subscription"}}, []string{"subscriptions.operators.coreos.com"}},
		"metadata":                   {errMetadata, nil},
	} {
		if got := unserved(test.err); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// The plural of kinds of collections is not English.
func TestCRDsOf(t *testing.T) {
	gv := schema.GroupVersion{Group: "x", Version: "v1"}
	known := meta.NewDefaultRESTMapper([]schema.GroupVersion{gv})
	for kind, plural := range map[string]string{"FileCopy": "filecopys", "Index": "indices"} {
		known.AddSpecific(gv.WithKind(kind), gv.WithResource(plural), gv.WithResource(plural), meta.RESTScopeNamespace)
	}
	for name, test := range map[string]struct {
		mapper *meta.DefaultRESTMapper
		kind   string
		want   []string
	}{
		"told by the API server":       {known, "FileCopy", []string{"filecopys.x"}},
		"an irregular one":             {known, "Index", []string{"indices.x"}},
		"not known, ending in y":       {meta.NewDefaultRESTMapper(nil), "FileCopy", []string{"filecopies.x", "filecopys.x"}},
		"not known, ending in s":       {meta.NewDefaultRESTMapper(nil), "RacfAccess", []string{"racfaccesses.x", "racfaccesss.x"}},
		"not known, with one possible": {known, "DataFile", []string{"datafiles.x"}},
	} {
		if got := crdsOf(test.mapper, schema.GroupKind{Group: "x", Kind: test.kind}); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if !isUnserved(errMetadata) || isUnserved(apierrors.NewNotFound(schema.GroupResource{}, "a")) {
		t.Error("a missing object was taken for a kind that is not served")
	}
}
