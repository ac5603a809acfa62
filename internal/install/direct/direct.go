// Package direct lets the manager itself write an operator's Deployment and permissions.
package direct

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Backend implements [install.Backend].
type Backend struct{}

// Method returns Direct.
func (Backend) Method() v2beta2.InstallMethod { return v2beta2.InstallDirect }

// Plan renders all objects of the operator.
func (Backend) Plan(i *install.Installation, options render.InstallationOptions) (*install.Plan, error) {
	rendered, err := render.Installation(i.Collection, options)
	if err != nil {
		return nil, status.Stalled(v2beta2.ReasonObjectRefused, err)
	}
	plan := &install.Plan{Digest: i.Digest}
	for _, object := range rendered {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			plan.RuntimeHash = deployment.Spec.Template.Annotations[render.RuntimeHashAnnotation]
		}
		plan.Objects = append(plan.Objects, object)
	}
	return plan, nil
}

// Replaces returns false: a Deployment is changed, and the inventory contains all objects.
func (Backend) Replaces() bool { return false }

// Observe returns an error if the Deployment is not the planned one: somebody has changed it since it was written.
func (Backend) Observe(i *install.Installation, plan *install.Plan, deployment *appsv1.Deployment) error {
	if deployment == nil || deployment.Spec.Template.Annotations[render.RuntimeHashAnnotation] == plan.RuntimeHash {
		return nil
	}
	return status.Waiting(v2beta2.ReasonProgressing, status.Watched, "waiting for Deployment %q to be updated", i.Namespace+"/"+i.Collection.OperatorName())
}

// Notify does nothing.
func (Backend) Notify(context.Context, *install.Installation, *install.Plan, error) error { return nil }
