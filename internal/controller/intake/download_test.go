package intake

import (
	"errors"
	"fmt"
	"testing"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/verify"
	"github.com/collection-operator/collection-operator/test/project"
)

// Every reason of package fetch has one of the API, and a new one cannot be forgotten unseen.
func TestFetchFailure(t *testing.T) {
	wanted := map[fetch.Reason]string{
		fetch.InvalidURL: v2beta2.ReasonInvalidURL, fetch.NotFound: v2beta2.ReasonArchiveNotFound,
		fetch.Unauthorized: v2beta2.ReasonUnauthorized, fetch.Rejected: v2beta2.ReasonFetchFailed,
		fetch.ServerError: v2beta2.ReasonSourceUnreachable, fetch.Unreachable: v2beta2.ReasonSourceUnreachable,
		fetch.UntrustedServer: v2beta2.ReasonSourceUnreachable, fetch.RedirectRefused: v2beta2.ReasonFetchFailed,
		fetch.URLForbidden: v2beta2.ReasonSourceForbidden, fetch.AddressForbidden: v2beta2.ReasonSourceForbidden,
		fetch.TooLarge: v2beta2.ReasonArchiveTooLarge, fetch.Truncated: v2beta2.ReasonArchiveTruncated,
		fetch.Timeout: v2beta2.ReasonFetchTimeout, fetch.Canceled: v2beta2.ReasonFetchFailed,
		fetch.StorageFailed: v2beta2.ReasonStorageFailed,
	}
	for _, reason := range project.ConstantsOfType(t, "internal/source/fetch", "Reason") {
		want, known := wanted[fetch.Reason(reason)]
		if !known {
			t.Errorf("what becomes of the fetch reason %s is not decided", reason)
			continue
		}
		for _, retryable := range []bool{true, false} {
			f := status.AsError(fetchFailure(&fetch.Error{Reason: fetch.Reason(reason), Retryable: retryable}))
			if f.Reason != want || f.Stalled == retryable {
				t.Errorf("%s, retryable %v: got %s, stalled %v", reason, retryable, f.Reason, f.Stalled)
			}
		}
	}
	if f := status.AsError(fetchFailure(errors.New("other"))); f.Reason != v2beta2.ReasonFetchFailed || f.Stalled {
		t.Errorf("got %+v", f)
	}
}

func TestVerifyFailure(t *testing.T) {
	for err, want := range map[error]status.Error{
		verify.ErrDigestMismatch:   {Reason: v2beta2.ReasonDigestMismatch, Stalled: true},
		verify.ErrInvalidDigest:    {Reason: v2beta2.ReasonDigestMismatch, Stalled: true},
		verify.ErrUnverified:       {Reason: v2beta2.ReasonNotVerified, Stalled: true},
		verify.ErrInvalidEvidence:  {Reason: v2beta2.ReasonSignatureSecretInvalid, RetryAfter: intervals.Missing},
		verify.ErrInvalidSignature: {Reason: v2beta2.ReasonSignatureInvalid, RetryAfter: status.ChangedInterval},
		verify.ErrContentChanged:   {Reason: v2beta2.ReasonStorageFailed},
		errors.New("broken disk"):  {Reason: v2beta2.ReasonStorageFailed},

		error(&archive.Error{Reason: archive.NotGzip, Err: errors.New("x")}): {Reason: v2beta2.ReasonArchiveNotGzip, Stalled: true},
	} {
		got := status.AsError(verifyFailure(fmt.Errorf("wrapped: %w", err)))
		if got.Reason != want.Reason || got.Stalled != want.Stalled || got.RetryAfter != want.RetryAfter || !errors.Is(got, err) {
			t.Errorf("%v: got %+v, want %+v", err, got, want)
		}
	}
}

func TestFetchResult(t *testing.T) {
	for want, err := range map[string]error{
		metrics.ResultSucceeded:       nil,
		metrics.ResultNotModified:     fmt.Errorf("the server: %w", fetch.ErrNotModified),
		v2beta2.ReasonArchiveNotFound: status.Retry(v2beta2.ReasonArchiveNotFound, errors.New("404")),
		v2beta2.ReasonUnexpectedError: errors.New("anything"),
	} {
		if got := fetchResult(err); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}
