package imports

import (
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

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
