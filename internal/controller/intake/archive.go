package intake

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// Archive is the one that an OperatorCollection asks for, on its way from a source into the store and the status.
type Archive struct {
	// Artifact describes it. It is verified and in the store.
	Artifact *v2beta2.Artifact
	// Hold keeps the archive in the store until status names it.
	Hold *store.Hold
	// podCopy is the archive in the upload folder that is imported, or nil, and Replaced the digest of the imported one over which it was
	// copied, or empty.
	podCopy  *podCopy
	Replaced digest.Digest
	// UploadPath is where the archive was uploaded, or empty.
	UploadPath string
	// check is the result of the last source check, if there is one.
	check *sourceCheck
	// validators are of the archive that is installed, while the source is checked for another one.
	validators fetch.Validators
	// Accepted says that the archive replaces the one that was installed.
	Accepted bool
	// Installed is when it did, if it is another one than before.
	Installed time.Time
	// Recorded says that status names it.
	Recorded bool
}

// CheckFailure says why the last source check failed, or is empty.
func (a *Archive) CheckFailure() string {
	if a.check == nil {
		return ""
	}
	return a.check.failed
}

// dropPodCopy goes on with the imported archive.
func (a *Archive) dropPodCopy() { a.podCopy, a.Replaced = nil, "" }
