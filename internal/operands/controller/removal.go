package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// remove removes what the request does not want any more: first the resources, and once those of an operator are gone, the operator.
// What another request wants is handed over to it.
func (r *RequestReconciler) remove(ctx context.Context, s *scope) error {
	if len(s.unwanted()) == 0 {
		return nil
	}
	if err := r.confirm(ctx, s); err != nil {
		return err
	}
	if err := r.loadOthers(ctx, s); err != nil {
		return err
	}
	var waiting []string
	var errs []error
	blocked := map[plan.ID]schema.GroupKind{} // By the kind that is awaited.
	removeAll := func(rank int) {
		unwanted := s.unwanted()
		for _, e := range slices.Backward(unwanted) {
			if rankOf(e) != rank || s.entry(e) == nil || isNeeded(s, unwanted, e) {
				continue
			}
			// What is removed may need what was created before it, such as a Secret. A copy that is revoked is removed at once.
			kind := schema.FromAPIVersionAndKind(e.APIVersion, e.Kind).GroupKind()
			isRevoked := e.Origin == v1alpha1.OriginBinding && s.request.DeletionTimestamp == nil
			if other, exists := blocked[plan.IDOf(e)]; exists && other != kind && !isRevoked {
				continue
			}
			awaited, err := r.removeEntry(ctx, s, e)
			switch {
			case err != nil:
				errs = append(errs, err)
			case awaited != "":
				waiting = append(waiting, awaited)
			default:
				s.drop(e)
				continue
			}
			blocked[plan.IDOf(e)] = kind
		}
	}
	for rank := range ranks {
		removeAll(rank)
	}
	if len(waiting) > 0 {
		errs = append(errs, status.Waiting(v1alpha1.ReasonRemovalWaiting, intervals.Missing, "waiting for %s", status.JoinNames(waiting)))
	}
	return status.Join(errs...)
}

// confirm plans again with live objects, also for other requests: after a restart, the cache may begin with an older state than the former
// process has seen, in which what was added since is missing.
func (r *RequestReconciler) confirm(ctx context.Context, s *scope) error {
	source, err := loadSource(ctx, r.Reader)
	if err != nil {
		return err
	}
	source.GlobalNamespace, source.Installed = s.source.GlobalNamespace, s.source.Installed // They are read live always.
	if source.Recorded, err = recordedExamples(ctx, r.Reader); err != nil {
		return err
	}
	s.source, s.others = source, nil
	if s.request.DeletionTimestamp == nil {
		s.confirmed = plan.Of(s.request, source)
	}
	return nil
}

// unwanted returns the entries that are to be removed. Once there is a confirmed plan, it must not want them either.
func (s *scope) unwanted() []v1alpha1.InventoryEntry {
	confirmed := plan.Unwanted(s.request.Status.Inventory, s.confirmed)
	return slices.DeleteFunc(plan.Unwanted(s.request.Status.Inventory, s.plans()), func(e v1alpha1.InventoryEntry) bool {
		return find(confirmed, e) == nil
	})
}

// ranks is the number of results of rankOf.
const ranks = 4

// rankOf orders removals: resources, what installs operators, ClusterServiceVersions, which OLM would create again before, and
// OperatorGroups.
func rankOf(e v1alpha1.InventoryEntry) int {
	switch {
	case e.Origin != v1alpha1.OriginOperator:
		return 0
	case isCSV(e):
		return 2
	case isGroup(e):
		return 3
	}
	return 1
}

// isNeeded reports whether something that is to be removed before is still there.
func isNeeded(s *scope, unwanted []v1alpha1.InventoryEntry, e v1alpha1.InventoryEntry) bool {
	return slices.ContainsFunc(unwanted, func(before v1alpha1.InventoryEntry) bool {
		if rankOf(before) >= rankOf(e) || s.entry(before) == nil {
			return false
		}
		switch {
		case e.Mapping != "":
			return before.Namespace == e.Mapping
		case isSubscription(e):
			return isOperatorOf(e, before)
		case isCSV(e):
			return before.Namespace == e.Namespace && before.Package == e.Package
		}
		return before.Namespace == e.Namespace && before.Origin == v1alpha1.OriginOperator
	})
}

