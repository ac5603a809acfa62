package controller

import (
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// Archive is the one that an OperatorCollection asks for, on its way from a source into the store and the status.
type Archive struct {
	// artifact describes it. It is verified and in the store.
	artifact *v2beta2.Artifact
	// hold keeps the archive in the store until status names it.
	hold *store.Hold
	// copied is the archive in the upload folder that is imported, or nil, and replaced the digest of the imported one over which it was
	// copied, or empty.
	copied   *copiedArchive
	replaced digest.Digest
	// uploadPath is where the archive was uploaded, or empty.
	uploadPath string
	// check is the result of the last source check, if there is one.
	check *sourceCheck
	// validators are of the archive that is installed, while the source is checked for another one.
	validators fetch.Validators
	// accepted says that the archive replaces the one that was installed.
	accepted bool
	// installed is when it did, if it is another one than before.
	installed time.Time
	// recorded says that status names it.
	recorded bool
}
