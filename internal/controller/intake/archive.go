package intake

import (
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
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

// podCopy is a complete archive in the upload folder, for a spec and a Secret that it is verified with.
type podCopy struct {
	path       string
	written    time.Time
	generation int64
	secret     types.UID
	version    string
}

// sourceCheck is the result of the last check of a source.
type sourceCheck struct {
	// generation of the spec that it was made for.
	generation int64
	// due is the time of the next check.
	due time.Time
	// validators are of the archive that the source has.
	validators fetch.Validators
	// failed says why the check failed, or is empty.
	failed string
}

// newSourceCheck is made now, of a source that has an archive with these validators. It is nil without spec.interval.
func newSourceCheck(oc *v2beta2.OperatorCollection, validators fetch.Validators) *sourceCheck {
	if oc.Spec.Interval == nil {
		return nil
	}
	return &sourceCheck{generation: oc.Generation, due: time.Now().Add(pace.Jitter(oc.Spec.Interval.Duration)), validators: validators}
}

// sourceChecks keeps the last sourceCheck of each OperatorCollection in memory. One that is not there costs one request.
type sourceChecks struct{ sync.Map }

// last is the last check for the present spec, if there was one.
func (c *sourceChecks) last(oc *v2beta2.OperatorCollection) (sourceCheck, bool) {
	found, _ := c.Load(client.ObjectKeyFromObject(oc))
	last, known := found.(sourceCheck)
	return last, known && last.generation == oc.Generation
}

func (c *sourceChecks) record(oc *v2beta2.OperatorCollection, check *sourceCheck) {
	if check != nil {
		c.Store(client.ObjectKeyFromObject(oc), *check)
	}
}

// wait is the delay before the next check, or zero if there is none.
func (c *sourceChecks) wait(oc *v2beta2.OperatorCollection) time.Duration {
	if oc.Spec.Interval == nil || imports.PinnedVersion(oc) != "" {
		return 0
	}
	if last, known := c.last(oc); known {
		return max(time.Until(last.due), time.Second)
	}
	return pace.Jitter(oc.Spec.Interval.Duration)
}

// maxBlockedBytes limits the size of all archives that are kept while custom resources block them. Others are fetched again with each
// attempt.
const maxBlockedBytes = 512 << 20

// blockedArchives has the archives, one for each OperatorCollection, that custom resources block, or that wait for the end of a collection
// that they replace. They stay in the store until they are accepted or the spec asks for another one. A manager that starts fetches them
// again.
type blockedArchives struct {
	mu    sync.Mutex
	kept  map[client.ObjectKey]BlockedArchive
	bytes int64
}

// BlockedArchive is one of them. Without an artifact there is none.
type BlockedArchive struct {
	Artifact *v2beta2.Artifact
	Hold     *store.Hold
}

// keep keeps the archive that the hold is of instead of the former one, which it returns. Without an artifact, and beyond
// maxBlockedBytes, it keeps none: then the caller has the hold still.
func (b *blockedArchives) keep(key client.ObjectKey, archive *v2beta2.Artifact, hold *store.Hold) (former BlockedArchive, kept bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if former = b.kept[key]; former.Artifact != nil {
		b.bytes -= former.Artifact.Size
		delete(b.kept, key)
	}
	if archive == nil || b.bytes+archive.Size > maxBlockedBytes {
		return former, false
	}
	if b.kept == nil {
		b.kept = map[client.ObjectKey]BlockedArchive{}
	}
	b.kept[key] = BlockedArchive{Artifact: archive, Hold: hold}
	b.bytes += archive.Size
	return former, true
}

func (b *blockedArchives) of(oc *v2beta2.OperatorCollection) *v2beta2.Artifact {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.kept[client.ObjectKeyFromObject(oc)].Artifact
}
