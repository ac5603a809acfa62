package status

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
)

func TestResult(t *testing.T) {
	cause := errors.New("cause")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "a", cause)
	for name, test := range map[string]struct {
		err      error
		after    time.Duration
		returned bool
		terminal bool
	}{
		"success":                     {},
		"stalled":                     {err: Stalled("R", cause), returned: true, terminal: true},
		"stalled, wrapped":            {err: fmt.Errorf("more: %w", Stalled("R", cause)), returned: true, terminal: true},
		"with growing delays":         {err: Retry("R", cause), returned: true},
		"of another kind":             {err: cause, returned: true},
		"waiting":                     {err: Waiting("R", 7*time.Second, "for %s", "it"), after: 7 * time.Second},
		"waiting for what is watched": {err: Waiting("R", Watched, "for %s", "it")},
		"conflict":                    {err: fmt.Errorf("writing: %w", conflict), after: time.Second},
		"conflict that has a reason":  {err: Retry("R", conflict), after: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := Result(test.err)
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

func TestAsError(t *testing.T) {
	if AsError(nil) != nil {
		t.Error("no error is no failure")
	}
	plain := AsError(errors.New("plain"))
	if plain.Reason != v2beta2.ReasonUnexpectedError || plain.Stalled {
		t.Errorf("an error without a reason became %+v", plain)
	}
	joined := AsError(errors.Join(errors.New("plain"), Stalled("R", errors.New("x"))))
	if joined.Reason != "R" || !joined.Stalled {
		t.Errorf("a joined failure became %+v", joined)
	}
	cause := errors.New("cause")
	if err := Waiting("R", 1, "more: %w", cause); !errors.Is(err, cause) || err.Error() != "more: cause" {
		t.Errorf("got %v", err)
	}
}

func TestJoin(t *testing.T) {
	cause := errors.New("cause")
	progress := Waiting(v2beta2.ReasonProgressing, 5*time.Second, "soon")
	for name, test := range map[string]struct {
		problems []error
		want     *Error
		message  string
	}{
		"nothing":                         {problems: []error{nil, nil}},
		"one":                             {[]error{nil, Stalled("A", cause)}, &Error{Reason: "A", Stalled: true}, "cause"},
		"the first reason wins":           {[]error{Waiting("A", time.Minute, "a"), Waiting("B", time.Hour, "b")}, &Error{Reason: "A", RetryAfter: time.Minute}, "a\nb"},
		"unless it is one of progress":    {[]error{progress, Waiting("B", time.Minute, "b")}, &Error{Reason: "B", RetryAfter: 5 * time.Second}, "soon\nb"},
		"all are stalled":                 {[]error{Stalled("A", cause), Stalled("B", errors.New("b"))}, &Error{Reason: "A", Stalled: true}, "cause\nb"},
		"one can be retried":              {[]error{Stalled("A", cause), Waiting("B", time.Minute, "b")}, &Error{Reason: "A", RetryAfter: time.Minute}, "cause\nb"},
		"what is watched is not polled":   {[]error{Waiting("A", Watched, "a"), Waiting("B", time.Minute, "b")}, &Error{Reason: "A", RetryAfter: time.Minute}, "a\nb"},
		"growing delays begin with short": {[]error{Waiting("A", time.Minute, "a"), cause}, &Error{Reason: "A"}, "a\ncause"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Join(test.problems...)
			if test.want == nil {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			got := AsError(err)
			if got.Reason != test.want.Reason || got.Stalled != test.want.Stalled || got.RetryAfter != test.want.RetryAfter || got.Error() != test.message {
				t.Errorf("got %+v: %q", got, got)
			}
			for _, problem := range test.problems {
				if problem != nil && !errors.Is(err, problem) {
					t.Errorf("%v is lost", problem)
				}
			}
		})
	}
}

func TestLater(t *testing.T) {
	for name, test := range map[string]struct{ delay, unchanged, want time.Duration }{
		"it has just changed":     {intervals.Poll, 0, intervals.Poll},
		"nothing for a bit":       {intervals.Poll, 10 * time.Second, intervals.Poll},
		"nothing for two minutes": {intervals.Poll, 2 * time.Minute, 30 * time.Second},
		"nothing for a day":       {intervals.Poll, 24 * time.Hour, 5 * time.Minute},
		"a longer delay":          {time.Hour, 24 * time.Hour, time.Hour},
	} {
		if got := Later(test.delay, test.unchanged); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
