package controller

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/internal/source/verify"
)

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
		return status.Waiting(v2beta2.ReasonSignatureInvalid, changedInterval, "%w", err)
	case errors.As(err, &unreadable):
		return loadFailure(err)
	}
	return status.Retry(v2beta2.ReasonStorageFailed, err)
}

// planFailure gives an error of [crd.Plan] its reason. Most may be resolved without a change of the spec.
func planFailure(err error) error {
	var e *crd.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Reason == v2beta2.ReasonInvalidCollection:
		return status.Stalled(e.Reason, err)
	case e.Reason == v2beta2.ReasonProgressing:
		return status.Waiting(e.Reason, intervals.Poll, "%w", err)
	}
	return status.Waiting(e.Reason, intervals.Missing, "%w", err)
}

func archiveReason(reason archive.Reason) string {
	switch reason {
	case archive.NotGzip, archive.NotTar:
		return v2beta2.ReasonArchiveNotGzip
	case archive.Truncated:
		return v2beta2.ReasonArchiveTruncated
	case archive.TooLarge, archive.TooManyEntries, archive.TooDeep, archive.NameTooLong:
		return v2beta2.ReasonArchiveTooLarge
	case archive.PathEscapes, archive.InvalidName, archive.UnsafeLink, archive.UnsupportedEntry, archive.DuplicateEntry:
		return v2beta2.ReasonArchiveUnsafe
	}
	return v2beta2.ReasonArchiveCorrupt
}

// problemReasons has the rules with a reason of their own. All others share InvalidCollection.
var problemReasons = map[string]string{
	"missing-operator-config":   v2beta2.ReasonOperatorConfigMissing,
	"duplicate-operator-config": v2beta2.ReasonOperatorConfigAmbiguous,
	"yaml":                      v2beta2.ReasonInvalidYAML,
	"duplicate-key":             v2beta2.ReasonInvalidYAML,
	"missing-playbook":          v2beta2.ReasonPlaybookMissing,
	"missing-finalizer":         v2beta2.ReasonPlaybookMissing,
}

// problemReason is the reason that all problems share, or InvalidCollection.
func problemReason(problems findings.Problems) string {
	reason := ""
	for _, problem := range problems {
		of, ok := problemReasons[problem.Rule]
		if !ok || reason != "" && of != reason {
			return v2beta2.ReasonInvalidCollection
		}
		reason = of
	}
	return reason
}
