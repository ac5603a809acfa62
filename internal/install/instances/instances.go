// Package instances finds, deletes and describes the custom resources of collections.
package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// instanceLimit is the maximum number of custom resources of one kind that are read at a time.
const instanceLimit = 500

// Finder finds the custom resources of a collection through its CRDs.
type Finder struct {
	// Client deletes.
	Client client.Client
	// Reader reads live objects: decisions about deletion must not rely on a stale cache.
	Reader client.Reader
}

// CRDs returns the collection's CRDs.
func (f *Finder) CRDs(ctx context.Context, id model.ID) ([]apiextensionsv1.CustomResourceDefinition, error) {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := f.Reader.List(ctx, list, client.MatchingLabels(render.IdentityLabels(id))); err != nil {
		return nil, fmt.Errorf("listing the CRDs of %s: %w", id, err)
	}
	return list.Items, nil
}

// List returns up to instanceLimit custom resources of each kind. An empty namespace means all namespaces.
func (f *Finder) List(ctx context.Context, id model.ID, namespace string) ([]unstructured.Unstructured, error) {
	crds, err := f.CRDs(ctx, id)
	if err != nil {
		return nil, err
	}
	var all []unstructured.Unstructured
	for n := range crds {
		items, err := f.ListOf(ctx, &crds[n], namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// ListOf returns up to instanceLimit custom resources of one kind. That the API server does not serve the kind says nothing about
// whether there are any: one of several servers may learn late of a CRD. Then it is an error with a reason, unless the CRD was
// deleted, or was never established.
func (f *Finder) ListOf(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, namespace string) ([]unstructured.Unstructured, error) {
	page, err := f.page(ctx, crd, namespace, "")
	return page.Items, err
}

// EachOf calls visit for all custom resources of one kind. The errors are those of ListOf.
func (f *Finder) EachOf(
	ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, namespace string, visit func(*unstructured.Unstructured),
) error {
	for next := ""; ; {
		page, err := f.page(ctx, crd, namespace, next)
		if err != nil {
			return err
		}
		for i := range page.Items {
			visit(&page.Items[i])
		}
		if next = page.GetContinue(); next == "" {
			return nil
		}
	}
}

func (f *Finder) page(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, namespace, next string) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: crd.Spec.Group, Version: servedVersion(crd), Kind: crd.Spec.Names.ListKind,
	})
	err := f.Reader.List(ctx, list, client.InNamespace(namespace), client.Limit(instanceLimit), client.Continue(next))
	switch {
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return &unstructured.UnstructuredList{}, f.checkGone(ctx, crd)
	case apierrors.IsForbidden(err):
		return list, status.Waiting(v2beta2.ReasonPermissionsNotGranted, intervals.Missing,
			"the manager may not list %s: bind a ClusterRole with all verbs on all resources of API group %s to the manager's ServiceAccount",
			crd.Name, crd.Spec.Group)
	case err != nil:
		return list, fmt.Errorf("listing %s: %w", crd.Name, err)
	}
	return list, nil
}

// checkGone returns nil if a kind that is not served has no custom resources for sure.
func (f *Finder) checkGone(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition) error {
	err := apply.CheckKindGone(ctx, f.Reader, crd.Name)
	if errors.Is(err, apply.ErrNotServed) {
		return status.Waiting(v2beta2.ReasonProgressing, intervals.Poll, "it is not known whether there are custom resources of %w", err)
	}
	return err
}

// servedVersion returns the version in which custom resources are read: the storage version, unless it is not served.
func servedVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	storage := StorageVersion(crd)
	for _, version := range crd.Spec.Versions {
		if version.Served && !apihelpers.HasServedCRDVersion(crd, storage) {
			return version.Name
		}
	}
	return storage
}

// StorageVersion returns the name of the storage version of a CRD.
func StorageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}

// Delete deletes custom resources. Their finalizers, and thus their finalizer playbooks, still run.
func (f *Finder) Delete(ctx context.Context, items []unstructured.Unstructured) error {
	var errs []error
	for _, item := range items {
		if item.GetDeletionTimestamp() != nil {
			continue
		}
		uid := item.GetUID()
		err := f.Client.Delete(ctx, &item, client.Preconditions{UID: &uid})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting %s: %w", instanceName(item), err))
		}
	}
	return errors.Join(errs...)
}

// ReleaseFinalizer removes the finalizer of ansible-operator from all custom resources of a kind in a namespace.
func ReleaseFinalizer(ctx context.Context, c client.Client, reader client.Reader, gvk schema.GroupVersionKind, namespace string) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing %s in namespace %q: %w", gvk.Kind, namespace, err)
	}
	for i := range list.Items {
		item := &list.Items[i]
		before := item.DeepCopy()
		if !controllerutil.RemoveFinalizer(item, render.Finalizer) {
			continue
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := c.Patch(ctx, item, patch, client.FieldOwner(apply.FieldOwner)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizer of %s %s/%s: %w", gvk.Kind, namespace, item.Name, err)
		}
	}
	return nil
}

// IsTerminating reports whether a namespace is being deleted. It returns false for one that does not exist.
func IsTerminating(ctx context.Context, reader client.Reader, namespace string) (bool, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := reader.Get(ctx, client.ObjectKey{Name: namespace}, object)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading namespace %q: %w", namespace, err)
	}
	return object.DeletionTimestamp != nil, nil
}

