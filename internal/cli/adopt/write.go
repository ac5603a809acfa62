package adopt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"

	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/support/adopt"
)

const (
	// adoptInterval is how often the command looks for what it waits for.
	adoptInterval = time.Second
	// settledAfter is how often in a row a request must find that a version of a CRD is not served any more: there may be several API
	// servers, and each learns it by itself.
	settledAfter = 5
)

// writer writes objects of a cluster.
type writer struct {
	cluster *kube.Cluster
	mapper  meta.RESTMapper
}

// apply does what a plan says, in its order.
func (w writer) apply(ctx context.Context, plan adopt.Plan) error {
	for _, claim := range plan.Claims {
		if _, err := w.updateDefinition(ctx, claim.Live, claim.Want); err != nil {
			return err
		}
	}
	if err := w.removeAll(ctx, plan.Remove); err != nil {
		return err
	}
	if err := w.expectGone(ctx, plan.Remove); err != nil {
		return err
	}
	for _, change := range plan.Changes {
		if err := w.update(ctx, change.Live, change.Want); err != nil {
			return err
		}
	}
	for _, d := range plan.Definitions {
		if err := w.replace(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// client returns the client for an object.
func (w writer) client(o *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	gvk := o.GroupVersionKind()
	mapping, err := w.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return w.cluster.Dynamic.Resource(mapping.Resource), nil
	}
	return w.cluster.Dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace()), nil
}

// remove deletes an object. Another one of its name that was made meanwhile stays.
func (w writer) remove(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := w.client(o)
	if err != nil {
		return err
	}
	uid, propagation := o.GetUID(), metav1.DeletePropagationBackground
	if makesPods(o) {
		propagation = metav1.DeletePropagationForeground
	}
	options := metav1.DeleteOptions{PropagationPolicy: &propagation, Preconditions: &metav1.Preconditions{UID: &uid}}
	if err := client.Delete(ctx, o.GetName(), options); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// removeAll deletes objects in their order, and waits until no pod of them is left, so that no playbook runs twice at the same time.
func (w writer) removeAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		if err := w.remove(ctx, o); err != nil {
			return err
		}
	}
	for _, o := range objects {
		if !makesPods(o) {
			continue
		}
		if err := w.awaitGone(ctx, o); err != nil {
			return fmt.Errorf("waiting for the pods of %s %s in namespace %s to end: %w", o.GetKind(), o.GetName(), o.GetNamespace(), err)
		}
	}
	return nil
}

// expectGone fails if somebody has made an object again, as those do who keep it as in a repository: two operators would run.
func (w writer) expectGone(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		client, err := w.client(o)
		if err != nil {
			return err
		}
		live, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return err
		case live.GetUID() != o.GetUID():
			return fmt.Errorf("%s %s in namespace %s was created again: stop the tool that creates it", o.GetKind(), o.GetName(), o.GetNamespace())
		}
	}
	return nil
}

func makesPods(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Deployment" || o.GetKind() == "StatefulSet"
}

// awaitGone waits for a workload that is deleted: the API server keeps it until its pods are gone.
func (w writer) awaitGone(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := w.client(o)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, adoptInterval, true, func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && live.GetUID() != o.GetUID(), err
	})
}

// update writes an object, and before that its status if it differs. An object that somebody else has changed meanwhile is a conflict.
func (w writer) update(ctx context.Context, live, want *unstructured.Unstructured) error {
	if equality.Semantic.DeepEqual(live.Object, want.Object) {
		return nil
	}
	client, err := w.client(want)
	if err != nil {
		return err
	}
	options := metav1.UpdateOptions{FieldManager: kube.FieldManager}
	if !equality.Semantic.DeepEqual(live.Object["status"], want.Object["status"]) {
		status := live.DeepCopy()
		delete(status.Object, "status")
		if fields, ok := want.DeepCopy().Object["status"]; ok {
			status.Object["status"] = fields
		}
		written, err := client.UpdateStatus(ctx, status, options)
		switch {
		case err == nil:
			want = want.DeepCopy()
			want.SetResourceVersion(written.GetResourceVersion())
		case !apierrors.IsNotFound(err): // Without a subresource, the status is written with the object.
			return fmt.Errorf("write the status of %s %s: %w", want.GetKind(), want.GetName(), err)
		}
	}
	if _, err := client.Update(ctx, want, options); err != nil {
		return fmt.Errorf("write %s %s: %w", want.GetKind(), want.GetName(), err)
	}
	return nil
}

