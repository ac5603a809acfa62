package olm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
)

// Remover implements [install.Remover].
type Remover struct {
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Cluster may be nil.
	Cluster *Cluster
}

// Available says whether the cluster has OLM and the manager may use it.
func (r *Remover) Available() bool { return r.Cluster.Available() }

// RemoveOperator removes what OLM created for a deleted Subscription: its ClusterServiceVersions, which OLM keeps, and what
// the garbage collector removes after these.
func (r *Remover) RemoveOperator(ctx context.Context, id model.ID, namespace string, ours apply.Ours) (gone bool, err error) {
	subscriptions := &operatorsv1alpha1.SubscriptionList{}
	if err := list(ctx, r.Reader, subscriptions, client.InNamespace(namespace)); err != nil {
		return false, fmt.Errorf("listing Subscriptions in namespace %q: %w", namespace, err)
	}
	for i := range subscriptions.Items {
		if s := &subscriptions.Items[i]; s.Spec != nil && s.Spec.Package == id.OperatorName() && !ours(s) {
			return true, nil
		}
	}
	csvs, err := listCSVs(ctx, r.Reader, id, namespace)
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
	return r.podsAreGone(ctx, id, namespace)
}

// podsAreGone reports whether no Deployment and no pod of a collection is left in a namespace.
func (r *Remover) podsAreGone(ctx context.Context, id model.ID, namespace string) (bool, error) {
	deployments, pods := &appsv1.DeploymentList{}, &corev1.PodList{}
	for _, each := range []client.ObjectList{deployments, pods} {
		if err := r.Reader.List(ctx, each, client.InNamespace(namespace), client.MatchingLabels(render.IdentityLabels(id)), client.Limit(listLimit)); err != nil {
			return false, fmt.Errorf("listing Deployments and pods of the operator in namespace %q: %w", namespace, err)
		}
	}
	return len(deployments.Items) == 0 && len(pods.Items) == 0, nil
}

// InUse reports whether the shared OperatorGroup is required by an operator in its namespace, from this catalog or another
// one.
func (r *Remover) InUse(ctx context.Context, live client.Object) (bool, error) {
	if !install.IsSharedGroup(live) {
		return false, nil
	}
	subscriptions, csvs := &metav1.PartialObjectMetadataList{}, &metav1.PartialObjectMetadataList{}
	subscriptions.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind("SubscriptionList"))
	csvs.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind("ClusterServiceVersionList"))
	for _, each := range []*metav1.PartialObjectMetadataList{subscriptions, csvs} {
		if err := list(ctx, r.Reader, each, client.InNamespace(live.GetNamespace())); err != nil {
			return false, fmt.Errorf("listing the users of OperatorGroup %q: %w", live.GetNamespace()+"/"+live.GetName(), err)
		}
	}
	own := func(csv metav1.PartialObjectMetadata) bool {
		return csv.Labels[operatorsv1alpha1.CopiedLabelKey] == ""
	}
	return len(subscriptions.Items) > 0 || slices.ContainsFunc(csvs.Items, own), nil
}
