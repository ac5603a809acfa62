// Package cluster is what the reconcilers of operands share: what they may do in a cluster and what they say if they may not, what
// OperandRequests refer to, what is watched, and what is checked before any of them starts.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Access is how the component uses a cluster, in whose namespaces it has only what administrators have granted.
type Access struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Account is the ServiceAccount of this process, for messages.
	Account types.NamespacedName
}

// CheckConsent fails unless a namespace agrees that something is created in it from another one.
func (a *Access) CheckConsent(ctx context.Context, annotation, from, namespace string) error {
	if from == namespace {
		return nil
	}
	object := &corev1.Namespace{}
	err := a.Reader.Get(ctx, client.ObjectKey{Name: namespace}, object)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading namespace %q: %w", namespace, err)
	}
	if err == nil && (plan.Consent{Namespace: namespace, Annotation: annotation, To: from}).In(object.Annotations) {
		return nil
	}
	return status.Waiting(v2beta2.ReasonMappingNotAllowed, intervals.Missing,
		"namespace %q does not allow it: whoever owns that namespace can give it the annotation %s: %s", namespace, annotation, from)
}

// Explain gives an error of the API server about an object a reason and the next step.
func (a *Access) Explain(err error, object client.Object) error {
	name := apply.Name(object)
	var conflicts []string
	var apiStatus apierrors.APIStatus
	if errors.As(err, &apiStatus) && apiStatus.Status().Details != nil {
		for _, cause := range apiStatus.Status().Details.Causes {
			if cause.Type == metav1.CauseTypeFieldManagerConflict {
				conflicts = append(conflicts, cause.Field+" ("+printable.Line(cause.Message, 256)+")")
			}
		}
	}
	switch {
	case len(conflicts) > 0:
		return status.Waiting(v1alpha1.ReasonFieldConflict, intervals.Missing,
			"%s: others have set %s: remove the fields there, or set them to the same values", name, status.JoinNames(conflicts))
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), fmt.Sprintf("User \"system:serviceaccount:%s:%s\" cannot ", a.Account.Namespace, a.Account.Name)):
		return a.notGranted(object)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), isMisfit(err):
		return status.Waiting(v2beta2.ReasonObjectRefused, intervals.Missing, "%s: %s", name, printable.Line(err.Error(), 1024))
	}
	return fmt.Errorf("%s: %w", name, err)
}

// isMisfit reports whether the API server could not apply fields because they do not fit the schema of their kind. It has no reason for this.
func isMisfit(err error) bool {
	return strings.Contains(err.Error(), "failed to create typed patch object")
}

// notGranted returns an error with the command that lets this process use a kind in a namespace.
func (a *Access) notGranted(object client.Object) error {
	kind := object.GetObjectKind().GroupVersionKind()
	return status.Waiting(v1alpha1.ReasonNotGranted, intervals.Missing,
		"ServiceAccount %q may not use kind %s in namespace %q: an administrator of that namespace can allow it: %s",
		a.Account, kind.Kind, object.GetNamespace(), plan.Grant(a.Account, kind.GroupKind(), a.ResourceOf(kind).Resource, object.GetNamespace()))
}

// ExplainUnlessEnding returns nil if an object goes with its namespace, in which this process has no permissions any more.
func (a *Access) ExplainUnlessEnding(ctx context.Context, err error, object client.Object) error {
	if ends, getErr := a.IsEnding(ctx, object.GetNamespace()); getErr != nil || ends {
		return getErr
	}
	return a.Explain(err, object)
}

// IsEnding reports whether a namespace is being deleted, or does not exist.
func (a *Access) IsEnding(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	err := a.Reader.Get(ctx, types.NamespacedName{Name: name}, namespace)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return namespace.DeletionTimestamp != nil, nil
}

// ResourceOf returns the resource of a kind. It is guessed for a kind that the cluster does not have.
func (a *Access) ResourceOf(kind schema.GroupVersionKind) schema.GroupResource {
	mapping, err := a.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = a.Client.RESTMapper().RESTMapping(kind.GroupKind()) // In any version.
	}
	if err != nil {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		return plural.GroupResource()
	}
	return mapping.Resource.GroupResource()
}
