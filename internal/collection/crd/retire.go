package crd

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// NewestKept is the number of the newest versions of a CRD that are never retired.
const NewestKept = 10

// Ages are the times after which a version of a CRD that nothing uses is retired.
type Ages struct {
	// Retention is the time from the publication of a version until it is deprecated.
	Retention time.Duration
	// Deprecation is the time from the deprecation of a version until it is not served any more, and from then until it is removed.
	Deprecation time.Duration
	// Settles is the time for which a version is the storage version before custom resources are rewritten: until then, another API
	// server may still store them in the former one.
	Settles time.Duration
}

// Use is an archive in use: an import, an entry of a history, or an installed operator.
type Use struct {
	Digest digest.Digest
	// Version is the name of the API version that the archive has, or "" if it is not known.
	Version string
	// Foreign is true if the archive is of another collection, as far as is known: it counts only if the CRD names its digest.
	Foreign bool
}

// RetireFacts are what decides, beside the CRD itself, which of its versions are retired.
type RetireFacts struct {
	Ages
	// Used are the archives in use. If the version of one of them is not known, no version is retired.
	Used []Use
}

// life is what is recorded of a version of a CRD. A zero time means that it has not happened.
type life struct {
	Published  time.Time `json:"published,omitzero"`
	Deprecated time.Time `json:"deprecated,omitzero"`
	Unserved   time.Time `json:"unserved,omitzero"`
	// UID of the CRD that was deprecated. In a CRD that was restored from a backup, the time between the stages begins anew.
	UID types.UID `json:"uid,omitempty"`
	// Forgotten is true if, since it is not served, no custom resource names the version as that of a field manager.
	Forgotten bool `json:"forgotten,omitempty"`
}

// Retirement is the result of Retire.
type Retirement struct {
	// CRD has each version in its stage.
	CRD *apiextensionsv1.CustomResourceDefinition
	// Rewrite is true if a version can only go on when no custom resource is stored in it any more, or names it.
	Rewrite bool
	// Forget are the versions that are not served any more and can be removed when no custom resource names them.
	Forget []string
	// Next is the earliest time at which a version may enter its next stage. Zero means that there is none.
	Next time.Time
}

// Retire brings the versions of a CRD into their next stage. A version that nothing uses is deprecated, then not served, then
// removed. The newest NewestKept versions, the storage version and those in use remain, and return if they were being retired. A
// version is served until no custom resource is stored in it, and removed when none names it as that of a field manager. The input is not changed. Retiring the result again at the same time
// changes nothing.
func Retire(definition *apiextensionsv1.CustomResourceDefinition, facts RetireFacts, now time.Time) Retirement {
	r := &retirement{Retirement: Retirement{CRD: definition.DeepCopy()}, facts: facts, now: now.UTC().Truncate(time.Second)}
	used, known := r.used()
	var removed []string
	for i := range r.CRD.Spec.Versions {
		version := &r.CRD.Spec.Versions[i]
		recorded := r.lifeOf(version.Name)
		switch {
		case !known || i < NewestKept || version.Storage || used[version.Name]:
			r.keep(version, &recorded)
		case r.advance(version, &recorded):
			removed = append(removed, version.Name)
		}
		r.record(version.Name, recorded)
	}
	r.remove(removed)
	if !r.Rewrite {
		delete(r.CRD.Annotations, render.AnnotationRewriting)
	}
	return r.Retirement
}

// IsRetiredFurther reports whether a version of a CRD is deprecated, not served or removed now, and was not before.
func IsRetiredFurther(before, now *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(before.Spec.Versions, func(was apiextensionsv1.CustomResourceDefinitionVersion) bool {
		i := slices.IndexFunc(now.Spec.Versions, func(is apiextensionsv1.CustomResourceDefinitionVersion) bool { return is.Name == was.Name })
		if i < 0 {
			return true
		}
		is := &now.Spec.Versions[i]
		return was.Served && !is.Served || is.Deprecated && !was.Deprecated
	})
}

type retirement struct {
	Retirement
	facts RetireFacts
	now   time.Time
}

// used are the versions of the archives in use, and whether all of them are known.
func (r *retirement) used() (used map[string]bool, known bool) {
	byArchive := versionsByArchive(r.CRD)
	used = map[string]bool{}
	for _, use := range r.facts.Used {
		version, found := byArchive[use.Digest]
		switch {
		case found:
			used[version] = true
		case !use.Foreign && use.Version == "":
			return nil, false
		}
		if !use.Foreign {
			used[use.Version] = true
		}
	}
	return used, true
}

