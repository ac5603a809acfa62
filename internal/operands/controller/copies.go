package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// fill returns the object with the content of its source, or nil if the cluster has no such kind: Routes are those of OpenShift. Tokens
// of ServiceAccounts are never copied.
func (r *RequestReconciler) fill(ctx context.Context, object *plan.Object) (*plan.Object, error) {
	source := &unstructured.Unstructured{Object: map[string]any{}}
	source.SetGroupVersionKind(object.SourceKind)
	source.SetNamespace(object.Source.Namespace)
	source.SetName(object.Source.Name)
	err := r.Reader.Get(ctx, object.Source, source)
	switch {
	case meta.IsNoMatchError(err):
		return nil, nil
	case apierrors.IsNotFound(err):
		r.watcher.ensure(ctx, object.SourceKind, object.Source.Namespace)
		return nil, status.Waiting(v1alpha1.ReasonBindingNotFound, status.Watched, "%s, which an OperandBindInfo names, does not exist yet", apply.Name(source))
	case err != nil:
		return nil, r.explain(err, source)
	}
	r.watcher.ensure(ctx, object.SourceKind, object.Source.Namespace)
	if kind, _, _ := unstructured.NestedString(source.Object, "type"); kind == string(corev1.SecretTypeServiceAccountToken) {
		return nil, status.Waiting(v1alpha1.ReasonInvalidOperand, status.Watched, "%s is a token of a ServiceAccount: these are not copied", apply.Name(source))
	}
	filled := *object
	filled.Config = maps.Clone(object.Config)
	if object.Paths != nil {
		data, err := object.Data(source.Object)
		if err != nil {
			return nil, status.Waiting(v1alpha1.ReasonBindingNotFound, status.Watched, "%s: %v", apply.Name(source), err)
		}
		filled.Config["data"] = data
		return &filled, nil
	}
	for _, field := range []string{"type", "data", "binaryData"} {
		if value, exists := source.Object[field]; exists {
			filled.Config[field] = value
		}
	}
	return &filled, nil
}

// bindInfoStatus reports whether the requesters have their copies, by existence only.
func bindInfoStatus(info *v1alpha1.OperandBindInfo, requests []v1alpha1.OperandRequest, source *plan.Source) v1alpha1.OperandBindInfoStatus {
	registry, valid := plan.RegistryOf(info)
	if !valid {
		return v1alpha1.OperandBindInfoStatus{
			Phase: v1alpha1.BindInfoFailed, ObservedGeneration: info.Generation,
			Message: fmt.Sprintf("OperandRegistry %q and its Secrets and ConfigMaps are in another namespace: create the OperandBindInfo there", registry),
		}
	}
	result := v1alpha1.OperandBindInfoStatus{Phase: v1alpha1.BindInfoInitialized, ObservedGeneration: info.Generation}
	only := *source
	only.BindInfos = []*v1alpha1.OperandBindInfo{info}
	for i := range requests {
		request := &requests[i]
		for _, operand := range plansFor(request, registry, &only) {
			for _, object := range operand.Objects {
				if object.Origin != v1alpha1.OriginBinding {
					continue
				}
				if e := find(request.Status.Inventory, object.Entry(operand.ID)); e == nil || e.UID == "" {
					result.Phase = v1alpha1.BindInfoWaiting
					continue
				}
				if result.Phase == v1alpha1.BindInfoInitialized {
					result.Phase = v1alpha1.BindInfoCompleted
				}
				if request.Namespace != info.Namespace && !slices.Contains(result.RequestNamespaces, request.Namespace) {
					result.RequestNamespaces = append(result.RequestNamespaces, request.Namespace)
				}
			}
		}
	}
	return result
}
