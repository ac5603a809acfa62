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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/replacement"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// removeOwners removes the owner references that earlier versions set: from an OperatorCollection to its SubOperatorConfig, and from that to
// its installations. The garbage collector would follow them at once if a user deletes the OperatorCollection with foreground propagation,
// and take the operator away that the deletion needs. That of the SubOperatorConfig itself goes last: as long as it is there, the others
// may be.
func (r *Reconciler) removeOwners(ctx context.Context, s *configScope) error {
	isCollection := func(owner metav1.OwnerReference) bool {
		return strings.HasPrefix(owner.APIVersion, v2beta2.GroupVersion.Group+"/") && owner.Kind == "OperatorCollection" && owner.Name == s.soc.Spec.OperatorCollection
	}
	// A deletion that orphans removed the reference of the SubOperatorConfig, but none of the others.
	owned := slices.ContainsFunc(s.soc.OwnerReferences, isCollection)
	if managed := r.Namespaces.Check(s.soc.Namespace) == nil; !managed || !owned && s.soc.Status.OperatorCollectionUID != "" {
		return nil
	}
	if err := r.installer().RemoveOwners(ctx, s.soc); err != nil {
		s.owned = status.Retry(v2beta2.ReasonApplyFailed, err)
		s.problems = append(s.problems, s.owned)
		return nil // Nothing else has to wait for it, and status names the problem.
	}
	if !owned {
		return nil
	}
	before := s.soc.DeepCopy()
	s.soc.OwnerReferences = slices.DeleteFunc(s.soc.OwnerReferences, isCollection)
	return apply.PatchMetadata(ctx, r.Client, s.soc, before)
}

