package controller

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

func TestOutcome(t *testing.T) {
	cause := errors.New("cause")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "a", cause)
	for name, test := range map[string]struct {
		err      error
		after    time.Duration
		returned bool
		terminal bool
	}{
		"success":                    {},
		"stalled":                    {err: stalled("R", cause), returned: true, terminal: true},
		"stalled, wrapped":           {err: fmt.Errorf("more: %w", stalled("R", cause)), returned: true, terminal: true},
		"with growing delays":        {err: retry("R", cause), returned: true},
		"of another kind":            {err: cause, returned: true},
		"waiting":                    {err: waiting("R", 7*time.Second, "for %s", "it"), after: 7 * time.Second},
		"conflict":                   {err: fmt.Errorf("writing: %w", conflict), after: time.Second},
		"conflict that has a reason": {err: retry("R", conflict), after: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := outcome(test.err)
			if result.RequeueAfter != test.after {
				t.Errorf("again after %s, want %s", result.RequeueAfter, test.after)
			}
			if (err != nil) != test.returned {
				t.Errorf("returned %v", err)
			}
			if errors.Is(err, reconcile.TerminalError(nil)) != test.terminal {
				t.Errorf("terminal is not %v: %v", test.terminal, err)
			}
			if test.returned && !errors.Is(err, test.err) {
				t.Errorf("%v has lost its cause", err)
			}
		})
	}
}

func TestAsFailure(t *testing.T) {
	if asFailure(nil) != nil {
		t.Error("no error is no failure")
	}
	plain := asFailure(errors.New("plain"))
	if plain.reason != v2beta2.ReasonApplyFailed || plain.stalled {
		t.Errorf("an error without a reason became %+v", plain)
	}
	joined := asFailure(errors.Join(errors.New("plain"), stalled("R", errors.New("x"))))
	if joined.reason != "R" || !joined.stalled {
		t.Errorf("a joined failure became %+v", joined)
	}
	cause := errors.New("cause")
	if err := waiting("R", 1, "more: %w", cause); !errors.Is(err, cause) || err.Error() != "more: cause" {
		t.Errorf("got %v", err)
	}
}
