package operandrequest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// users finds who still needs an operator.
type users struct {
	*cluster.Access
	watcher *cluster.Watcher
}

// ofMapping returns the resources that still need the operator of a mapping: those that were not created for requests.
func (u *users) ofMapping(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) ([]string, error) {
	key := types.NamespacedName{Namespace: e.Namespace, Name: e.Collection}
	collection := &v2beta2.OperatorCollection{}
	if err := u.Reader.Get(ctx, key, collection); apierrors.IsNotFound(err) {
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
	return u.in(ctx, s, kinds, []string{e.Mapping})
}

// ofPackage returns the resources that still need an operator which OLM has installed: those of requests wherever they are, and
// those that were created otherwise in the namespaces of the Subscription, the OperandRegistry and the OperatorGroup.
func (u *users) ofPackage(ctx context.Context, s *scope, e v1alpha1.InventoryEntry, csv *operatorsv1alpha1.ClusterServiceVersion) ([]string, error) {
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
	found, err := u.in(ctx, s, kinds, of.Watched(registry))
	return append(users, found...), err
}

// hasResources reports whether an inventory has resources of the operator of a package.
func hasResources(inventory []v1alpha1.InventoryEntry, of string) bool {
	return slices.ContainsFunc(inventory, func(e v1alpha1.InventoryEntry) bool {
		return e.Origin != v1alpha1.OriginOperator && e.Package == of && e.UID != ""
	})
}

// in returns the resources of kinds in namespaces. Those in other namespaces than that of the request are only counted. All permissions
// that are missing for this are reported at once.
func (u *users) in(ctx context.Context, s *scope, kinds []schema.GroupVersionKind, namespaces []string) ([]string, error) {
	var users, commands []string
	for _, namespace := range namespaces {
		var missing []schema.GroupResource
		for _, kind := range kinds {
			names, err := u.resourcesOf(ctx, kind, namespace)
			switch {
			case apierrors.IsForbidden(err):
				missing = append(missing, u.ResourceOf(kind))
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
		ends, err := u.IsEnding(ctx, namespace)
		if err != nil {
			return nil, err
		}
		if !ends {
			commands = append(commands, plan.GrantList(u.Account, missing, namespace))
		}
	}
	if len(commands) > 0 {
		return nil, status.Waiting(v1alpha1.ReasonNotGranted, intervals.Missing,
			"ServiceAccount %q may not see whether somebody uses the operator: an administrator can allow it: %s", u.Account, strings.Join(commands, " && "))
	}
	return users, nil
}

// resourcesOf returns the names of all resources of a kind in a namespace. Changes of them are noticed. Resources without namespace do not
// count: nobody can request them.
func (u *users) resourcesOf(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]string, error) {
	mapping, err := u.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err == nil && mapping.Scope.Name() != meta.RESTScopeNameNamespace {
		return nil, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = u.Reader.List(ctx, list, client.InNamespace(namespace), client.Limit(listLimit))
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		if err := apply.ConfirmAbsenceOf(ctx, u.Reader, u.Client.RESTMapper(), kind.GroupKind(), err); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("listing kind %s in namespace %q: %w", kind.Kind, namespace, err)
	}
	var names []string
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(kind)
		names = append(names, apply.Name(&list.Items[i]))
		u.watcher.Ensure(ctx, kind, namespace)
	}
	return names, nil
}

// deleter deletes what was created for operands, unless a user keeps it.
type deleter struct {
	*cluster.Access
	watcher *cluster.Watcher
}

// delete deletes the object of an entry if it was created for it, and returns what it waits for, or "" if the object is gone or kept.
func (d *deleter) delete(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	live := objectOf(schema.FromAPIVersionAndKind(e.APIVersion, e.Kind), e.Namespace, e.Name)
	err = d.getServed(ctx, live)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return "", apply.ConfirmAbsenceOf(ctx, d.Reader, d.Client.RESTMapper(), live.GroupVersionKind().GroupKind(), err)
	case apierrors.IsForbidden(err):
		return "", d.ExplainUnlessEnding(ctx, err, live)
	case err != nil:
		return "", fmt.Errorf("reading %s: %w", apply.Name(live), err)
	case !isCreated(live, s.ownerOf(live, e), e.UID):
		return "", nil
	}
	if kept, err := d.isKept(ctx, s, live, e); err != nil || kept {
		return "", err
	}
	d.watcher.Ensure(ctx, live.GroupVersionKind(), e.Namespace)
	if live.DeletionTimestamp == nil {
		uid := live.UID
		// The answer is the object if it has finalizers, which cannot be decoded as metadata.
		object := unstructuredOf(live.GroupVersionKind(), client.ObjectKeyFromObject(live))
		err := d.Client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &uid})
		if apierrors.IsForbidden(err) {
			return "", d.ExplainUnlessEnding(ctx, err, live)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return "", fmt.Errorf("deleting %s: %w", apply.Name(live), err)
		}
		if err := d.Reader.Get(ctx, client.ObjectKeyFromObject(live), live); apierrors.IsNotFound(err) {
			return "", nil
		}
	}
	return apply.Name(live), nil
}

