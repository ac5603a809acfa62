package apply

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestUnserved(t *testing.T) {
	subscriptions := schema.GroupResource{Group: "operators.coreos.com", Resource: "subscriptions"}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"no error":                   {nil, ""},
		"an object":                  {apierrors.NewNotFound(subscriptions, "files"), ""},
		"another error":              {errors.New("404 page not found"), ""},
		"a path without a handler":   {fmt.Errorf("listing: %w", apierrors.NewGenericServerResponse(http.StatusNotFound, "get", subscriptions, "", "404 page not found", 0, true)), "subscriptions.operators.coreos.com"},
		"discovery without the kind": {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "operators.coreos.com", Kind: "Subscription"}}, "subscriptions.operators.coreos.com"},
	} {
		if got := unserved(test.err); got != test.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
