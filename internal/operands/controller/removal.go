package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/apply"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/status"
)

// remove removes what the request does not want any more: first the resources, and once those of an operator are gone, the operator.
// What another request wants is handed over to it.
func (r *RequestReconciler) remove(ctx context.Context, s *scope) error {
	unwanted := plan.Unwanted(s.request.Status.Inventory, s.plans())
	if len(unwanted) == 0 {
		return nil
	}
	if err := r.loadOthers(ctx, s); err != nil {
		return err
	}
	var waiting []string
	var errs []error
	removeAll := func(isOperator bool) error {
		for _, e := range slices.Backward(unwanted) {
			if (e.Mapping != "") != isOperator || isOperator && r.needsOperator(s, unwanted, e) {
				continue
			}
			awaited, err := r.removeEntry(ctx, s, e)
			if err != nil && !status.Is(err) {
				return err
			}
			switch {
			case err != nil:
				errs = append(errs, err)
			case awaited != "":
				waiting = append(waiting, awaited)
			default:
				s.drop(e)
			}
		}
		return nil
	}
	for _, isOperator := range []bool{false, true} {
		if err := removeAll(isOperator); err != nil {
			return err
		}
	}
	if len(waiting) > 0 {
		errs = append(errs, status.Waiting(v1alpha1.ReasonRemovalWaiting, status.Watched, "waiting for %s", status.JoinNames(waiting)))
	}
	return status.Join(errs...)
}

// needsOperator reports whether a resource that is to be removed may still need the operator of a mapping.
func (r *RequestReconciler) needsOperator(s *scope, unwanted []v1alpha1.InventoryEntry, mapping v1alpha1.InventoryEntry) bool {
	return slices.ContainsFunc(unwanted, func(e v1alpha1.InventoryEntry) bool {
		return e.Mapping == "" && e.Namespace == mapping.Mapping && s.entry(e) != nil
	})
}

// removeEntry removes what an entry is about, and returns what it waits for, or "" if nothing of it is left for this request.
func (r *RequestReconciler) removeEntry(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	if e.Origin != v1alpha1.OriginRequest {
		if handed, err := r.handOver(ctx, s, e); err != nil || handed {
			return "", err
		}
	}
	if e.Mapping != "" {
		return r.removeMapping(ctx, s, e)
	}
	return r.removeObject(ctx, s, e)
}

// handOver gives an entry to another request that wants what it is about, and reports whether there is one. It is in one of the
// inventories at any time.
func (r *RequestReconciler) handOver(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (bool, error) {
	for _, other := range s.others {
		theirs := find(other.request.Status.Inventory, e)
		if theirs != nil && theirs.UID == e.UID {
			return true, nil
		}
		if theirs == nil && !plan.Wants(other.operands, e) {
			continue
		}
		before := other.request.DeepCopy()
		if theirs != nil {
			theirs.UID = e.UID
		} else {
			other.request.Status.Inventory = append(other.request.Status.Inventory, e)
		}
		if err := status.Patch(ctx, r.Client, other.request, before); err != nil {
			return false, fmt.Errorf("handing over to OperandRequest %q: %w", client.ObjectKeyFromObject(other.request), err)
		}
		return true, nil
	}
	return false, nil
}

func (r *RequestReconciler) removeObject(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(schema.FromAPIVersionAndKind(e.APIVersion, e.Kind))
	live.Namespace, live.Name = e.Namespace, e.Name
	err = r.Reader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Name}, live)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return "", apply.ConfirmAbsence(ctx, r.Reader, err)
	case apierrors.IsForbidden(err):
		return "", r.forbidden(ctx, err, live)
	case err != nil:
		return "", fmt.Errorf("reading %s: %w", apply.Name(live), err)
	case e.UID != "" && e.UID != string(live.UID), !isCreated(live, s.ownerOf(e), e.UID):
		return "", nil
	}
	if kept, err := r.isKept(ctx, s, live, e); err != nil || kept {
		return "", err
	}
	r.watcher.ensure(ctx, live.GroupVersionKind(), e.Namespace)
	if live.DeletionTimestamp == nil {
		uid := live.UID
		// The answer is the object if it has finalizers, which cannot be decoded as metadata.
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(live.GroupVersionKind())
		object.SetNamespace(live.Namespace)
		object.SetName(live.Name)
		err := r.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &uid})
		if apierrors.IsForbidden(err) {
			return "", r.forbidden(ctx, err, live)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return "", fmt.Errorf("deleting %s: %w", apply.Name(live), err)
		}
		if err := r.Reader.Get(ctx, client.ObjectKeyFromObject(live), live); apierrors.IsNotFound(err) {
			return "", nil
		}
	}
	return apply.Name(live), nil
}

