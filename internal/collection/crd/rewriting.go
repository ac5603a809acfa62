package crd

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// Rewriting is how far the custom resources of a CRD are rewritten, so that none is stored in an older version than To. It is
// recorded on the CRD.
type Rewriting struct {
	// UID of the CRD. The record counts only there.
	UID types.UID `json:"uid"`
	// To was the storage version when the rewriting began.
	To string `json:"to"`
	// Done is the number of custom resources that were looked at, of Total.
	Done  int `json:"done"`
	Total int `json:"total"`
	// Continue is where the next page begins. It is empty at the beginning.
	Continue string `json:"continue,omitempty"`
	// Failed is the number of custom resources that could not be rewritten, and Problem the first reason. If none failed, Problem is why
	// the next page could not be read or written.
	Failed  int    `json:"failed,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Forget are versions that are not served, and that no custom resource names after the rewriting.
	Forget []string `json:"forget,omitempty"`
	// Again is when the rewriting begins anew after a failure.
	Again time.Time `json:"again,omitzero"`
}

// RewritingOf returns what is recorded on a CRD, or nil if its custom resources are not being rewritten.
func RewritingOf(definition *apiextensionsv1.CustomResourceDefinition) *Rewriting {
	recorded := &Rewriting{}
	if err := json.Unmarshal([]byte(definition.Annotations[render.AnnotationRewriting]), recorded); err != nil {
		return nil
	}
	if recorded.UID != definition.UID || versionIndex(definition, recorded.To) < 0 {
		return nil
	}
	return recorded
}

// BeginRewriting returns the record of a rewriting that begins, after which no custom resource names versions that are not served.
func BeginRewriting(definition *apiextensionsv1.CustomResourceDefinition, forget []string) *Rewriting {
	begun := &Rewriting{UID: definition.UID, Forget: forget}
	for _, version := range definition.Spec.Versions {
		if version.Storage {
			begun.To = version.Name
		}
	}
	return begun
}

// Record writes the record to the CRD.
func (r *Rewriting) Record(definition *apiextensionsv1.CustomResourceDefinition) {
	text, _ := json.Marshal(r) // It consists of texts, numbers and a time.
	metav1.SetMetaDataAnnotation(&definition.ObjectMeta, render.AnnotationRewriting, string(text))
}

// Refuse records that a custom resource could not be rewritten.
func (r *Rewriting) Refuse(problem string) {
	if r.Failed == 0 {
		r.Problem = problem
	}
	r.Failed++
}

// Fail records that the rewriting is to begin anew at a time, because of its Problem.
func (r *Rewriting) Fail(again time.Time) {
	r.Done, r.Continue, r.Again = 0, "", again.UTC().Truncate(time.Second)
}

// StoredVersions are the versions in which custom resources may be stored after the rewriting: what was imported meanwhile is newer.
func (r *Rewriting) StoredVersions(definition *apiextensionsv1.CustomResourceDefinition) []string {
	oldest := versionIndex(definition, r.To)
	return slices.DeleteFunc(slices.Clone(definition.Status.StoredVersions), func(name string) bool {
		return versionIndex(definition, name) > oldest
	})
}

// versionIndex is the place of a version in a CRD, the newest first, or -1.
func versionIndex(definition *apiextensionsv1.CustomResourceDefinition, name string) int {
	return slices.IndexFunc(definition.Spec.Versions, func(version apiextensionsv1.CustomResourceDefinitionVersion) bool {
		return version.Name == name
	})
}

// String says how far the rewriting is, or why it is not done.
func (r *Rewriting) String() string {
	switch {
	case r.Problem != "" && r.Failed == 0:
		return fmt.Sprintf("%d of %d: %s", r.Done, r.Total, r.Problem)
	case r.Problem != "" && r.Done == 0:
		return fmt.Sprintf("%d of %d failed: %s", r.Failed, r.Total, r.Problem)
	}
	return fmt.Sprintf("%d of %d", r.Done, r.Total)
}
