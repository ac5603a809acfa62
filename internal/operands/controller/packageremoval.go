package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// liveSubscription returns the Subscription of an entry if it is ours, or nil.
func (r *RequestReconciler) liveSubscription(ctx context.Context, e v1alpha1.InventoryEntry) (*operatorsv1alpha1.Subscription, error) {
	live := &operatorsv1alpha1.Subscription{}
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Name}, live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, apply.ConfirmAbsence(ctx, r.Reader, err)
	}
	if explained, other := r.olmError(err, plan.SubscriptionKind, e.Namespace); other != nil || explained != nil {
		if other == nil {
			other = r.forbidden(ctx, err, objectOf(plan.SubscriptionKind, e.Namespace, e.Name))
		}
		return nil, other
	}
	if e.UID != "" && e.UID != string(live.UID) || !isCreated(live, e.Registry+"/"+e.Operand, e.UID) {
		return nil, nil
	}
	return live, nil
}

func objectOf(kind schema.GroupVersionKind, namespace, name string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	object.SetGroupVersionKind(kind)
	return object
}

// removeSubscription removes a Subscription once nobody uses its operator. Before that, it records the ClusterServiceVersions that came of
// it: they are removed after it.
func (r *RequestReconciler) removeSubscription(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	live, err := r.liveSubscription(ctx, e)
	if err != nil || live == nil {
		return "", err
	}
	if live.Labels[v1alpha1.LabelKeep] == "true" {
		s.keepPackage(e)
		return "", nil
	}
	if live.DeletionTimestamp == nil {
		csvs, err := r.csvsOf(ctx, live)
		if err != nil {
			return "", err
		}
		for i := range csvs {
			users, err := r.usersOfPackage(ctx, s, e, &csvs[i])
			if err != nil || len(users) > 0 {
				return status.JoinNames(users), err
			}
		}
		if err := r.recordCSVs(ctx, s, e, csvs); err != nil {
			return "", err
		}
	}
	return r.removeObject(ctx, s, e)
}

// dropReplaced removes the entries of ClusterServiceVersions that OLM has replaced, and reports whether there are any.
func (s *scope) dropReplaced(p *olmPackage) bool {
	if p.ours == nil || p.csv == nil {
		return false
	}
	before := len(s.request.Status.Inventory)
	s.request.Status.Inventory = slices.DeleteFunc(slices.Clone(s.request.Status.Inventory), func(e v1alpha1.InventoryEntry) bool {
		return isCSV(e) && p.Is(e) && e.UID != string(p.csv.UID)
	})
	return len(s.request.Status.Inventory) < before
}

// keepPackage drops the entries of what belongs to a Subscription that a user wants to keep.
func (s *scope) keepPackage(subscription v1alpha1.InventoryEntry) {
	s.request.Status.Inventory = slices.DeleteFunc(slices.Clone(s.request.Status.Inventory), func(e v1alpha1.InventoryEntry) bool {
		return e.Namespace == subscription.Namespace && (isCSV(e) && e.Package == subscription.Package || isGroup(e))
	})
}

// csvsOf returns the ClusterServiceVersions that came of a Subscription: that which is installed, and that which is about to be.
func (r *RequestReconciler) csvsOf(ctx context.Context, subscription *operatorsv1alpha1.Subscription) ([]operatorsv1alpha1.ClusterServiceVersion, error) {
	var csvs []operatorsv1alpha1.ClusterServiceVersion
	names := []string{subscription.Status.InstalledCSV, subscription.Status.CurrentCSV}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name == "" {
			continue
		}
		csv := operatorsv1alpha1.ClusterServiceVersion{}
		err := r.Reader.Get(ctx, client.ObjectKey{Namespace: subscription.Namespace, Name: name}, &csv)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, r.explain(err, objectOf(plan.ClusterServiceVersionKind, subscription.Namespace, name))
		}
		csvs = append(csvs, csv)
	}
	return csvs, nil
}

