package controller

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// failure is an error as status shows it. Steps return it; only the status writers read it.
type failure struct {
	// reason is a Reason constant of the API.
	reason string
	// stalled says that only a change of the object's spec can help: it is not tried again.
	stalled bool
	// retryAfter is when to try again. Zero means with growing delays, up to maxRetryDelay.
	retryAfter time.Duration
	err        error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// stalled is a failure that the author of the object has to fix.
func stalled(reason string, err error) error {
	return &failure{reason: reason, stalled: true, err: err}
}

// retry is a failure that may heal, tried again with growing delays.
func retry(reason string, err error) error {
	return &failure{reason: reason, err: err}
}

// waiting says what the object waits for. A watch, or at the latest the delay, brings it back.
func waiting(reason string, after time.Duration, format string, args ...any) error {
	return &failure{reason: reason, retryAfter: after, err: fmt.Errorf(format, args...)}
}

// combine joins problems that did not keep the others from being served. The first one's reason stands for all, before
// all the first that needs help, and the soonest retry.
func combine(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	combined := &failure{reason: asFailure(problems[0]).reason, stalled: true, err: errors.Join(problems...)}
	for _, problem := range problems {
		f := asFailure(problem)
		if isProgress(combined.reason) {
			combined.reason = f.reason
		}
		if f.stalled {
			continue
		}
		combined.stalled = false
		if combined.retryAfter == 0 || f.retryAfter > 0 && f.retryAfter < combined.retryAfter {
			combined.retryAfter = f.retryAfter
		}
	}
	return combined
}

// asFailure gives every error a reason.
func asFailure(err error) *failure {
	if err == nil {
		return nil
	}
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return &failure{reason: v2beta2.ReasonApplyFailed, err: err}
}

// outcome is what a reconciler returns to the work queue for the error of its steps.
func outcome(err error) (ctrl.Result, error) {
	f := asFailure(err)
	switch {
	case f == nil:
		return ctrl.Result{}, nil
	case f.stalled:
		return ctrl.Result{}, reconcile.TerminalError(err)
	case f.retryAfter > 0:
		return ctrl.Result{RequeueAfter: f.retryAfter}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, err
}
