package apply

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A retry cannot resolve errors about the object itself, but all others.
func TestRefused(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"invalid":   {apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "a", nil), true},
		"forbidden": {apierrors.NewForbidden(resource, "a", errors.New("no")), true},
		"bad":       {apierrors.NewBadRequest("no"), true},
		"too large": {apierrors.NewRequestEntityTooLargeError("no"), true},
		"conflict":  {apierrors.NewConflict(resource, "a", errors.New("no")), false},
		"timeout":   {apierrors.NewServerTimeout(resource, "patch", 1), false},
		"internal":  {apierrors.NewInternalError(errors.New("no")), false},
		"network":   {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			got := refused(named("apps/v1", "Deployment", "ns", "a"), test.err)
			var refusal *RefusedError
			if errors.As(got, &refusal) != test.want {
				t.Errorf("got %T: %v", got, got)
			}
			if !errors.Is(got, test.err) {
				t.Error("the cause is lost")
			}
		})
	}
}
