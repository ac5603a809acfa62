package status

import (
	"errors"
	"fmt"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
)

const (
	// Watched is the delay for what a watch reports: the object is not reconciled again before.
	Watched = time.Duration(math.MaxInt64)
	// maxPoll limits growing delays.
	maxPoll = 5 * time.Minute
)

// Error is an error with a condition reason and a retry policy. Reconcile steps return it.
type Error struct {
	// Reason is a Reason constant of the API.
	Reason string
	// Stalled is true if only a change of the object's own spec can resolve the error. It is not retried.
	Stalled bool
	// RetryAfter is the delay before the next attempt. Zero means exponential backoff, and [Watched] no attempt before something
	// changes.
	RetryAfter time.Duration
	// Err is the cause. Its text is the message of the condition.
	Err error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Stalled returns an error that only a change of the object's spec can resolve.
func Stalled(reason string, err error) error {
	return &Error{Reason: reason, Stalled: true, Err: err}
}

// Retry returns an error that is retried with exponential backoff.
func Retry(reason string, err error) error {
	return &Error{Reason: reason, Err: err}
}

// Waiting returns an error for something that the object waits for. It is retried after a delay, or earlier if a watch
// triggers a reconcile.
func Waiting(reason string, after time.Duration, format string, args ...any) error {
	return &Error{Reason: reason, RetryAfter: after, Err: fmt.Errorf(format, args...)}
}

// IsProgress reports whether a reason signals work in progress that needs no intervention.
func IsProgress(reason string) bool {
	switch reason {
	case v2beta2.ReasonProgressing, v2beta2.ReasonTerminating, v2beta2.ReasonCollectionTerminating,
		v2beta2.ReasonCollectionNotImported, v2beta2.ReasonFinalizingInstances, v2beta2.ReasonArchiveNotUploaded,
		v2beta2.ReasonReplicating, v2beta2.ReasonUpgradePending:
		return true
	}
	return false
}

// Join joins independent errors. The first reason that does not signal progress wins, and so does the shortest delay; growing
// delays, which begin short, count as the shortest. The result is stalled if all errors are.
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

// AsError returns the Error in err's tree. Any other error, such as an API error, gets [v2beta2.ReasonUnexpectedError].
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

// Is reports whether err has a reason of its own. Such an error is reported in status without aborting work on the rest of
// the object.
func Is(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

// Result returns the result of a reconciler for the error of its steps.
func Result(err error) (ctrl.Result, error) {
	e := AsError(err)
	switch {
	case e == nil:
		return ctrl.Result{}, nil
	case e.Stalled:
		return ctrl.Result{}, reconcile.TerminalError(err)
	case e.RetryAfter == Watched:
		return ctrl.Result{}, nil
	case e.RetryAfter > 0:
		return ctrl.Result{RequeueAfter: e.RetryAfter}, nil
	case apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: intervals.Conflict}, nil
	}
	return ctrl.Result{}, err
}

// Later returns the delay before the next look at what has stayed as it is for a time. It grows with that time, to five minutes:
// something that does not change must not be read often. A longer delay remains.
func Later(delay, unchanged time.Duration) time.Duration {
	return max(delay, min(unchanged/4, maxPoll))
}

// ChangedInterval is how soon an archive whose content changed is downloaded again, to see whether it changed back.
const ChangedInterval = 10 * time.Minute

// BudgetExceeded gives the error of a budget its reason. Nil remains nil. It is tried again after [ChangedInterval] at the latest.
func BudgetExceeded(err error) error {
	if err == nil {
		return nil
	}
	return Waiting(v2beta2.ReasonBudgetExceeded, ChangedInterval, "%w", err)
}
