package install

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

var deploymentKind = appsv1.SchemeGroupVersion.WithKind(kindDeployment).GroupKind()

// observer waits for the Deployment of one installation.
type observer struct {
	*objects
	*Installation
	plan       *Plan
	deployment client.ObjectKey
	// written is true if this reconciliation has written objects.
	written bool
}

// observe waits until the Deployment runs its current pod template, and that is the planned one. The cache says whether it does not, and
// a watch brings the next look. That it does is confirmed by a live read before the installation becomes ready.
func (o *observer) observe(ctx context.Context, wasReady bool) error {
	deployment, err := o.cachedDeployment(ctx)
	if err != nil {
		return err
	}
	if err := o.evaluate(ctx, deployment); err != nil {
		return err
	}
	if wasReady {
		return nil
	}
	if deployment, err = o.liveDeployment(ctx, o.deployment); err != nil {
		return err
	}
	if err := o.evaluate(ctx, deployment); err != nil {
		problem := *status.AsError(err)
		problem.RetryAfter = min(problem.RetryAfter, intervals.Missing) // The cache may never have this state.
		return &problem
	}
	return nil
}

// cachedDeployment returns nil if the Deployment does not exist. While the cache does not have what this reconciliation has written,
// that is returned: its pods are not there yet, and the cache brings the next look. Otherwise it is read live if the cache is behind.
func (o *observer) cachedDeployment(ctx context.Context) (*appsv1.Deployment, error) {
	deployment, state := &appsv1.Deployment{}, apply.State("")
	err := o.cache.Get(ctx, o.deployment, deployment)
	switch {
	case err == nil:
		state = DeploymentState(deployment)
	case apierrors.IsNotFound(err):
		deployment = nil
	default:
		return nil, fmt.Errorf("reading Deployment %q from the cache: %w", o.deployment, err)
	}
	if !o.memory.Applied.Differs(deploymentKind, o.deployment, state) {
		return deployment, nil
	}
	for _, object := range o.plan.Objects {
		if planned, ok := object.(*appsv1.Deployment); ok && o.written {
			return planned, nil
		}
	}
	return o.liveDeployment(ctx, o.deployment)
}

// liveDeployment returns nil if the Deployment does not exist.
func (o *objects) liveDeployment(ctx context.Context, key client.ObjectKey) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	switch err := o.reader.Get(ctx, key, deployment); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Deployment %q: %w", key, err)
	}
	return deployment, nil
}

// evaluate returns what a Deployment, which is nil if it does not exist, waits for.
func (o *observer) evaluate(ctx context.Context, deployment *appsv1.Deployment) error {
	if waits := o.Backend.Observe(o.Installation, o.plan, deployment); waits != nil {
		return o.explain(ctx, waits, deployment)
	}
	if deployment == nil {
		return status.Waiting(v2beta2.ReasonProgressing, status.Watched, "waiting for Deployment %q to be created", o.deployment)
	}
	if Available(deployment) {
		return nil
	}
	reason, message := describePods(ctx, o.cache, o.Collection.ID(), deployment)
	return unavailable(o.deployment, reason, message)
}

// explain adds the state of the pods to the error of the backend, if the backend waits for the pods.
func (o *observer) explain(ctx context.Context, waits error, deployment *appsv1.Deployment) error {
	helpable := slices.Contains([]string{v2beta2.ReasonProgressing, v2beta2.ReasonClusterServiceVersionFailed}, status.AsError(waits).Reason)
	if !helpable || deployment == nil || Available(deployment) {
		return waits
	}
	reason, message := describePods(ctx, o.cache, o.Collection.ID(), deployment)
	if reason == v2beta2.ReasonProgressing {
		return waits
	}
	return status.Waiting(reason, status.AsError(waits).RetryAfter, "%w; Deployment %q is not available: %s", waits, deployment.Namespace+"/"+deployment.Name, message)
}

// ErrNoDeployment says that the Deployment of an operator does not exist.
var ErrNoDeployment = errors.New("does not exist")

// HasOperator reports whether the Deployment of an operator exists.
func HasOperator(ctx context.Context, reader client.Reader, deployment client.ObjectKey) (bool, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind(kindDeployment))
	if err := reader.Get(ctx, deployment, live); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading Deployment %q: %w", deployment, err)
	}
	return live.UID != "", nil
}
