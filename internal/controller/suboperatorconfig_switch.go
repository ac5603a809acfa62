package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/apply"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// switchMethods removes the operator that the other method made, with its pods, before anything of the new one is written:
// two operators for one namespace would run the same playbooks at once. What both need stays.
func (r *SubOperatorConfigReconciler) switchMethods(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	var ready []v2beta2.InstallationStatus
	for _, installation := range facts.installations {
		waits, err := r.switchMethod(ctx, soc, facts, installation)
		if err != nil {
			return err
		}
		if waits == nil {
			ready = append(ready, installation)
			continue
		}
		facts.keep(soc, installation.Namespace, waits)
		for _, object := range facts.objects {
			if object.GetNamespace() == installation.Namespace || object.GetName() == render.ClusterRoleName(facts.collection, installation.Namespace) {
				facts.postponed = append(facts.postponed, object)
			}
		}
	}
	facts.installations = ready
	return nil
}

// switchMethod returns what the removal of the former operator waits for, or nil if there is none to remove any more.
func (r *SubOperatorConfigReconciler) switchMethod(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts, wanted v2beta2.InstallationStatus) (*status.Error, error) {
	recorded := recordedMethod(soc, wanted.Namespace)
	orphaned := wanted.Install == v2beta2.InstallOLM && facts.olm[wanted.Namespace].orphaned()
	if (recorded == "" || recorded == wanted.Install) && !orphaned {
		return nil, nil
	}
	since, err := r.startRemoval(ctx, soc, wanted.Namespace)
	if err != nil {
		return nil, err
	}
	parts := slices.DeleteFunc(apply.Difference(soc.Status.Inventory, apply.Inventory(facts.objects)), func(ref v2beta2.ObjectReference) bool {
		return !facts.isPart(ref, wanted.Namespace)
	})
	waits, err := r.retire(ctx, soc, facts, wanted.Namespace, since, parts)
	if waits != nil || err != nil || !orphaned && recorded != v2beta2.InstallOLM {
		return waits, err
	}
	gone, err := r.removeFromOLM(ctx, soc, wanted.Namespace, render.PackageName(facts.collection))
	if err != nil || gone {
		return nil, err
	}
	return status.AsError(status.Waiting(v2beta2.ReasonTerminating, status.PollInterval, "namespace %q: waiting until OLM has removed the former operator", wanted.Namespace)), nil
}

// startRemoval writes down when the removal of an operator began, and returns it.
func (r *SubOperatorConfigReconciler) startRemoval(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) (time.Time, error) {
	now := metav1.Time{Time: time.Now().Truncate(time.Second)}
	for i := range soc.Status.Installations {
		installation := &soc.Status.Installations[i]
		if installation.Namespace != namespace {
			continue
		}
		if installation.RemovalTime != nil {
			return installation.RemovalTime.Time, nil
		}
		before := soc.DeepCopy()
		installation.Ready, installation.RemovalTime = false, &now
		return now.Time, r.saveStatus(ctx, soc, before)
	}
	return now.Time, nil
}

// retire removes an operator, or the parts of it that are not needed any more. It returns what that waits for, or nil once
// they are gone: playbooks that run, for at most runGrace, and objects.
func (r *SubOperatorConfigReconciler) retire(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts, namespace string, since time.Time, parts []v2beta2.ObjectReference) (*status.Error, error) {
	busy, err := r.busy(ctx, facts.collection.ID(), namespace, since)
	if busy != nil || err != nil {
		return busy, err
	}
	remaining, err := r.remove(ctx, soc, parts)
	if err != nil || len(remaining) == 0 {
		return nil, err
	}
	return status.AsError(removing(remaining)), nil
}

// removeFromOLM removes what OLM made because of a Subscription that is gone, and says whether nothing of it is left: its
// ClusterServiceVersions, which OLM keeps, and what the garbage collector removes after these. A Subscription of somebody
// else to the same package takes them over.
func (r *SubOperatorConfigReconciler) removeFromOLM(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace, packageName string) (gone bool, err error) {
	subscriptions := &operatorsv1alpha1.SubscriptionList{}
	if err := r.listInOLM(ctx, subscriptions, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("listing Subscriptions in namespace %q: %w", namespace, err)
	}
	ours := ownedBy(soc)
	for i := range subscriptions.Items {
		if s := &subscriptions.Items[i]; s.Spec != nil && s.Spec.Package == packageName && !ours(s) {
			return true, nil
		}
	}
	key := render.IDOf(soc.GetLabels())
	csvs, err := r.listCSVs(ctx, key, namespace)
	if err != nil {
		return false, err
	}
	var errs []error
	for i := range csvs {
		if csvs[i].DeletionTimestamp != nil {
			continue
		}
		uid := csvs[i].UID
		if err := r.Client.Delete(ctx, &csvs[i], client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting ClusterServiceVersion %q: %w", namespace+"/"+csvs[i].Name, err))
		}
	}
	if len(csvs) > 0 {
		return false, errors.Join(errs...)
	}
	return r.podsAreGone(ctx, key, namespace)
}

// podsAreGone says whether no Deployment of OLM and no pod of a collection is left in a namespace.
func (r *SubOperatorConfigReconciler) podsAreGone(ctx context.Context, key collection.ID, namespace string) (bool, error) {
	deployments, pods := &appsv1.DeploymentList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{deployments, pods} {
		if err := r.Reader.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels(render.IdentityLabels(key)), client.Limit(olmListLimit)); err != nil {
			return false, fmt.Errorf("looking for what is left of the operator in namespace %q: %w", namespace, err)
		}
	}
	return len(deployments.Items) == 0 && len(pods.Items) == 0, nil
}

// aftermath is what others made because of an object of ours that is deleted.
func (r *SubOperatorConfigReconciler) aftermath(soc *v2beta2.SubOperatorConfig) func(context.Context, v2beta2.ObjectReference) (bool, error) {
	return func(ctx context.Context, ref v2beta2.ObjectReference) (bool, error) {
		if ref.Kind != operatorsv1alpha1.SubscriptionKind {
			return true, nil
		}
		return r.removeFromOLM(ctx, soc, ref.Namespace, ref.Name)
	}
}

// inUse says whether an OperatorGroup of ours is needed by an operator in its namespace, of ours or not.
func (r *SubOperatorConfigReconciler) inUse(ctx context.Context, live client.Object) (bool, error) {
	if !isSharedGroup(live) {
		return false, nil
	}
	subscriptions, csvs := &metav1.PartialObjectMetadataList{}, &metav1.PartialObjectMetadataList{}
	subscriptions.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind("SubscriptionList"))
	csvs.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind("ClusterServiceVersionList"))
	for _, list := range []*metav1.PartialObjectMetadataList{subscriptions, csvs} {
		if err := r.listInOLM(ctx, list, client.InNamespace(live.GetNamespace())); err != nil {
			return false, fmt.Errorf("looking for who needs OperatorGroup %q: %w", live.GetNamespace()+"/"+live.GetName(), err)
		}
	}
	own := func(csv metav1.PartialObjectMetadata) bool {
		return csv.Labels[operatorsv1alpha1.CopiedLabelKey] == ""
	}
	return len(subscriptions.Items) > 0 || slices.ContainsFunc(csvs.Items, own), nil
}
