package crd

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/internal/render"
)

// Prune returns a copy of live without its oldest unused versions, at most number of them. A version is used if it is stored or
// wanted, or if the archive that it came from is in use. If the version of an archive in use is not known, all versions are used.
// Custom resources that were written in a removed version are lost, so the caller makes sure that there are none.
func Prune(live *apiextensionsv1.CustomResourceDefinition, wanted []Contribution, inUse map[digest.Digest]bool, number int) *apiextensionsv1.CustomResourceDefinition {
	used, known := map[string]bool{}, map[digest.Digest]bool{}
	for _, contributed := range wanted {
		used[contributed.CRD.Spec.Versions[0].Name] = true
		for archive := range versionsByArchive(contributed.CRD) {
			known[archive] = true
		}
	}
	for archive, version := range versionsByArchive(live) {
		known[archive] = true
		used[version] = used[version] || inUse[archive]
	}
	pruned := live.DeepCopy()
	for archive := range inUse {
		if !known[archive] {
			return pruned
		}
	}
	for _, version := range slices.Backward(live.Spec.Versions) { // Newest first.
		if number <= 0 {
			break
		}
		if version.Storage || used[version.Name] {
			continue
		}
		pruned.Spec.Versions = slices.DeleteFunc(pruned.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == version.Name
		})
		delete(pruned.Annotations, render.AnnotationDigest+version.Name)
		number--
	}
	return pruned
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

// StoredVersions are the versions in which custom resources may be stored, of those that a planned CRD still has.
func (p Planned) StoredVersions() []string {
	served := map[string]bool{}
	for _, version := range p.CRD.Spec.Versions {
		served[version.Name] = true
	}
	return slices.DeleteFunc(slices.Clone(p.Live.Status.StoredVersions), func(name string) bool { return !served[name] })
}
