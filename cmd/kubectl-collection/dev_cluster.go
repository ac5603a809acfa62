package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

const (
	// annotationDevelopment is on the namespaces in which dev works, with the value "true".
	annotationDevelopment = "zoscb.ibm.com/allow-development"
	// labelDevelopment is on the OperatorCollections of dev, with the value "true".
	labelDevelopment = "zoscb.ibm.com/development"
)

// allowed returns an error unless the namespace is one for development.
func (d *developing) allowed(ctx context.Context) error {
	namespace, err := d.cluster.core.Namespaces().Get(ctx, d.cluster.namespace, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if namespace.Annotations[annotationDevelopment] != "true" {
		return fmt.Errorf("namespace %q is not for development: whoever administers it allows it with `kubectl annotate namespace %s %s=true`",
			namespace.Name, namespace.Name, annotationDevelopment)
	}
	return nil
}

// write creates or changes the OperatorCollection so that it takes an archive, and returns its generation. It does not touch one that
// was not created by dev.
func (d *developing) write(ctx context.Context, oc resource, archive digest.Digest) (int64, error) {
	client := d.cluster.dynamic.Resource(oc.mapping.Resource).Namespace(oc.namespace)
	live, err := client.Get(ctx, oc.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return 0, err
	case live.GetLabels()[labelDevelopment] != "true":
		return 0, fmt.Errorf("OperatorCollection %q exists in namespace %q and was not created by this command: rename or delete it", oc.name, oc.namespace)
	case live.GetDeletionTimestamp() != nil:
		return 0, fmt.Errorf("OperatorCollection %q in namespace %q is being deleted: wait until it is gone", oc.name, oc.namespace)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"apiGroup": string(v2beta2.APIGroupPerCollection), "digest": archive.String(),
		"deletionPolicy": string(v2beta2.DeletionFinalize), "upgrade": map[string]any{"policy": string(v2beta2.UpgradeAllowBreaking)},
	}}}
	object.SetGroupVersionKind(oc.mapping.GroupVersionKind)
	object.SetName(oc.name)
	object.SetLabels(map[string]string{labelDevelopment: "true"})
	written, err := client.Apply(ctx, oc.name, object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil {
		return 0, err
	}
	d.name = oc.name
	return written.GetGeneration(), nil
}

// end removes the collection, for at most the time of --timeout or until Ctrl+C.
func (d *developing) end(parent context.Context) error {
	ctx, stop := untilSignal(parent)
	defer stop()
	ctx, cancel := withTimeout(ctx, d.timeout)
	defer cancel()
	fmt.Fprintln(d.out, "Removing the collection. Ctrl+C leaves the rest to the cluster.")
	err := d.remove(ctx)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: OperatorCollection %q in namespace %q is deleted once its custom resources are: see `kubectl collection status -n %s`",
		err, d.name, d.cluster.namespace, d.cluster.namespace)
}

// remove deletes the OperatorCollection, and waits until it is gone with its custom resources.
func (d *developing) remove(ctx context.Context) error {
	oc := operatorCollectionOf(d.cluster.namespace, d.name)
	err := d.cluster.dynamic.Resource(oc.mapping.Resource).Namespace(oc.namespace).Delete(ctx, oc.name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	p := &progress{out: d.out}
	err = d.cluster.follow(ctx, oc, func(object *unstructured.Unstructured) bool {
		if object == nil {
			p.print("Removed")
			return true
		}
		var oc v2beta2.OperatorCollection
		if object.GetDeletionTimestamp() == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &oc) != nil {
			return false
		}
		if ready := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionReady); ready != nil && ready.Status == metav1.ConditionFalse {
			p.print(ready.Reason + ": " + ready.Message)
		}
		return false
	})
	if err == nil && ctx.Err() != nil {
		return errors.New("not removed yet")
	}
	return err
}

// readDevResources reads the custom resources in files, and brings them to the version and the API group that dev installs.
func readDevResources(files []string, c *model.Collection, namespace string) ([]*unstructured.Unstructured, error) {
	objects, err := localrun.ReadObjects(files)
	errs := []error{err}
	resources := make([]*unstructured.Unstructured, 0, len(objects))
	for _, object := range objects {
		group := object.GroupVersionKind().Group
		_, known := c.Resource(object.GetKind())
		switch {
		case !known || group != c.Group(false) && group != c.Group(true):
			err = fmt.Errorf("%s %s is not a custom resource of the collection: create it with kubectl", object.GetKind(), object.GetName())
		case object.GetNamespace() != "" && object.GetNamespace() != namespace:
			err = fmt.Errorf("%s %s is for namespace %q, not %q", object.GetKind(), object.GetName(), object.GetNamespace(), namespace)
		case object.GetName() == "":
			err = fmt.Errorf("a %s has no metadata.name", object.GetKind())
		default:
			object.SetAPIVersion(c.Group(true) + "/" + c.APIVersion())
			resources = append(resources, object.Unstructured)
			continue
		}
		errs = append(errs, err)
	}
	return resources, errors.Join(errs...)
}

// runAll applies the custom resources, and shows their runs, one after the other.
func (d *developing) runAll(ctx context.Context, c *model.Collection, resources []*unstructured.Unstructured) error {
	failed := false
	for _, object := range resources {
		kind, _ := c.Resource(object.GetKind())
		gvk := object.GroupVersionKind()
		gvr := gvk.GroupVersion().WithResource(kind.Plural())
		r := resource{
			mapping:   &meta.RESTMapping{Resource: gvr, GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace},
			namespace: d.cluster.namespace, name: object.GetName(),
		}
		succeeded, err := d.runOne(ctx, r, object)
		if err != nil {
			return err
		}
		failed = failed || !succeeded
	}
	if failed {
		return errFindings
	}
	return nil
}

// runOne applies a custom resource, asks for a run if it was there before, and follows the run to its end.
func (d *developing) runOne(ctx context.Context, r resource, object *unstructured.Unstructured) (succeeded bool, err error) {
	client := d.cluster.dynamic.Resource(r.mapping.Resource).Namespace(r.namespace)
	p := &progress{out: d.out}
	live, err := client.Get(ctx, r.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, err
	default:
		status, err := statusOf(live)
		if err != nil {
			return false, fmt.Errorf("%s: status: %w", r, err)
		}
		p.before = lastRunID(status)
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[gate.AnnotationRequestedAt] = time.Now().UTC().Format(time.RFC3339Nano)
		object.SetAnnotations(annotations)
	}
	if _, err := client.Apply(ctx, r.name, object, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
		return false, err
	}
	fmt.Fprintf(d.out, "%s/%s:\n", printable.Escape(r.kind()), r.name)
	if err := errors.Join(d.cluster.follow(ctx, r, p.observe), p.err); err != nil || p.run == nil {
		return false, err
	}
	printRun(d.out, p.run)
	return p.run.Outcome.Succeeded(), nil
}
