package suboperatorconfig

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/replacement"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// remover removes operators, and keeps those that are still needed.
type remover struct {
	client   client.Client
	reader   client.Reader
	recorder events.EventRecorder
	// selection has the namespaces that the manager may use.
	selection mapping.Selection
	installer *install.Installer
}

// removeOwners removes the owner references that earlier versions set: from an OperatorCollection to its SubOperatorConfig, and from that to
// its installations. The garbage collector would follow them at once if a user deletes the OperatorCollection with foreground propagation,
// and take the operator away that the deletion needs. That of the SubOperatorConfig itself goes last: as long as it is there, the others
// may be. That those of installations could not be removed is a problem that nothing else has to wait for.
func (r *remover) removeOwners(ctx context.Context, soc *v2beta2.SubOperatorConfig) (problem, err error) {
	isCollection := func(owner metav1.OwnerReference) bool {
		return strings.HasPrefix(owner.APIVersion, v2beta2.GroupVersion.Group+"/") && owner.Kind == "OperatorCollection" && owner.Name == soc.Spec.OperatorCollection
	}
	// A deletion that orphans removed the reference of the SubOperatorConfig, but none of the others.
	owned := slices.ContainsFunc(soc.OwnerReferences, isCollection)
	if managed := r.selection.Check(soc.Namespace) == nil; !managed || !owned && soc.Status.OperatorCollectionUID != "" {
		return nil, nil
	}
	if err := r.installer.RemoveOwners(ctx, soc); err != nil {
		return status.Retry(v2beta2.ReasonApplyFailed, err), nil
	}
	if !owned {
		return nil, nil
	}
	before := soc.DeepCopy()
	soc.OwnerReferences = slices.DeleteFunc(soc.OwnerReferences, isCollection)
	return nil, apply.PatchMetadata(ctx, r.client, soc, before)
}

// uninstallUnmapped removes the operator from namespaces that are not mapped any more or have withdrawn their consent. It
// runs first and needs nothing but status and inventory, so that no other failure can prevent it.
func (r *remover) uninstallUnmapped(ctx context.Context, soc *v2beta2.SubOperatorConfig, mappings []v2beta2.NamespaceMapping) ([]install.Result, error) {
	var results []install.Result
	for _, namespace := range install.Namespaces(soc) {
		if mapping.Contains(mappings, namespace) || mapping.Maps(soc, namespace) && r.selection.Check(namespace) != nil {
			continue
		}
		terminating := false
		if namespace != "" { // A forged inventory may list cluster-scoped objects of nobody.
			var err error
			if terminating, err = instances.IsTerminating(ctx, r.reader, namespace); err != nil {
				return results, err
			}
		}
		if !terminating { // Otherwise the operator is deleted with its namespace.
			results = append(results, r.uninstall(ctx, soc, namespace))
		}
	}
	return results, nil
}

// uninstall removes the operator from one namespace. What is in a namespace that the manager may not use remains, also if an
// administrator has left it out by mistake.
func (r *remover) uninstall(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) install.Result {
	if err := r.selection.Check(namespace); namespace != "" && err != nil {
		return install.Result{Namespace: namespace, Status: install.Recorded(soc, namespace), Err: err}
	}
	return r.installer.Uninstall(ctx, soc, namespace)
}