// Runs describe the playbooks of custom resources in a namespace.
type Runs struct {
	// Failing describes the custom resources that began to fail with a version of their collection, or is "".
	Failing string
	// Running are the names of those whose first playbooks with the version run, or "". Those that run again and again do not count.
	Running string
}

// DescribeRuns describes the custom resources of the given kinds in a namespace by their number and the names of the first ones. It reads
// instanceLimit of them at a time.
func (f *Finder) DescribeRuns(ctx context.Context, group schema.GroupVersion, kinds []string, namespace, version string) (Runs, error) {
	var failing, running []string
	for _, kind := range kinds {
		err := f.eachStatus(ctx, group.WithKind(kind), namespace, func(name string, fields map[string]any) {
			if runstatus.Regressed(fields, version) {
				failing = append(failing, name)
			}
			if runstatus.RunsFirst(fields, version) {
				running = append(running, name)
			}
		})
		if err != nil {
			return Runs{}, err
		}
	}
	slices.Sort(failing)
	slices.Sort(running)
	runs := Runs{Running: status.JoinNames(running)}
	switch len(failing) {
	case 0:
	case 1:
		runs.Failing = fmt.Sprintf("%s began to fail with version %s", failing[0], version)
	default:
		runs.Failing = fmt.Sprintf("%d custom resources began to fail with version %s: %s", len(failing), version, status.JoinNames(failing))
	}
	return runs, nil
}

// eachStatus calls a function with the name and the status of each custom resource that has one.
func (f *Finder) eachStatus(ctx context.Context, gvk schema.GroupVersionKind, namespace string, call func(name string, fields map[string]any)) error {
	page := ""
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := f.Reader.List(ctx, list, client.InNamespace(namespace), client.Limit(instanceLimit), client.Continue(page))
		if apierrors.IsForbidden(err) {
			return status.Waiting(v2beta2.ReasonPermissionsNotGranted, intervals.Missing,
				"the manager may not list %s in namespace %s: bind a ClusterRole with all verbs on all resources of API group %s to the manager's ServiceAccount",
				gvk.Kind, namespace, gvk.Group)
		}
		if err != nil {
			return fmt.Errorf("listing %s in namespace %q: %w", gvk.Kind, namespace, err)
		}
		for i := range list.Items {
			content, _, _ := unstructured.NestedFieldNoCopy(list.Items[i].Object, "status")
			if fields, ok := content.(map[string]any); ok {
				call(instanceName(list.Items[i]), fields)
			}
		}
		if page = list.GetContinue(); page == "" {
			return nil
		}
	}
}

// ReportNoOperator writes to the status of custom resources that no operator runs for them. Those that are gone, or say so
// already, are left as they are, and reported is called for the others. It does not stop at an error: it returns the first one with the
// number of statuses that were not written.
func (f *Finder) ReportNoOperator(ctx context.Context, items []unstructured.Unstructured, reported func(item *unstructured.Unstructured)) error {
	var first error
	failed := 0
	for i := range items {
		item := &items[i]
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
			err := f.reportNoOperator(ctx, item, reported)
			if !apierrors.IsConflict(err) {
				return err
			}
			if getErr := f.Reader.Get(ctx, client.ObjectKeyFromObject(item), item); getErr != nil {
				return getErr
			}
			return err
		})
		if client.IgnoreNotFound(err) == nil {
			continue
		}
		failed++
		if first == nil {
			first = fmt.Errorf("%s: %w", instanceName(*item), err)
		}
	}
	if failed > 1 {
		return fmt.Errorf("%w, and %d more", first, failed-1)
	}
	return first
}

// reportNoOperator writes as the gate does: other field managers own the fields that they write as authors.
func (f *Finder) reportNoOperator(ctx context.Context, item *unstructured.Unstructured, reported func(*unstructured.Unstructured)) error {
	before, _, _ := unstructured.NestedMap(item.Object, "status")
	after := runstatus.NoOperator(before, runstatus.Resource{
		Kind: item.GetKind(), Name: item.GetName(), Generation: item.GetGeneration(),
		Authors: runstatus.AuthorsOf(item.GetManagedFields()), Now: time.Now(),
	})
	if runstatus.Equal(before, after) {
		return nil
	}
	changed := item.DeepCopy()
	changed.Object["status"] = after
	patch := client.MergeFromWithOptions(item, client.MergeFromWithOptimisticLock{})
	err := f.Client.Status().Patch(ctx, changed, patch, client.FieldOwner(runstatus.FieldManager))
	if err == nil {
		reported(changed)
	}
	return err
}

// Running returns the custom resources whose playbook is running, according to ansible-operator's Running condition.
func Running(items []unstructured.Unstructured) []unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(items), func(item unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(item.Object, "status", "conditions")
		return !slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == "Running" && condition["status"] == string(metav1.ConditionTrue) &&
				condition["reason"] == "Running"
		})
	})
}

// Describe lists the names of custom resources, sorted. A long list is cut, with the number of omitted names.
func Describe(items []unstructured.Unstructured) string {
	names := make([]string, 0, len(items))
	for _, item := range items {
		names = append(names, instanceName(item))
	}
	slices.Sort(names)
	return status.JoinNames(names)
}

func instanceName(item unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", item.GetKind(), item.GetNamespace(), item.GetName())
}