// isOperatorOf reports whether the operator of a Subscription is that of a resource. The Subscription may have been created for another
// operand, or for another request.
func isOperatorOf(subscription, resource v1alpha1.InventoryEntry) bool {
	return resource.Package == subscription.Package || resource.Registry == subscription.Registry && resource.Operand == subscription.Operand
}

// removeEntry removes what an entry is about, and returns what it waits for, or "" if nothing of it is left for this request.
func (r *RequestReconciler) removeEntry(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	if e.Origin != v1alpha1.OriginRequest {
		if handed, err := r.handOver(ctx, s, e); err != nil || handed {
			return "", err
		}
	}
	switch {
	case e.Mapping != "":
		return r.removeMapping(ctx, s, e)
	case isSubscription(e):
		return r.removeSubscription(ctx, s, e)
	case isCSV(e):
		return r.removeCSV(ctx, s, e)
	case isGroup(e):
		return r.removeGroup(ctx, s, e)
	}
	return r.removeObject(ctx, s, e)
}

// handOver gives an entry to another request that wants what it is about, and reports whether there is one. One that has it already comes
// first: otherwise two of different operands would have it. It is in one of the inventories at any time.
func (r *RequestReconciler) handOver(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (bool, error) {
	has := func(o other) bool {
		theirs := find(o.request.Status.Inventory, e)
		return theirs != nil && theirs.UID == e.UID
	}
	others := slices.Clone(s.others) // Of pointers to requests, which are changed.
	slices.SortStableFunc(others, func(a, b other) int {
		switch {
		case has(a) == has(b):
			return 0
		case has(a):
			return -1
		}
		return 1
	})
	for i := range others {
		other := &others[i]
		if takes, err := r.takes(ctx, s, other, e); err != nil {
			return false, err
		} else if !takes {
			continue
		}
		if has(*other) {
			return true, nil
		}
		before := other.request.DeepCopy()
		if controllerutil.AddFinalizer(other.request, v1alpha1.FinalizerRequest) { // What it gets must not go with it unnoticed.
			patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
			if err := r.Client.Patch(ctx, other.request, patch, client.FieldOwner(FieldOwner)); err != nil {
				return false, fmt.Errorf("handing over to OperandRequest %q: %w", client.ObjectKeyFromObject(other.request), err)
			}
			before = other.request.DeepCopy()
		}
		if theirs := find(other.request.Status.Inventory, e); theirs != nil { // Patch has decoded it anew.
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

// takes reports whether another request may have what an entry is about: it wants that or may want it, and the namespace agrees, or it has recorded
// it. One that is being deleted removes what it has recorded itself, when it does not need it any more.
func (r *RequestReconciler) takes(ctx context.Context, s *scope, other *other, e v1alpha1.InventoryEntry) (bool, error) {
	switch {
	case e.Origin == v1alpha1.OriginBinding && s.request.DeletionTimestamp == nil && !plan.Wants(other.operands, e):
		return false, nil // A copy that is revoked is removed at once.
	case find(other.request.Status.Inventory, e) != nil:
		return true, nil
	case other.ends():
		return false, nil
	case e.Origin != v1alpha1.OriginOperator || e.Mapping != "":
		return plan.Wants(other.operands, e) || plan.MayWant(other.operands, e), nil
	}
	for i := range other.operands {
		if !plan.Wants(other.operands[i:i+1], e) {
			continue
		}
		err := r.checkConsent(ctx, plan.AnnotationConsent, other.operands[i].ID.Registry.Namespace, e.Namespace)
		if err == nil || !status.Is(err) {
			return err == nil, err
		}
	}
	return false, nil
}

func (r *RequestReconciler) removeObject(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	live := objectOf(schema.FromAPIVersionAndKind(e.APIVersion, e.Kind), e.Namespace, e.Name)
	err = r.getServed(ctx, live)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return "", apply.ConfirmAbsenceOf(ctx, r.Reader, r.Client.RESTMapper(), live.GroupVersionKind().GroupKind(), err)
	case apierrors.IsForbidden(err):
		return "", r.forbidden(ctx, err, live)
	case err != nil:
		return "", fmt.Errorf("reading %s: %w", apply.Name(live), err)
	case !isCreated(live, s.ownerOf(live, e), e.UID):
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

// getServed reads an object. If its version is not served any more, such as that of a collection that was upgraded, it is read in another one.
func (r *RequestReconciler) getServed(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	key := client.ObjectKeyFromObject(object)
	kind := object.GroupVersionKind()
	err := r.Reader.Get(ctx, key, object)
	if !errors.Is(apply.ConfirmAbsenceOf(ctx, r.Reader, r.Client.RESTMapper(), kind.GroupKind(), err), apply.ErrNotServed) {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: r.resourceOf(kind).String()}, crd); err != nil {
		return fmt.Errorf("reading the CRD of kind %s: %w", kind.Kind, err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Served && version.Name != kind.Version {
			object.SetGroupVersionKind(kind.GroupKind().WithVersion(version.Name))
			return r.Reader.Get(ctx, key, object)
		}
	}
	return err
}

// ownerOf returns the value of our annotation on the object of an entry. That of a copy also names its source.
func (s *scope) ownerOf(live client.Object, e v1alpha1.InventoryEntry) string {
	if isGroup(e) {
		return plan.GroupName
	}
	owner := e.Registry + "/" + e.Operand
	if e.Origin == v1alpha1.OriginRequest {
		owner += "/" + s.request.Namespace + "/" + s.request.Name
	}
	if actual := live.GetAnnotations()[v1alpha1.AnnotationOperand]; e.Origin == v1alpha1.OriginBinding && strings.HasPrefix(actual, owner+"/copy/") {
		return actual
	}
	return owner
}

// forbidden returns nil if an object goes with its namespace, in which this process has no permissions any more.
func (r *RequestReconciler) forbidden(ctx context.Context, err error, object client.Object) error {
	if ends, getErr := r.isEnding(ctx, object.GetNamespace()); getErr != nil || ends {
		return getErr
	}
	return r.explain(err, object)
}

// isEnding reports whether a namespace is being deleted, or does not exist.
func (r *RequestReconciler) isEnding(ctx context.Context, name string) (bool, error) {
	namespace := &corev1.Namespace{}
	err := r.Reader.Get(ctx, types.NamespacedName{Name: name}, namespace)
	if err != nil {
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return namespace.DeletionTimestamp != nil, nil
}

// isKept reports whether a user wants to keep an object, or the operator for which an OperandConfig has created it.
func (r *RequestReconciler) isKept(ctx context.Context, s *scope, live client.Object, e v1alpha1.InventoryEntry) (bool, error) {
	if e.Origin == v1alpha1.OriginBinding { // Who gives it away must be able to take it back.
		return false, nil
	}
	if live.GetLabels()[v1alpha1.LabelKeep] == "true" {
		return true, nil
	}
	if e.Origin != v1alpha1.OriginConfig {
		return false, nil
	}
	for _, operator := range s.request.Status.Inventory {
		if isSubscription(operator) && isOperatorOf(operator, e) {
			subscription, err := r.liveSubscription(ctx, operator)
			if err != nil || subscription != nil && subscription.Labels[v1alpha1.LabelKeep] == "true" {
				return err == nil, err
			}
		}
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
			return status.JoinNames(users), err
		}
		if err := r.applyMapping(ctx, soc, e.Mapping, nil); err != nil {
			return "", err
		}
	}
	if mappingOf(soc, e.Mapping) != nil { // Others map it, too.
		return "", nil
	}
	if ends, err := r.isEnding(ctx, e.Mapping); err != nil || ends { // The operator goes with its namespace.
		return "", err
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
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Collection}
	collection := &v2beta2.OperatorCollection{}
	if err := r.Reader.Get(ctx, key, collection); apierrors.IsNotFound(err) {
		return nil, nil // Without it, the manager does not run the operator.
	} else if err != nil {
		return nil, fmt.Errorf("reading OperatorCollection %q: %w", key, err)
	}
	if collection.Status.Collection == nil {
		return []string{fmt.Sprintf("OperatorCollection %q to be imported", key)}, nil
	}
	var kinds []schema.GroupVersionKind
	for _, kind := range collection.Status.Collection.Kinds {
		kinds = append(kinds, schema.FromAPIVersionAndKind(collection.Status.Collection.APIVersion, kind))
	}
	return r.usersIn(ctx, s, kinds, []string{e.Mapping})
}