// followCollection deletes a SubOperatorConfig whose OperatorCollection does not exist, as authors' tools expect that remove the finalizer
// of the OperatorCollection. That it existed must be recorded: after a restore, the SubOperatorConfig may come first. That it does not
// exist is the answer of a live read.
func (r *remover) followCollection(ctx context.Context, soc *v2beta2.SubOperatorConfig, notFound error) error {
	name := soc.Spec.OperatorCollection
	if err := apply.ConfirmAbsence(ctx, r.reader, notFound); err != nil {
		return fmt.Errorf("reading OperatorCollection %q: %w", name, err)
	}
	missing := status.Waiting(v2beta2.ReasonCollectionNotFound, status.Watched, "OperatorCollection %q does not exist in namespace %q", name, soc.Namespace)
	if soc.Status.OperatorCollectionUID == "" {
		return missing
	}
	if err := r.client.Delete(ctx, soc, client.Preconditions{UID: &soc.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the SubOperatorConfig of OperatorCollection %q, which does not exist any more: %w", name, err)
	}
	r.recorder.Eventf(soc, nil, corev1.EventTypeNormal, v2beta2.ReasonCollectionNotFound, "Delete",
		"OperatorCollection %q does not exist any more: this SubOperatorConfig is deleted, too", name)
	return missing
}

// keep leaves the installations as they are while the OperatorCollection is being deleted, and returns their results.
func (r *remover) keep(ctx context.Context, soc *v2beta2.SubOperatorConfig, mappings []v2beta2.NamespaceMapping) ([]install.Result, error) {
	kept, err := r.keptNamespaces(ctx, soc, mappings)
	if err != nil {
		return nil, err
	}
	results, _ := r.observe(ctx, soc, kept) // The errors are in the results.
	return results, nil
}

// awaitCollection keeps the operator while an OperatorCollection that is being deleted needs it to finalize custom
// resources.
func (r *remover) awaitCollection(ctx context.Context, soc *v2beta2.SubOperatorConfig, mappings []v2beta2.NamespaceMapping) ([]install.Result, error) {
	oc := &v2beta2.OperatorCollection{}
	err := r.reader.Get(ctx, types.NamespacedName{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}, oc)
	if err != nil {
		if err := apply.ConfirmAbsence(ctx, r.reader, err); err != nil {
			return nil, fmt.Errorf("reading OperatorCollection %q: %w", soc.Spec.OperatorCollection, err)
		}
		return nil, nil
	}
	if oc.Spec.DeletionPolicy == v2beta2.DeletionOrphan || oc.Status.Collection == nil {
		return nil, nil
	}
	// A namespace that is being deleted may delete this object before the OperatorCollection.
	terminating, err := instances.IsTerminating(ctx, r.reader, soc.Namespace)
	if err != nil || oc.DeletionTimestamp == nil && !terminating {
		return nil, err
	}
	if successor, err := replacement.WaitingSuccessor(ctx, r.reader, oc.Namespace, imports.ImportedID(oc)); err != nil || successor != nil {
		return nil, err
	}
	kept, err := r.keptNamespaces(ctx, soc, mappings)
	if err != nil {
		return nil, err
	}
	var items []unstructured.Unstructured
	for _, namespace := range kept {
		found, err := (&instances.Finder{Reader: r.reader}).List(ctx, imports.ImportedID(oc), namespace)
		if err != nil {
			return nil, err
		}
		items = append(items, found...)
	}
	if len(items) == 0 {
		return nil, nil
	}
	format := "the operator is kept until OperatorCollection %q has finalized %s"
	results, err := r.observe(ctx, soc, kept)
	if errors.Is(err, install.ErrNoDeployment) {
		format = "waiting until OperatorCollection %q has finalized %s"
	}
	return results, status.Waiting(v2beta2.ReasonCollectionTerminating, intervals.Poll, format, oc.Name, instances.Describe(items))
}

// keptNamespaces are the mapped namespaces with an installation, without those that are being deleted, and their operators with them.
func (r *remover) keptNamespaces(ctx context.Context, soc *v2beta2.SubOperatorConfig, mappings []v2beta2.NamespaceMapping) ([]string, error) {
	var kept []string
	for _, m := range mappings {
		if install.Recorded(soc, m.Namespace) == nil {
			continue
		}
		terminating, err := instances.IsTerminating(ctx, r.reader, m.Namespace)
		if err != nil {
			return nil, err
		}
		if !terminating {
			kept = append(kept, m.Namespace)
		}
	}
	return kept, nil
}

// observe returns the results of installations that are left as they are, and what is wrong with one of them, or nil.
func (r *remover) observe(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespaces []string) ([]install.Result, error) {
	var results []install.Result
	var errs []error
	for _, namespace := range namespaces {
		result := r.installer.Keep(ctx, soc, namespace)
		errs = append(errs, result.Err)
		if e := status.AsError(result.Err); e != nil && status.IsProgress(e.Reason) {
			result.Err = nil // The entry of the installation has it. What all wait for is the deletion.
		}
		results = append(results, result)
	}
	return results, errors.Join(errs...)
}

// uninstaller removes the operator from one namespace.
type uninstaller func(context.Context, *v2beta2.SubOperatorConfig, string) install.Result

// chooseUninstaller returns the one for all namespaces of a SubOperatorConfig that is being deleted. Custom resources and CRDs are kept, for
// the collection that waits in its place, if there is one.
func (r *remover) chooseUninstaller(ctx context.Context, soc *v2beta2.SubOperatorConfig) (uninstaller, error) {
	id := install.RecordedCollection(soc)
	successor, err := replacement.FindIn(ctx, r.reader, soc.Namespace, func(oc *v2beta2.OperatorCollection) bool {
		return replacement.IsSuccessor(oc, id, soc.Namespace) && imports.AwaitsReplaced(oc) || oc.Name != soc.Spec.OperatorCollection && replacement.IsInterrupted(oc, id)
	})
	if err != nil || successor == nil {
		return r.uninstall, err
	}
	return r.handOver, nil
}

// uninstallEverywhere removes the operator from every namespace.
func uninstallEverywhere(ctx context.Context, soc *v2beta2.SubOperatorConfig, uninstall uninstaller) ([]install.Result, error) {
	var results []install.Result
	var errs []error
	for _, namespace := range install.Namespaces(soc) {
		result := uninstall(ctx, soc, namespace)
		errs = append(errs, result.Err)
		result.Err = nil // It is in the error of this step.
		results = append(results, result)
	}
	return results, status.Join(errs...)
}

// handOver is uninstall for a collection that another one replaces.
func (r *remover) handOver(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) install.Result {
	if namespace == "" || r.selection.Check(namespace) != nil {
		return r.uninstall(ctx, soc, namespace)
	}
	return r.installer.HandOver(ctx, soc, namespace)
}
