package operatorcollection

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/replacement"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// collectionFinalizer removes what an OperatorCollection installed.
type collectionFinalizer struct {
	Client      client.Client
	Reader      client.Reader
	Recorder    events.EventRecorder
	Collections *imports.CollectionCache
}

// finalize removes what the collection installed, in the order that its deletion policy asks for. It returns nil once
// nothing is left and the finalizer is gone.
func (f *collectionFinalizer) finalize(ctx context.Context, oc *v2beta2.OperatorCollection) error {
	steps := []func(context.Context, *v2beta2.OperatorCollection) error{
		f.releaseInstances,
		f.removeSubOperatorConfigs,
		f.releaseCRDs,
		f.awaitCRDRemoval,
		f.removeArtifact,
	}
	for _, step := range steps {
		if err := step(ctx, oc); err != nil {
			return err
		}
	}
	return apply.RemoveFinalizer(ctx, f.Client, oc)
}

// releaseInstances waits until no custom resource keeps the operators that were installed for this object, and with the
// policy Finalize deletes them. Custom resources in other namespaces belong to others and are left alone.
func (f *collectionFinalizer) releaseInstances(ctx context.Context, oc *v2beta2.OperatorCollection) error {
	if f.Collections.RecordedID(oc) == (model.ID{}) || oc.Spec.DeletionPolicy == v2beta2.DeletionOrphan {
		return nil
	}
	if succeeded, err := f.awaitSuccession(ctx, oc); err != nil || succeeded {
		return err
	}
	existing := &instances.Finder{Client: f.Client, Reader: f.Reader}
	items, err := f.servedInstances(ctx, oc, existing)
	if err != nil && oc.Spec.DeletionPolicy == v2beta2.DeletionFinalize { // What is wrong in one namespace keeps no other one from being finalized.
		return errors.Join(err, existing.Delete(ctx, items))
	}
	if err != nil || len(items) == 0 {
		return err
	}
	if oc.Spec.DeletionPolicy != v2beta2.DeletionFinalize {
		return status.Waiting(v2beta2.ReasonInstancesExist, deletionPoll(oc),
			"deletion waits until these custom resources are deleted: %s (or set spec.deletionPolicy to Finalize to delete them, or to Orphan to keep them)", instances.Describe(items))
	}
	if err := existing.Delete(ctx, items); err != nil {
		return err
	}
	return status.Waiting(v2beta2.ReasonFinalizingInstances, deletionPoll(oc), "deletion waits for the finalizer playbooks of %s", instances.Describe(items))
}