// recordCSVs adds ClusterServiceVersions to the inventory, before their Subscription is deleted.
func (r *RequestReconciler) recordCSVs(ctx context.Context, s *scope, subscription v1alpha1.InventoryEntry, csvs []operatorsv1alpha1.ClusterServiceVersion) error {
	changed := false
	for i := range csvs {
		e := csvEntry(subscription, &csvs[i])
		recorded := s.entry(e)
		switch {
		case recorded == nil:
			s.request.Status.Inventory, changed = append(s.request.Status.Inventory, e), true
		case recorded.UID != e.UID:
			recorded.UID, changed = e.UID, true
		}
	}
	if !changed {
		return nil
	}
	return r.save(ctx, s)
}

// removeCSV removes a ClusterServiceVersion, whose Subscription is gone, once nobody uses the operator. If there is another Subscription to the
// package, it stays: that one has it now.
func (r *RequestReconciler) removeCSV(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	err = r.Reader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Name}, csv)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return "", apply.ConfirmAbsence(ctx, r.Reader, err)
	case apierrors.IsForbidden(err):
		return "", r.forbidden(ctx, err, objectOf(plan.ClusterServiceVersionKind, e.Namespace, e.Name))
	case err != nil:
		return "", fmt.Errorf("reading ClusterServiceVersion %q in namespace %q: %w", e.Name, e.Namespace, err)
	case e.UID != string(csv.UID):
		return "", nil
	case csv.DeletionTimestamp != nil:
		return r.removeObject(ctx, s, e)
	}
	subscriptions := &operatorsv1alpha1.SubscriptionList{}
	err = r.Reader.List(ctx, subscriptions, client.InNamespace(e.Namespace), client.Limit(listLimit))
	if apierrors.IsForbidden(err) {
		return "", r.forbidden(ctx, err, objectOf(plan.SubscriptionKind, e.Namespace, ""))
	}
	if err != nil {
		return "", fmt.Errorf("listing Subscriptions in namespace %q: %w", e.Namespace, err)
	}
	for i := range subscriptions.Items {
		if uses(&subscriptions.Items[i], e) {
			return "", nil
		}
	}
	users, err := r.usersOfPackage(ctx, s, e, csv)
	if err != nil || len(users) > 0 {
		return status.JoinNames(users), err
	}
	return r.removeObject(ctx, s, e)
}

// uses reports whether a Subscription has a ClusterServiceVersion, or will have it when OLM has seen it.
func uses(subscription *operatorsv1alpha1.Subscription, csv v1alpha1.InventoryEntry) bool {
	of := subscription.Status
	return of.InstalledCSV == csv.Name || of.CurrentCSV == csv.Name ||
		subscription.Spec != nil && subscription.Namespace+"/"+subscription.Spec.Package == csv.Package
}

// hasResources reports whether an inventory has resources of the operator of a package.
func hasResources(inventory []v1alpha1.InventoryEntry, of string) bool {
	return slices.ContainsFunc(inventory, func(e v1alpha1.InventoryEntry) bool {
		return e.Origin != v1alpha1.OriginOperator && e.Package == of && e.UID != ""
	})
}

// usersOfPackage returns the resources that still need an operator which OLM has installed: those of requests wherever they are, and
// those that were created otherwise in the namespaces of the Subscription, the OperandRegistry and the OperatorGroup.
func (r *RequestReconciler) usersOfPackage(ctx context.Context, s *scope, e v1alpha1.InventoryEntry, csv *operatorsv1alpha1.ClusterServiceVersion) ([]string, error) {
	var users []string
	if hasResources(s.request.Status.Inventory, e.Package) { // They are kept, since the kinds of the package that replaces it are not known yet.
		users = append(users, "resources of this OperandRequest to get another operator")
	}
	for _, other := range s.others {
		if hasResources(other.request.Status.Inventory, e.Package) {
			users = append(users, fmt.Sprintf("resources of an OperandRequest in namespace %q", other.request.Namespace))
		}
	}
	var kinds []schema.GroupVersionKind
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(owned.Name, ".")
		kinds = append(kinds, schema.GroupVersionKind{Group: group, Version: owned.Version, Kind: owned.Kind})
	}
	of := &plan.Package{PackageKey: plan.PackageKey{Namespace: e.Namespace}}
	if targets := csv.Annotations[operatorsv1.OperatorGroupTargetsAnnotationKey]; targets != "" {
		of.Targets = strings.Split(targets, ",")
	}
	registry, _, _ := strings.Cut(e.Registry, "/")
	found, err := r.usersIn(ctx, s, kinds, of.Watched(registry))
	return append(users, found...), err
}

