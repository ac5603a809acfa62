package intake

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/internal/source/verify"
)

// fetchResult is the label of a download that ended with an error or nil.
func fetchResult(err error) string {
	switch {
	case err == nil:
		return metrics.ResultSucceeded
	case errors.Is(err, fetch.ErrNotModified):
		return metrics.ResultNotModified
	}
	return status.AsError(err).Reason
}

// fetchReasons has the reasons of downloads that have one of their own. All others share FetchFailed.
var fetchReasons = map[fetch.Reason]string{
	fetch.InvalidURL:       v2beta2.ReasonInvalidURL,
	fetch.NotFound:         v2beta2.ReasonArchiveNotFound,
	fetch.Unauthorized:     v2beta2.ReasonUnauthorized,
	fetch.ServerError:      v2beta2.ReasonSourceUnreachable,
	fetch.Unreachable:      v2beta2.ReasonSourceUnreachable,
	fetch.UntrustedServer:  v2beta2.ReasonSourceUnreachable,
	fetch.URLForbidden:     v2beta2.ReasonSourceForbidden,
	fetch.AddressForbidden: v2beta2.ReasonSourceForbidden,
	fetch.TooLarge:         v2beta2.ReasonArchiveTooLarge,
	fetch.Truncated:        v2beta2.ReasonArchiveTruncated,
	fetch.Timeout:          v2beta2.ReasonFetchTimeout,
	fetch.StorageFailed:    v2beta2.ReasonStorageFailed,
}

// storageFailure gives an error of the artifact store its reason.
func storageFailure(err error) error {
	if store.IsFull(err) {
		return status.Retry(v2beta2.ReasonStorageFull, fmt.Errorf(
			"the manager's volume for archives is full: enlarge it, or delete OperatorCollections that are not needed; what is installed is unaffected: %w", err))
	}
	return status.Retry(v2beta2.ReasonStorageFailed, err)
}

func fetchFailure(err error) error {
	if store.IsFull(err) {
		return storageFailure(err)
	}
	var f *fetch.Error
	if !errors.As(err, &f) {
		return status.Retry(v2beta2.ReasonFetchFailed, err)
	}
	reason := cmp.Or(fetchReasons[f.Reason], v2beta2.ReasonFetchFailed)
	if !f.Retryable {
		return status.Stalled(reason, err)
	}
	return status.Retry(reason, err)
}

// verifyFailure gives an error of [verify.Verify] its reason. A Secret or a server may be corrected without a change of
// the spec.
func verifyFailure(err error) error {
	var unreadable *archive.Error
	switch {
	case errors.Is(err, verify.ErrDigestMismatch), errors.Is(err, verify.ErrInvalidDigest):
		return status.Stalled(v2beta2.ReasonDigestMismatch, err)
	case errors.Is(err, verify.ErrUnverified):
		return status.Stalled(v2beta2.ReasonNotVerified, err)
	case errors.Is(err, verify.ErrInvalidEvidence):
		return status.Waiting(v2beta2.ReasonSignatureSecretInvalid, intervals.Missing, "%w", err)
	case errors.Is(err, verify.ErrInvalidSignature):
		return status.Waiting(v2beta2.ReasonSignatureInvalid, status.ChangedInterval, "%w", err)
	case errors.As(err, &unreadable):
		return imports.LoadFailure(err)
	}
	return status.Retry(v2beta2.ReasonStorageFailed, err)
}