// versionsByArchive are the versions of a CRD by the digests of the archives that they came from.
func versionsByArchive(crd *apiextensionsv1.CustomResourceDefinition) map[digest.Digest]string {
	versions := map[digest.Digest]string{}
	for name, value := range crd.Annotations {
		if version, ok := strings.CutPrefix(name, render.AnnotationDigest); ok {
			versions[digest.Digest(value)] = version
		}
	}
	return versions
}

// lifeOf reads what is recorded of a version. Without a record, it is published now.
func (r *retirement) lifeOf(version string) life {
	var recorded life
	if err := json.Unmarshal([]byte(r.CRD.Annotations[render.AnnotationLife+version]), &recorded); err != nil {
		recorded = life{}
	}
	if recorded.Published.IsZero() {
		recorded.Published = r.now
	}
	if !recorded.Deprecated.IsZero() && recorded.UID != r.CRD.UID {
		recorded.Deprecated, recorded.UID, recorded.Forgotten = r.now, r.CRD.UID, false
		if !recorded.Unserved.IsZero() {
			recorded.Unserved = r.now
		}
	}
	return recorded
}

func (r *retirement) record(version string, recorded life) {
	text, _ := json.Marshal(recorded) // It consists of times and a text.
	metav1.SetMetaDataAnnotation(&r.CRD.ObjectMeta, render.AnnotationLife+version, string(text))
}

// keep takes back what was done to retire a version.
func (r *retirement) keep(version *apiextensionsv1.CustomResourceDefinitionVersion, recorded *life) {
	if recorded.Deprecated.IsZero() {
		return
	}
	version.Served, version.Deprecated, version.DeprecationWarning = true, false, nil
	*recorded = life{Published: recorded.Published}
}

// advance brings a version that nothing uses into the stage that it has reached, and says whether it is to be removed.
func (r *retirement) advance(version *apiextensionsv1.CustomResourceDefinitionVersion, recorded *life) (remove bool) {
	stored := slices.Contains(r.CRD.Status.StoredVersions, version.Name)
	if recorded.Deprecated.IsZero() {
		if !r.reached(recorded.Published.Add(r.facts.Retention)) {
			return false
		}
		recorded.Deprecated, recorded.UID = r.now, r.CRD.UID
	}
	ends := recorded.Deprecated.Add(r.facts.Deprecation)
	version.Deprecated, version.DeprecationWarning = true, ptr.To(r.warning(version.Name, ends))
	if recorded.Unserved.IsZero() {
		if !r.reached(ends) || stored && r.rewrite() {
			return false
		}
		recorded.Unserved = r.now
	}
	version.Served = false
	if !r.reached(recorded.Unserved.Add(r.facts.Deprecation)) {
		return false
	}
	if stored || !recorded.Forgotten {
		r.Forget = append(r.Forget, version.Name)
		r.rewrite()
		return false
	}
	return true
}

// Forgotten records on a CRD that no custom resource names versions any more that are not served.
func Forgotten(definition *apiextensionsv1.CustomResourceDefinition, versions []string) {
	r := &retirement{Retirement: Retirement{CRD: definition}}
	for _, version := range versions {
		if recorded := r.lifeOf(version); !recorded.Unserved.IsZero() {
			recorded.Forgotten = true
			r.record(version, recorded)
		}
	}
}

// rewrite asks for the rewriting of the custom resources, once all API servers store them in the storage version.
func (r *retirement) rewrite() bool {
	for _, version := range r.CRD.Spec.Versions {
		if version.Storage {
			r.Rewrite = r.reached(r.lifeOf(version.Name).Published.Add(min(r.facts.Settles, r.facts.Deprecation)))
		}
	}
	return true
}

// reached says whether a time is over. If it is not, it may be the next.
func (r *retirement) reached(at time.Time) bool {
	if !at.After(r.now) {
		return true
	}
	if r.Next.IsZero() || at.Before(r.Next) {
		r.Next = at
	}
	return false
}

// warning is what the API server tells clients that use a deprecated version. The API allows 256 bytes, and names have at most 63.
func (r *retirement) warning(version string, ends time.Time) string {
	newest := r.CRD.Spec.Versions[0].Name
	return fmt.Sprintf("version %s of %s is deprecated and ends on %s: use version %s", version, r.CRD.Spec.Names.Kind, ends.Format(time.DateOnly), newest)
}

func (r *retirement) remove(versions []string) {
	r.CRD.Spec.Versions = slices.DeleteFunc(r.CRD.Spec.Versions, func(version apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return slices.Contains(versions, version.Name)
	})
	for _, version := range versions {
		delete(r.CRD.Annotations, render.AnnotationLife+version)
		delete(r.CRD.Annotations, render.AnnotationDigest+version)
	}
}