// usersIn returns the resources of kinds in namespaces. Those in other namespaces than that of the request are only counted. All permissions
// that are missing for this are reported at once.
func (r *RequestReconciler) usersIn(ctx context.Context, s *scope, kinds []schema.GroupVersionKind, namespaces []string) ([]string, error) {
	var users, commands []string
	for _, namespace := range namespaces {
		var missing []schema.GroupResource
		for _, kind := range kinds {
			names, err := r.resourcesOf(ctx, kind, namespace)
			switch {
			case apierrors.IsForbidden(err):
				missing = append(missing, r.resourceOf(kind))
			case err != nil:
				return nil, err
			case len(names) > 0 && namespace != s.request.Namespace:
				users = append(users, fmt.Sprintf("%d of kind %s in namespace %q", len(names), kind.Kind, namespace))
			default:
				users = append(users, names...)
			}
		}
		if len(missing) == 0 {
			continue
		}
		ends, err := r.isEnding(ctx, namespace)
		if err != nil {
			return nil, err
		}
		if !ends {
			commands = append(commands, plan.GrantList(r.Account, missing, namespace))
		}
	}
	if len(commands) > 0 {
		return nil, status.Waiting(v1alpha1.ReasonNotGranted, intervals.Missing,
			"ServiceAccount %q may not see whether somebody uses the operator: an administrator can allow it: %s", r.Account, strings.Join(commands, " && "))
	}
	return users, nil
}

// removeGroup removes an OperatorGroup that we have created. If others have begun to use it, it stays: it is theirs then.
func (r *RequestReconciler) removeGroup(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	for _, kind := range []schema.GroupVersionKind{plan.SubscriptionKind, plan.ClusterServiceVersionKind} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := r.Reader.List(ctx, list, client.InNamespace(e.Namespace), client.Limit(listLimit))
		switch {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			continue
		case apierrors.IsForbidden(err):
			return "", r.forbidden(ctx, err, objectOf(kind, e.Namespace, ""))
		case err != nil:
			return "", fmt.Errorf("listing kind %s in namespace %q: %w", kind.Kind, e.Namespace, err)
		}
		for i := range list.Items {
			if list.Items[i].Labels[operatorsv1alpha1.CopiedLabelKey] == "" {
				return "", nil
			}
		}
	}
	return r.removeObject(ctx, s, e)
}

// resourcesOf returns the names of all resources of a kind in a namespace. Changes of them are noticed. Resources without namespace do not
// count: nobody can request them.
func (r *RequestReconciler) resourcesOf(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]string, error) {
	mapping, err := r.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err == nil && mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return nil, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = r.Reader.List(ctx, list, client.InNamespace(namespace), client.Limit(listLimit))
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		if err := apply.ConfirmAbsenceOf(ctx, r.Reader, r.Client.RESTMapper(), kind.GroupKind(), err); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("listing kind %s in namespace %q: %w", kind.Kind, namespace, err)
	}
	var names []string
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
		names = append(names, apply.Name(&list.Items[i]))
		r.watcher.ensure(ctx, kind, namespace)
	}
	return names, nil
}

func isCSV(e v1alpha1.InventoryEntry) bool {
	return e.Kind == plan.ClusterServiceVersionKind.Kind && e.Origin == v1alpha1.OriginOperator
}

func isSubscription(e v1alpha1.InventoryEntry) bool {
	return e.Kind == plan.SubscriptionKind.Kind && e.Origin == v1alpha1.OriginOperator
}

func isGroup(e v1alpha1.InventoryEntry) bool {
	return e.Kind == plan.OperatorGroupKind.Kind && e.Origin == v1alpha1.OriginOperator
}
