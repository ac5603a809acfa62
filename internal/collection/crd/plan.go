// Package crd validates the CRDs of a collection and plans those that its versions share: it merges what each version
// contributes into what is live, and refuses what living custom resources would not survive.
package crd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// Version is one version of a collection that needs CRDs.
type Version struct {
	Collection *model.Collection
	// Digest of its archive.
	Digest digest.Digest
	// Group is the API group of its kinds.
	Group string
	// Namespace of the OperatorCollection that imported it.
	Namespace string
}

// Contributions are what versions, all of one collection, contribute to each of their CRDs, by its name. The error is an
// *Error.
func Contributions(versions ...Version) (map[string][]Contribution, error) {
	byName := map[string][]Contribution{}
	for _, v := range versions {
		crds, err := render.ClaimedCRDs(v.Collection, v.Group, v.Namespace, v.Digest)
		if err != nil {
			return nil, &Error{v2beta2.ReasonInvalidCollection, err}
		}
		for _, crd := range crds {
			byName[crd.Name] = append(byName[crd.Name], Contribution{
				Version: v.Collection.Version, CRD: crd, Replaces: v.Collection.Replaces, Namespace: v.Namespace,
			})
		}
	}
	return byName, nil
}

// Planned is a CRD as it is and as it should be.
type Planned struct {
	// Live is nil for a CRD that does not exist.
	Live, CRD *apiextensionsv1.CustomResourceDefinition
	// Replaced is the collection that Live belongs to, if CRD belongs to one that replaces it, or zero. Such a CRD is written only
	// when no OperatorCollection has the kind for that collection any more, and its operators are removed.
	Replaced model.ID
}

// Passes reports whether the CRD passes from one collection to another.
func (p Planned) Passes() bool { return p.Replaced != model.ID{} }

// Changed says whether the CRD exists, but not as planned.
func (p Planned) Changed() bool {
	return p.Live != nil && (!equality.Semantic.DeepEqual(p.Live.Spec, p.CRD.Spec) ||
		!equality.Semantic.DeepEqual(p.Live.Labels, p.CRD.Labels) ||
		!equality.Semantic.DeepEqual(p.Live.Annotations, p.CRD.Annotations))
}

// Plan merges the contributions to one CRD of a collection with the live CRD, which is nil if there is none. It fails with
// an *Error if the CRD belongs to somebody else, if versions do not go together, or if custom resources would lose
// something. Instances describes the custom resources of the live CRD, and is "" if there are none; its error is passed on.
func Plan(id model.ID, live *apiextensionsv1.CustomResourceDefinition, wanted []Contribution, instances func() (string, error)) (Planned, error) {
	var replaced model.ID
	if live != nil {
		var err error
		if replaced, err = checkOwner(id, live, wanted); err != nil {
			return Planned{}, err
		}
	}
	merged, err := Merge(live, wanted)
	if err != nil {
		return Planned{}, err
	}
	if err := checkPublished(live, merged, wanted, instances); err != nil {
		return Planned{}, err
	}
	for _, contributed := range wanted {
		for name, value := range contributed.CRD.Annotations {
			if strings.HasPrefix(name, render.AnnotationDigest) {
				merged.Annotations[name] = value
			}
		}
	}
	return Planned{Live: live, CRD: merged, Replaced: replaced}, nil
}

// checkOwner fails unless a live CRD belongs to a collection, or to one that it replaces, which is returned.
func checkOwner(id model.ID, live *apiextensionsv1.CustomResourceDefinition, wanted []Contribution) (replaced model.ID, err error) {
	owner, other := "somebody else", render.IDOf(live.GetLabels())
	successor := slices.IndexFunc(wanted, func(c Contribution) bool { return c.Replaces != model.ID{} && c.Replaces == other })
	switch {
	case (other == id || successor >= 0) && live.DeletionTimestamp != nil:
		return model.ID{}, &Error{v2beta2.ReasonProgressing, fmt.Errorf("waiting until CRD %q, which is being deleted, is gone", live.Name)}
	case other == id:
		return model.ID{}, nil
	case successor >= 0:
		return other, checkSuccessor(id, live, wanted[successor])
	case other != model.ID{}:
		owner = "collection " + other.String()
	}
	return model.ID{}, &Error{v2beta2.ReasonKindClash, fmt.Errorf(
		"CRD %q belongs to %s: create this OperatorCollection anew and set spec.apiGroup to PerCollection, which gives it an API group of its own, or remove the other",
		live.Name, owner)}
}

// checkSuccessor refuses a collection that replaces another one outside of the namespace that the other belongs to: its custom
// resources are those of others.
func checkSuccessor(id model.ID, live *apiextensionsv1.CustomResourceDefinition, successor Contribution) error {
	switch claimant := live.Annotations[render.AnnotationClaimedBy]; claimant {
	case successor.Namespace:
		return nil
	case "":
		return &Error{v2beta2.ReasonKindClash, fmt.Errorf(
			"CRD %q belongs to collection %s, which %s replaces, but does not say to which namespace: annotate it with %s",
			live.Name, successor.Replaces, id, render.AnnotationClaimedBy)}
	default:
		return &Error{v2beta2.ReasonCollectionClaimed, fmt.Errorf(
			"collection %s replaces %s, whose CRD %q belongs to namespace %q: only an OperatorCollection in that namespace can take it over",
			id, successor.Replaces, live.Name, claimant)}
	}
}

// checkPublished refuses other content for a version that is served already, if it would make custom resources invalid or
// cost them a field.
func checkPublished(live, merged *apiextensionsv1.CustomResourceDefinition, wanted []Contribution, instances func() (string, error)) error {
	if live == nil {
		return nil
	}
	for _, contributed := range wanted {
		version := contributed.CRD.Spec.Versions[0].Name
		published := live.Annotations[render.AnnotationDigest+version]
		if published == "" || published == contributed.CRD.Annotations[render.AnnotationDigest+version] {
			continue
		}
		problem := Tightened(schemaOf(live, version), schemaOf(merged, version))
		if problem == "" {
			continue
		}
		found, err := instances()
		if err != nil {
			return err
		}
		if found != "" {
			return &Error{v2beta2.ReasonSchemaConflict, fmt.Errorf(
				"CRD %q: version %s was published before with other content, and now %s: publish this archive under another version, or delete these custom resources first: %s",
				live.Name, version, problem, found)}
		}
	}
	return nil
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.JSONSchemaProps {
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Name == version && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return &apiextensionsv1.JSONSchemaProps{}
}

// Serves says whether a CRD is established and serves a version.
func Serves(crd *apiextensionsv1.CustomResourceDefinition, version string) bool {
	return crd.DeletionTimestamp == nil && apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established) &&
		apihelpers.HasServedCRDVersion(crd, version)
}

// Claimant is the namespace that the CRDs of a collection say it belongs to, or "".
func Claimant(crds []apiextensionsv1.CustomResourceDefinition) string {
	for _, crd := range crds {
		if namespace := crd.Annotations[render.AnnotationClaimedBy]; namespace != "" {
			return namespace
		}
	}
	return ""
}

// Publish says whether CRDs have a version of a group, made of the archive with the digest.
func Publish(crds []apiextensionsv1.CustomResourceDefinition, group, version string, archive digest.Digest) bool {
	return slices.ContainsFunc(crds, func(crd apiextensionsv1.CustomResourceDefinition) bool {
		return crd.Spec.Group == group && crd.Annotations[render.AnnotationDigest+version] == archive.String()
	})
}