// getServed reads an object. If its version is not served any more, such as that of a collection that was upgraded, it is read in another one.
func (d *deleter) getServed(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	key := client.ObjectKeyFromObject(object)
	kind := object.GroupVersionKind()
	err := d.Reader.Get(ctx, key, object)
	if !errors.Is(apply.ConfirmAbsenceOf(ctx, d.Reader, d.Client.RESTMapper(), kind.GroupKind(), err), apply.ErrNotServed) {
		return err
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := d.Reader.Get(ctx, client.ObjectKey{Name: d.ResourceOf(kind).String()}, crd); err != nil {
		return fmt.Errorf("reading the CRD of kind %s: %w", kind.Kind, err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Served && version.Name != kind.Version {
			object.SetGroupVersionKind(kind.GroupKind().WithVersion(version.Name))
			return d.Reader.Get(ctx, key, object)
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

// isKept reports whether a user wants to keep an object, or the operator for which an OperandConfig has created it.
func (d *deleter) isKept(ctx context.Context, s *scope, live client.Object, e v1alpha1.InventoryEntry) (bool, error) {
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
			subscription, err := d.liveSubscription(ctx, operator)
			if err != nil || subscription != nil && subscription.Labels[v1alpha1.LabelKeep] == "true" {
				return err == nil, err
			}
		}
		if operator.Mapping == "" || operator.Mapping != e.Namespace {
			continue
		}
		soc, err := liveConfig(ctx, d.Reader, operator)
		if err != nil || soc != nil && soc.Labels[v1alpha1.LabelKeep] == "true" {
			return err == nil, err
		}
	}
	return false, nil
}

// liveSubscription returns the Subscription of an entry if it is ours, or nil.
func (d *deleter) liveSubscription(ctx context.Context, e v1alpha1.InventoryEntry) (*operatorsv1alpha1.Subscription, error) {
	live := &operatorsv1alpha1.Subscription{}
	err := d.Reader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Name}, live)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, apply.ConfirmAbsence(ctx, d.Reader, err)
	case apierrors.IsForbidden(err):
		return nil, d.ExplainUnlessEnding(ctx, err, objectOf(plan.SubscriptionKind, e.Namespace, e.Name))
	case err != nil:
		return nil, fmt.Errorf("reading kind %s in namespace %q: %w", plan.SubscriptionKind.Kind, e.Namespace, err)
	case e.UID != "" && e.UID != string(live.UID), !isCreated(live, e.Registry+"/"+e.Operand, e.UID):
		return nil, nil
	}
	return live, nil
}

// liveConfig returns the SubOperatorConfig of an entry, or nil if it is gone.
func liveConfig(ctx context.Context, reader client.Reader, e v1alpha1.InventoryEntry) (*v2beta2.SubOperatorConfig, error) {
	soc := &v2beta2.SubOperatorConfig{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: e.Name}, soc)
	if apierrors.IsNotFound(err) || err == nil && string(soc.UID) != e.UID {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading SubOperatorConfig %q in namespace %q: %w", e.Name, e.Namespace, err)
	}
	return soc, nil
}
