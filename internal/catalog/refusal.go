package catalog

import "fmt"

// Reason is the reason for which a bundle is not in the catalog.
type Reason string

// The reasons.
const (
	// Invalid signals that OLM could not read or install the bundle.
	Invalid Reason = "Invalid"
	// TooLarge signals that the bundle exceeds MaxBundleBytes.
	TooLarge Reason = "TooLarge"
	// CatalogFull signals that the catalog would exceed MaxServedBytes.
	CatalogFull Reason = "CatalogFull"
	// PackageConflict signals that the package belongs to another collection.
	PackageConflict Reason = "PackageConflict"
	// VersionConflict signals that the package has another bundle with this version.
	VersionConflict Reason = "VersionConflict"
)

// RefusalError reports why a bundle is not in the catalog.
type RefusalError struct {
	// Index of the bundle in the argument of Build.
	Index  int
	Reason Reason
	err    error
}

// Error implements error. The text names the bundle, the problem, and the next step.
func (r *RefusalError) Error() string { return r.err.Error() }

// Unwrap returns the cause.
func (r *RefusalError) Unwrap() error { return r.err }

func refusal(reason Reason, format string, args ...any) *RefusalError {
	return &RefusalError{Reason: reason, err: fmt.Errorf(format, args...)}
}