// followCollection deletes a SubOperatorConfig whose OperatorCollection does not exist, as authors' tools expect that remove the finalizer
// of the OperatorCollection. That it existed must be recorded: after a restore, the SubOperatorConfig may come first. That it does not
// exist is the answer of a live read.
func (r *Reconciler) followCollection(ctx context.Context, s *configScope, notFound error) error {
	name := s.soc.Spec.OperatorCollection
	if err := apply.ConfirmAbsence(ctx, r.Reader, notFound); err != nil {
		return fmt.Errorf("reading OperatorCollection %q: %w", name, err)
	}
	missing := status.Waiting(v2beta2.ReasonCollectionNotFound, status.Watched, "OperatorCollection %q does not exist in namespace %q", name, s.soc.Namespace)
	if s.soc.Status.OperatorCollectionUID == "" {
		return missing
	}
	if err := r.Client.Delete(ctx, s.soc, client.Preconditions{UID: &s.soc.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the SubOperatorConfig of OperatorCollection %q, which does not exist any more: %w", name, err)
	}
	r.Recorder.Eventf(s.soc, nil, corev1.EventTypeNormal, v2beta2.ReasonCollectionNotFound, "Delete",
		"OperatorCollection %q does not exist any more: this SubOperatorConfig is deleted, too", name)
	return missing
}

// awaitCollection keeps the operator while an OperatorCollection that is being deleted needs it to finalize custom
// resources.
func (r *Reconciler) awaitCollection(ctx context.Context, s *configScope) error {
	oc := &v2beta2.OperatorCollection{}
	err := r.Reader.Get(ctx, types.NamespacedName{Namespace: s.soc.Namespace, Name: s.soc.Spec.OperatorCollection}, oc)
	if err != nil {
		if err := apply.ConfirmAbsence(ctx, r.Reader, err); err != nil {
			return fmt.Errorf("reading OperatorCollection %q: %w", s.soc.Spec.OperatorCollection, err)
		}
		return nil
	}
	if oc.Spec.DeletionPolicy == v2beta2.DeletionOrphan || oc.Status.Collection == nil {
		return nil
	}
	// A namespace that is being deleted may delete this object before the OperatorCollection.
	terminating, err := instances.IsTerminating(ctx, r.Reader, s.soc.Namespace)
	if err != nil || oc.DeletionTimestamp == nil && !terminating {
		return err
	}
	if successor, err := replacement.WaitingSuccessor(ctx, r.Reader, oc.Namespace, imports.ImportedID(oc)); err != nil || successor != nil {
		return err
	}
	kept, err := r.keptNamespaces(ctx, s)
	if err != nil {
		return err
	}
	var items []unstructured.Unstructured
	for _, namespace := range kept {
		found, err := (&instances.Finder{Reader: r.Reader}).List(ctx, imports.ImportedID(oc), namespace)
		if err != nil {
			return err
		}
		items = append(items, found...)
	}
	if len(items) == 0 {
		return nil
	}
	format := "the operator is kept until OperatorCollection %q has finalized %s"
	if errors.Is(r.observeKept(ctx, s, kept), install.ErrNoDeployment) {
		format = "waiting until OperatorCollection %q has finalized %s"
	}
	return status.Waiting(v2beta2.ReasonCollectionTerminating, intervals.Poll, format, oc.Name, instances.Describe(items))
}

// keptNamespaces are the mapped namespaces with an installation, without those that are being deleted, and their operators with them.
func (r *Reconciler) keptNamespaces(ctx context.Context, s *configScope) ([]string, error) {
	var kept []string
	for _, m := range s.mappings {
		if install.Recorded(s.soc, m.Namespace) == nil {
			continue
		}
		terminating, err := instances.IsTerminating(ctx, r.Reader, m.Namespace)
		if err != nil {
			return nil, err
		}
		if !terminating {
			kept = append(kept, m.Namespace)
		}
	}
	return kept, nil
}

// observeKept adds the results of installations that are left as they are, and returns what is wrong with one of them, or nil.
func (r *Reconciler) observeKept(ctx context.Context, s *configScope, namespaces []string) error {
	var errs []error
	for _, namespace := range namespaces {
		result := r.installer().Keep(ctx, s.soc, namespace)
		errs = append(errs, result.Err)
		if e := status.AsError(result.Err); e != nil && status.IsProgress(e.Reason) {
			result.Err = nil // The entry of the installation has it. What all wait for is the deletion.
		}
		s.results = append(s.results, result)
	}
	return errors.Join(errs...)
}

// uninstallAll removes the operator from every namespace. Custom resources and CRDs are kept, for the collection that waits in its
// place, if there is one.
func (r *Reconciler) uninstallAll(ctx context.Context, s *configScope) error {
	id := install.RecordedCollection(s.soc)
	successor, err := replacement.FindIn(ctx, r.Reader, s.soc.Namespace, func(oc *v2beta2.OperatorCollection) bool {
		return replacement.IsSuccessor(oc, id, s.soc.Namespace) && imports.AwaitsReplaced(oc) || oc.Name != s.soc.Spec.OperatorCollection && replacement.IsInterrupted(oc, id)
	})
	if err != nil {
		return err
	}
	if successor != nil {
		return r.uninstallEverywhere(ctx, s, r.handOver)
	}
	return r.uninstallEverywhere(ctx, s, r.uninstall)
}

// uninstaller removes the operator from one namespace.
type uninstaller func(context.Context, *v2beta2.SubOperatorConfig, string) install.Result

func (r *Reconciler) uninstallEverywhere(ctx context.Context, s *configScope, uninstall uninstaller) error {
	s.results = nil
	var errs []error
	for _, namespace := range install.Namespaces(s.soc) {
		result := uninstall(ctx, s.soc, namespace)
		errs = append(errs, result.Err)
		result.Err = nil // It is in the error of this step.
		s.results = append(s.results, result)
	}
	return status.Join(errs...)
}

func (r *Reconciler) removeFinalizer(ctx context.Context, s *configScope) error {
	return apply.RemoveFinalizer(ctx, r.Client, s.soc)
}