// awaitSuccession keeps an OperatorCollection with its operators as long as others keep the collection that waits in its place from
// taking it over. It reports whether one waits: then the custom resources stay, whatever the deletion policy says.
func (f *collectionFinalizer) awaitSuccession(ctx context.Context, oc *v2beta2.OperatorCollection) (bool, error) {
	id := f.Collections.RecordedID(oc)
	successor, err := replacement.WaitingSuccessor(ctx, f.Reader, oc.Namespace, id)
	if err != nil {
		return false, err
	}
	if successor == nil {
		return false, replacement.AwaitInterrupted(ctx, f.Reader, oc, id)
	}
	crds, err := (&instances.Finder{Reader: f.Reader}).CRDs(ctx, id)
	if err != nil {
		return false, err
	}
	all := &v2beta2.OperatorCollectionList{}
	if err := f.Reader.List(ctx, all); err != nil {
		return false, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	var holders []string
	for i := range crds {
		holders = append(holders, replacement.OtherHolders(&crds[i], all.Items, func(other *v2beta2.OperatorCollection) bool { return other.DeletionTimestamp != nil })...)
	}
	if len(holders) > 0 {
		return true, status.Waiting(v2beta2.ReasonReplaced, intervals.Poll,
			"the deletion waits until OperatorCollection %q can take over the custom resources: delete OperatorCollection %s, too",
			successor.Name, replacement.DescribeHolders(holders, oc.Namespace, all.Items))
	}
	return true, nil
}

// maxDeletionPoll limits the delay that deletionPoll returns.
const maxDeletionPoll = 5 * time.Minute

// deletionPoll is the delay before a deletion is looked at again. It grows with the age of the deletion: custom resources are not
// watched, and may stay for weeks.
func deletionPoll(oc *v2beta2.OperatorCollection) time.Duration {
	return max(intervals.Poll, min(time.Since(oc.DeletionTimestamp.Time)/8, maxDeletionPoll))
}

// servedInstances are the custom resources in the namespaces where the collection is installed for this object and that
// consent to it. It is an error with a reason if no operator is there for others.
func (f *collectionFinalizer) servedInstances(ctx context.Context, oc *v2beta2.OperatorCollection, existing *instances.Finder) ([]unstructured.Unstructured, error) {
	socs, err := imports.SubOperatorConfigsOf(ctx, f.Reader, oc)
	if err != nil {
		return nil, err
	}
	var served []unstructured.Unstructured
	var stuck []error
	for _, soc := range socs {
		for _, namespace := range installedNamespaces(oc, &soc) {
			err := mapping.Consent(ctx, f.Reader, soc.Namespace, namespace)
			if status.Is(err) || err == nil && !mapping.Maps(&soc, namespace) {
				continue // They belong to others now, or their operator is being removed.
			}
			if err != nil {
				return nil, err
			}
			items, err := existing.List(ctx, f.Collections.RecordedID(oc), namespace)
			if err != nil {
				return nil, err
			}
			err = f.checkOperator(ctx, oc, namespace, items)
			switch {
			case status.Is(err):
				stuck = append(stuck, err)
			case err != nil:
				return nil, err
			default:
				served = append(served, items...)
			}
		}
	}
	return served, status.Join(stuck...)
}

// checkOperator returns why no operator can run the finalizer playbooks of custom resources in a namespace, or nil.
func (f *collectionFinalizer) checkOperator(ctx context.Context, oc *v2beta2.OperatorCollection, namespace string, items []unstructured.Unstructured) error {
	if len(items) == 0 {
		return nil
	}
	terminating, err := instances.IsTerminating(ctx, f.Reader, namespace)
	switch {
	case err != nil:
		return err
	case terminating:
		return status.Waiting(v2beta2.ReasonInstancesExist, deletionPoll(oc),
			"namespace %q is being deleted, and the operator in it, so no finalizer playbook can run for %s: clean up the z/OS resources they represent, then remove their finalizer %s with kubectl collection abandon KIND/NAME",
			namespace, instances.Describe(items), render.Finalizer)
	}
	items = slices.DeleteFunc(slices.Clone(items), func(item unstructured.Unstructured) bool {
		return !controllerutil.ContainsFinalizer(&item, render.Finalizer)
	})
	deployment := client.ObjectKey{Namespace: namespace, Name: f.Collections.RecordedID(oc).OperatorName()}
	exists, err := install.HasOperator(ctx, f.Reader, deployment)
	if err != nil || exists || len(items) == 0 {
		return err
	}
	return status.Waiting(v2beta2.ReasonInstancesExist, deletionPoll(oc),
		"Deployment %q does not exist, so no finalizer playbook can run for %s: set spec.deletionPolicy to %s and import the collection again, or remove them without a run with kubectl collection abandon KIND/NAME",
		deployment, instances.Describe(items), v2beta2.DeletionOrphan)
}

func (f *collectionFinalizer) removeSubOperatorConfigs(ctx context.Context, oc *v2beta2.OperatorCollection) error {
	socs, err := imports.SubOperatorConfigsOf(ctx, f.Reader, oc)
	if err != nil {
		return err
	}
	var names []string
	for i := range socs {
		names = append(names, socs[i].Name)
		if socs[i].DeletionTimestamp != nil {
			continue
		}
		if err := f.Client.Delete(ctx, &socs[i], client.Preconditions{UID: &socs[i].UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting SubOperatorConfig %q: %w", socs[i].Name, err)
		}
	}
	successor, err := replacement.WaitingSuccessor(ctx, f.Reader, oc.Namespace, f.Collections.RecordedID(oc))
	switch {
	case err != nil:
		return err
	case len(names) > 0 && successor != nil:
		return status.Waiting(v2beta2.ReasonReplaced, status.Watched,
			"OperatorCollection %q takes over the kinds: custom resources and CRDs stay; waiting for SubOperatorConfigs to be removed: %s",
			successor.Name, strings.Join(names, ", "))
	case len(names) > 0:
		return status.Waiting(v2beta2.ReasonTerminating, status.Watched, "waiting for SubOperatorConfigs to be removed: %s", strings.Join(names, ", "))
	}
	return nil
}

// releaseCRDs records on the collection's CRDs that this OperatorCollection does not have them any more. The finalizer keeps it
// until that is written: a CRD without this record is not removed.
func (f *collectionFinalizer) releaseCRDs(ctx context.Context, oc *v2beta2.OperatorCollection) error {
	key := cmp.Or(imports.ImportedID(oc), imports.LabelledID(oc)) // A restored one may not be imported yet.
	if key == (model.ID{}) {
		return nil
	}
	all, err := (&instances.Finder{Reader: f.Reader}).CRDs(ctx, key)
	if err != nil {
		return err
	}
	for i := range all {
		definition := &all[i]
		holders := crd.Holders(definition)
		without := slices.DeleteFunc(slices.Clone(holders), func(holder string) bool { return holder == crdplan.HolderName(oc) })
		if definition.DeletionTimestamp != nil || len(without) == len(holders) && (!crdplan.HasKind(oc, definition) || crd.IsUnused(definition)) {
			continue
		}
		before, now := maps.Clone(definition.Annotations), time.Now()
		crd.SetHolders(definition, append(without, crdplan.HolderName(oc)), now) // Earlier versions recorded none.
		crd.SetHolders(definition, without, now)
		if maps.Equal(before, definition.Annotations) {
			continue
		}
		if err := f.Client.Update(ctx, definition, client.FieldOwner(apply.FieldOwner)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("recording on CRD %q that OperatorCollection %q is deleted: %w", definition.Name, oc.Name, err)
		}
	}
	return nil
}

// awaitCRDRemoval waits for the CRD controller, which removes CRDs that have neither a collection nor custom resources. It does not
// wait for those that other OperatorCollections have according to what is recorded on them, even if these do not exist.
func (f *collectionFinalizer) awaitCRDRemoval(ctx context.Context, oc *v2beta2.OperatorCollection) error {
	key := imports.ImportedID(oc)
	if key == (model.ID{}) || oc.Spec.DeletionPolicy == v2beta2.DeletionOrphan {
		return nil
	}
	existing := &instances.Finder{Reader: f.Reader}
	crds, err := existing.CRDs(ctx, key)
	if err != nil {
		return err
	}
	all := &v2beta2.OperatorCollectionList{}
	if err := f.Reader.List(ctx, all, client.InNamespace(oc.Namespace)); err != nil {
		return fmt.Errorf("listing OperatorCollections: %w", err)
	}
	crds = slices.DeleteFunc(crds, func(definition apiextensionsv1.CustomResourceDefinition) bool {
		return !crd.IsUnused(&definition) || replacement.IsTakenOver(&definition, all.Items)
	})
	var items []unstructured.Unstructured
	for i := range crds {
		found, err := existing.ListOf(ctx, &crds[i], "")
		if err != nil {
			return err
		}
		items = append(items, found...)
	}
	if len(items) > 0 {
		note := fmt.Sprintf("the CRDs are kept: %d custom resources stay without an operator: %s", len(items), instances.Describe(items))
		f.Recorder.Eventf(oc, nil, corev1.EventTypeWarning, v2beta2.ReasonInstancesExist, "Delete", "%s", printable.Line(note, status.MaxEventBytes))
		return nil
	}
	if len(crds) == 0 {
		return nil
	}
	var names []string
	for i := range crds {
		names = append(names, crds[i].Name)
	}
	return status.Waiting(v2beta2.ReasonTerminating, deletionPoll(oc), "waiting for CRDs to be removed: %s", strings.Join(names, ", "))
}

// removeArtifact sets the archives of a collection aside that goes.
func (f *collectionFinalizer) removeArtifact(ctx context.Context, oc *v2beta2.OperatorCollection) error {
	archives := map[digest.Digest]bool{}
	if oc.Status.Artifact != nil {
		archives[digest.Digest(oc.Status.Artifact.Digest)] = true
	}
	for _, entry := range oc.Status.History {
		archives[digest.Digest(entry.Digest)] = true
	}
	var errs []error
	for archive := range archives {
		errs = append(errs, f.Collections.MarkUnusedUnlessUsed(ctx, f.Reader, oc, archive))
	}
	return errors.Join(errs...)
}

// installedNamespaces are the namespaces where the collection is installed for a SubOperatorConfig. One that was restored without status
// may be installed in all namespaces that it maps.
func installedNamespaces(oc *v2beta2.OperatorCollection, soc *v2beta2.SubOperatorConfig) []string {
	var namespaces []string
	for _, installation := range soc.Status.Installations {
		namespaces = append(namespaces, installation.Namespace)
	}
	if oc.Status.Collection == nil {
		for _, mapped := range soc.Spec.Mapping {
			namespaces = append(namespaces, mapped.Namespace)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}
