// Package status turns the errors of reconcile steps into conditions, events and the next attempt. It is the only place
// that writes status.
package status

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

const (
	// PollInterval is the delay before another look at what no watch reports.
	PollInterval = 5 * time.Second
	// MissingInterval is the delay before another look at something that a user has to provide.
	MissingInterval = time.Minute
)

// Error is an error with its reason and what may resolve it. Reconcile steps return it; this package alone reads it.
type Error struct {
	// Reason is a Reason constant of the API.
	Reason string
	// Stalled says that only a change of the object's own spec can help. It is not retried.
	Stalled bool
	// RetryAfter is the delay before the next attempt. Zero means growing delays.
	RetryAfter time.Duration
	// Err has the message.
	Err error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Stalled returns an error that the author of the object has to fix.
func Stalled(reason string, err error) error {
	return &Error{Reason: reason, Stalled: true, Err: err}
}

// Retry returns an error that is retried with growing delays.
func Retry(reason string, err error) error {
	return &Error{Reason: reason, Err: err}
}

// Waiting returns an error that says what the object waits for. A watch triggers the next attempt, or the delay does.
func Waiting(reason string, after time.Duration, format string, args ...any) error {
	return &Error{Reason: reason, RetryAfter: after, Err: fmt.Errorf(format, args...)}
}

// Join joins independent problems. The first non-progress reason wins, and the soonest retry. The result is stalled if all
// of them are.
func Join(problems ...error) error {
	var joined *Error
	var errs []error
	for _, problem := range problems {
		e := AsError(problem)
		if e == nil {
			continue
		}
		errs = append(errs, problem)
		if joined == nil {
			joined = &Error{Reason: e.Reason, Stalled: e.Stalled, RetryAfter: e.RetryAfter}
			continue
		}
		if IsProgress(joined.Reason) {
			joined.Reason = e.Reason
		}
		switch {
		case e.Stalled:
		case joined.Stalled:
			joined.Stalled, joined.RetryAfter = false, e.RetryAfter
		default:
			joined.RetryAfter = min(joined.RetryAfter, e.RetryAfter)
		}
	}
	if joined == nil {
		return nil
	}
	joined.Err = errors.Join(errs...)
	return joined
}

// AsError returns the Error in err's tree. An error without one, such as of a request to the API server, gets
// [v2beta2.ReasonUnexpectedError].
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Reason: v2beta2.ReasonUnexpectedError, Err: err}
}

// Is says whether err has a reason of its own, which is shown in status while work on the rest of the object goes on.
func Is(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

// Result returns what a reconciler returns for the error of its steps.
func Result(err error) (ctrl.Result, error) {
	e := AsError(err)
	switch {
	case e == nil:
		return ctrl.Result{}, nil
	case e.Stalled:
		return ctrl.Result{}, reconcile.TerminalError(err)
	case e.RetryAfter > 0:
		return ctrl.Result{RequeueAfter: e.RetryAfter}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	return ctrl.Result{}, err
}