// updateDefinition writes a CRD without its status, and returns it as it is then. API servers write the status at any time, which is no
// conflict.
func (w writer) updateDefinition(ctx context.Context, live, want *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	if isSameDefinition(live, want) {
		return live, nil
	}
	var written *apiextensionsv1.CustomResourceDefinition
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		written, err = w.writeDefinition(ctx, want)
		if !apierrors.IsConflict(err) {
			return err
		}
		current, readErr := w.definition(ctx, want.Name)
		if readErr != nil {
			return readErr
		}
		if current.UID != live.UID || !isSameDefinition(live, current) {
			return errors.New("it was changed in the meantime")
		}
		want = want.DeepCopy()
		want.ResourceVersion = current.ResourceVersion
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write CRD %s: %w", want.Name, err)
	}
	return written, nil
}

func (w writer) writeDefinition(ctx context.Context, want *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return nil, err
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	written, err := w.cluster.Dynamic.Resource(kube.DefinitionType).Update(ctx, object, metav1.UpdateOptions{FieldManager: kube.FieldManager})
	if err != nil {
		return nil, err
	}
	return typedDefinition(written)
}

func isSameDefinition(a, b *apiextensionsv1.CustomResourceDefinition) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && equality.Semantic.DeepEqual(a.Labels, b.Labels) && equality.Semantic.DeepEqual(a.Annotations, b.Annotations)
}

// definition reads a CRD.
func (w writer) definition(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	object, err := w.cluster.Dynamic.Resource(kube.DefinitionType).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return typedDefinition(object)
}

// replace replaces a CRD by that of Collection Operator, and gives it the label by which it counts as adopted.
func (w writer) replace(ctx context.Context, d adopt.Definition) error {
	written, err := w.updateDefinition(ctx, d.Live, d.Between())
	if err == nil && len(d.Rewrites()) > 0 {
		written, err = w.rewrite(ctx, d)
	}
	if err != nil {
		return err
	}
	adopted := written.DeepCopy()
	metav1.SetMetaDataLabel(&adopted.ObjectMeta, adopt.LabelPartOf, adopt.PartOf)
	// This command does not stay a writer of the CRD: the next release is applied without force.
	adopted.ManagedFields = slices.DeleteFunc(adopted.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == kube.FieldManager && entry.Subresource == ""
	})
	_, err = w.updateDefinition(ctx, written, adopted)
	return err
}

// rewrite writes objects once that may be stored in other versions than that of Collection Operator, and removes these versions from a CRD.
func (w writer) rewrite(ctx context.Context, d adopt.Definition) (*apiextensionsv1.CustomResourceDefinition, error) {
	gvr := schema.GroupVersionResource{Group: d.Want.Spec.Group, Resource: d.Want.Spec.Names.Plural}
	for _, version := range d.Rewrites() {
		if err := w.awaitUnserved(ctx, gvr.GroupResource().WithVersion(version)); err != nil {
			return nil, err
		}
	}
	stored := adopt.StorageVersion(d.Want)
	err := w.cluster.Each(ctx, gvr.GroupResource().WithVersion(stored), metav1.NamespaceAll, func(o *unstructured.Unstructured) error {
		client := w.cluster.Dynamic.Resource(gvr.GroupResource().WithVersion(stored)).Namespace(o.GetNamespace())
		_, err := client.Update(ctx, o, metav1.UpdateOptions{FieldManager: kube.FieldManager})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // Somebody else wrote it, or it is gone.
			return nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write the objects of CRD %s: %w", d.Want.Name, err)
	}
	return w.forget(ctx, d, stored)
}

// awaitUnserved waits until a version of a CRD is not served any more.
func (w writer) awaitUnserved(ctx context.Context, gvr schema.GroupVersionResource) error {
	times := 0
	return wait.PollUntilContextCancel(ctx, adoptInterval, true, func(ctx context.Context) (bool, error) {
		_, err := w.cluster.Dynamic.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1})
		if !apierrors.IsNotFound(err) {
			times = 0
			return false, err
		}
		times++
		return times >= settledAfter, nil
	})
}

// forget removes the versions from a CRD in which no object is stored any more.
func (w writer) forget(ctx context.Context, d adopt.Definition, stored string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crds := w.cluster.Dynamic.Resource(kube.DefinitionType)
	var live *unstructured.Unstructured
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() (err error) {
		if live, err = crds.Get(ctx, d.Want.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		if err := unstructured.SetNestedStringSlice(live.Object, []string{stored}, "status", "storedVersions"); err != nil {
			return err
		}
		live, err = crds.UpdateStatus(ctx, live, metav1.UpdateOptions{FieldManager: kube.FieldManager})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write CRD %s: %w", d.Want.Name, err)
	}
	between, err := typedDefinition(live)
	if err != nil {
		return nil, err
	}
	want := d.Unlabelled()
	want.ResourceVersion = between.ResourceVersion
	return w.updateDefinition(ctx, between, want)
}
