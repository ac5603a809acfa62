package install

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// ErrNoDeployment says that the Deployment of an operator does not exist.
var ErrNoDeployment = errors.New("does not exist")

// Keep returns the result of an installation that stays as it is until the deletion of its OperatorCollection no longer needs it. It
// writes nothing but the status of custom resources whose operator is gone: to whoever reads theirs, they would seem to be managed.
func (r *Installer) Keep(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) Result {
	result := Result{Namespace: namespace, Status: Recorded(soc, namespace)}
	key, deployment := client.ObjectKey{Namespace: namespace, Name: RecordedCollection(soc).OperatorName()}, &appsv1.Deployment{}
	err := r.Cache.Get(ctx, key, deployment)
	if apierrors.IsNotFound(err) {
		deployment, err = r.liveDeployment(ctx, key)
	}
	switch {
	case err != nil:
		result.fail(fmt.Errorf("reading Deployment %q: %w", key, err))
	case deployment == nil:
		result.fail(r.reportGone(ctx, soc, key))
	case !Available(deployment):
		reason, message := r.describePods(ctx, RecordedCollection(soc), deployment)
		result.fail(unavailable(key, reason, message))
	case result.Status != nil:
		result.Status.Ready, result.Status.Reason, result.Status.Message = true, "", ""
	}
	return result
}

// HasOperator reports whether the Deployment of an operator exists.
func HasOperator(ctx context.Context, reader client.Reader, deployment client.ObjectKey) (bool, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	if err := reader.Get(ctx, deployment, live); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Deployment %q: %w", deployment, err)
	}
	return live.UID != "", nil
}

// reportGone returns the error of an installation whose Deployment does not exist, and writes that to the custom resources.
func (r *Installer) reportGone(ctx context.Context, soc *v2beta2.SubOperatorConfig, deployment client.ObjectKey) error {
	finder := &instances.Finder{Client: r.Client, Reader: r.Reader}
	items, err := finder.List(ctx, RecordedCollection(soc), deployment.Namespace)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return status.Waiting(v2beta2.ReasonWorkloadUnavailable, intervals.Missing, "Deployment %q %w", deployment, ErrNoDeployment)
	}
	if r.mayReport(ctx, soc, deployment.Namespace) {
		if err := finder.ReportNoOperator(ctx, items, r.warnOfNoOperator); err != nil {
			return fmt.Errorf("writing that Deployment %q %w to custom resources: %w", deployment, ErrNoDeployment, err)
		}
	}
	return status.Waiting(v2beta2.ReasonWorkloadUnavailable, intervals.Missing,
		"Deployment %q %w, so no playbook runs for %s: set spec.deletionPolicy of OperatorCollection %q to %s and import the collection again, "+
			"or remove them without a run: kubectl collection abandon KIND/NAME",
		deployment, ErrNoDeployment, instances.Describe(items), soc.Spec.OperatorCollection, v2beta2.DeletionOrphan)
}
