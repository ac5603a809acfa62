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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/render"
)

// instanceLimit bounds how many custom resources of one kind are read at a time.
const instanceLimit = 500

// instances finds the custom resources of a collection, in whatever namespace, through its CRDs.
type instances struct {
	// client deletes.
	client client.Client
	// reader reads live objects: a stale answer could cost a user a resource.
	reader client.Reader
}

func (i *instances) crds(ctx context.Context, key collectionKey) ([]apiextensionsv1.CustomResourceDefinition, error) {
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := i.reader.List(ctx, list, key.selector()); err != nil {
		return nil, fmt.Errorf("listing the CRDs of %s: %w", key, err)
	}
	return list.Items, nil
}

// list returns up to instanceLimit custom resources of each kind. An empty namespace means all.
func (i *instances) list(ctx context.Context, key collectionKey, namespace string) ([]unstructured.Unstructured, error) {
	crds, err := i.crds(ctx, key)
	if err != nil {
		return nil, err
	}
	var all []unstructured.Unstructured
	for n := range crds {
		items, err := i.listOf(ctx, &crds[n], namespace)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// listOf returns up to instanceLimit custom resources of one kind.
func (i *instances) listOf(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, namespace string) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{
		Group: crd.Spec.Group, Version: storageVersion(crd), Kind: crd.Spec.Names.ListKind,
	})
	err := i.reader.List(ctx, list, client.InNamespace(namespace), client.Limit(instanceLimit))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil // The CRD is not served yet, or not any more.
	}
	if apierrors.IsForbidden(err) {
		return nil, waiting(v2beta2.ReasonPermissionsNotGranted, missingInterval,
			"the manager may not list %s: grant it all verbs on all resources of API group %s in a ClusterRole labelled %s=true",
			crd.Name, crd.Spec.Group, render.LabelGrants)
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", crd.Name, err)
	}
	return list.Items, nil
}

// delete asks for the deletion of all of them. Their finalizers, and so their finalizer playbooks, still run.
func (i *instances) delete(ctx context.Context, items []unstructured.Unstructured) error {
	var errs []error
	for _, item := range items {
		if item.GetDeletionTimestamp() != nil {
			continue
		}
		uid := item.GetUID()
		err := i.client.Delete(ctx, &item, client.Preconditions{UID: &uid})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("deleting %s: %w", instanceName(item), err))
		}
	}
	return errors.Join(errs...)
}

// releaseFinalizer removes the finalizer of ansible-operator from all custom resources of a kind in a namespace.
func releaseFinalizer(ctx context.Context, c client.Client, reader client.Reader, gvk schema.GroupVersionKind, namespace string) error {
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
		if err := c.Patch(ctx, item, patch, client.FieldOwner(fieldOwner)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("removing the finalizer of %s %s/%s: %w", gvk.Kind, namespace, item.Name, err)
		}
	}
	return nil
}

// isTerminating says whether a namespace is being deleted. One that does not exist is not.
func isTerminating(ctx context.Context, reader client.Reader, namespace string) (bool, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := reader.Get(ctx, client.ObjectKey{Name: namespace}, object)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading namespace %q: %w", namespace, err)
	}
	return object.DeletionTimestamp != nil, nil
}

// running are those whose playbook runs right now, as ansible-operator's Running condition says.
func running(items []unstructured.Unstructured) []unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(items), func(item unstructured.Unstructured) bool {
		conditions, _, _ := unstructured.NestedSlice(item.Object, "status", "conditions")
		return !slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == "Running" && condition["status"] == string(metav1.ConditionTrue) &&
				condition["reason"] == "Running"
		})
	})
}

// namedInstances bounds how many objects of a kind a message names.
const namedInstances = 5

// describe names custom resources, sorted, and counts those it leaves out.
func describe(items []unstructured.Unstructured) string {
	names := make([]string, 0, len(items))
	for _, item := range items {
		names = append(names, instanceName(item))
	}
	slices.Sort(names)
	return joinBounded(names)
}

// joinBounded names the first of many.
func joinBounded(names []string) string {
	if len(names) > namedInstances {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namedInstances], ", "), len(names)-namedInstances)
	}
	return strings.Join(names, ", ")
}

func instanceName(item unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", item.GetKind(), item.GetNamespace(), item.GetName())
}

func storageVersion(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}
