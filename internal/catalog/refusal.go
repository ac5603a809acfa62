package catalog

import "fmt"

// Reason is why a bundle is not in the catalog.
type Reason string

// The reasons.
const (
	// Invalid says that OLM could not read or install the bundle.
	Invalid Reason = "Invalid"
	// TooLarge says that the bundle exceeds MaxBundleBytes.
	TooLarge Reason = "TooLarge"
	// CatalogFull says that the catalog would exceed MaxServedBytes.
	CatalogFull Reason = "CatalogFull"
	// PackageConflict says that another collection has the package.
	PackageConflict Reason = "PackageConflict"
	// VersionConflict says that the package has another bundle with this version.
	VersionConflict Reason = "VersionConflict"
)

// RefusalError is an error that keeps one bundle out of the catalog.
type RefusalError struct {
	// Index is the bundle's place among those that Build was given.
	Index  int
	Reason Reason
	err    error
}

// Error implements error. It names the bundle, says what is wrong, and what to do.
func (r *RefusalError) Error() string { return r.err.Error() }

// Unwrap gives access to the cause.
func (r *RefusalError) Unwrap() error { return r.err }

func refusal(reason Reason, format string, args ...any) *RefusalError {
	return &RefusalError{Reason: reason, err: fmt.Errorf(format, args...)}
}