// ownerOf returns the value of our annotation on the object of an entry.
func (s *scope) ownerOf(e v1alpha1.InventoryEntry) string {
	owner := e.Registry + "/" + e.Operand
	if e.Origin == v1alpha1.OriginRequest {
		owner += "/" + s.request.Namespace + "/" + s.request.Name
	}
	return owner
}

// forbidden returns nil if an object goes with its namespace, in which this process has no permissions any more.
func (r *RequestReconciler) forbidden(ctx context.Context, err error, object client.Object) error {
	namespace := &corev1.Namespace{}
	switch getErr := r.Reader.Get(ctx, types.NamespacedName{Name: object.GetNamespace()}, namespace); {
	case apierrors.IsNotFound(getErr), getErr == nil && namespace.DeletionTimestamp != nil:
		return nil
	case getErr != nil:
		return getErr
	}
	return r.explain(err, object)
}

// isKept reports whether a user wants to keep an object, or the operator for which an OperandConfig has created it.
func (r *RequestReconciler) isKept(ctx context.Context, s *scope, live client.Object, e v1alpha1.InventoryEntry) (bool, error) {
	if live.GetLabels()[v1alpha1.LabelKeep] == "true" {
		return true, nil
	}
	if e.Origin != v1alpha1.OriginConfig {
		return false, nil
	}
	for _, operator := range s.request.Status.Inventory {
		if operator.Mapping == "" || operator.Mapping != e.Namespace {
			continue
		}
		soc, err := r.liveConfig(ctx, operator)
		if err != nil || soc != nil && soc.Labels[v1alpha1.LabelKeep] == "true" {
			return err == nil, err
		}
	}
	return false, nil
}

// removeMapping removes the mapping that we have added, once no resource of the collection is left in the namespace.
func (r *RequestReconciler) removeMapping(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	soc, err := r.liveConfig(ctx, e)
	if err != nil || soc == nil || soc.Labels[v1alpha1.LabelKeep] == "true" {
		return "", err
	}
	if isOurs(soc, e.Mapping) {
		if users, err := r.usersOf(ctx, s, e); err != nil || len(users) > 0 {
			return strings.Join(users, ", "), err
		}
		if err := r.applyMapping(ctx, soc, e.Mapping, nil); err != nil {
			return "", err
		}
	}
	if mappingOf(soc, e.Mapping) != nil { // Others map it, too.
		return "", nil
	}
	for _, i := range soc.Status.Installations {
		if i.Namespace == e.Mapping {
			return fmt.Sprintf("the operator of OperatorCollection %q in namespace %q to end", e.Collection, e.Mapping), nil
		}
	}
	return "", nil
}

// usersOf returns the resources that still need the operator of a mapping: those that were not created for requests.
func (r *RequestReconciler) usersOf(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) ([]string, error) {
	collection := s.source.Collections[types.NamespacedName{Namespace: e.Namespace, Name: e.Collection}]
	if collection == nil || collection.Status.Collection == nil {
		return nil, nil
	}
	var users []string
	for _, kind := range collection.Status.Collection.Kinds {
		list := &metav1.PartialObjectMetadataList{}
		gvk := schema.FromAPIVersionAndKind(collection.Status.Collection.APIVersion, kind)
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(kind + "List"))
		err := r.Reader.List(ctx, list, client.InNamespace(e.Mapping))
		switch {
		case apierrors.IsForbidden(err):
			object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: e.Mapping}}
			object.SetGroupVersionKind(gvk)
			return nil, r.forbidden(ctx, err, object)
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			if err := apply.ConfirmAbsence(ctx, r.Reader, err); err != nil {
				return nil, err
			}
		case err != nil:
			return nil, fmt.Errorf("listing kind %s in namespace %q: %w", kind, e.Mapping, err)
		}
		for i := range list.Items {
			list.Items[i].SetGroupVersionKind(gvk)
			users = append(users, apply.Name(&list.Items[i]))
			r.watcher.ensure(ctx, gvk, e.Mapping)
		}
	}
	return users, nil
}
