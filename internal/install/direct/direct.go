// Package direct lets the manager itself write an operator's Deployment and permissions.
package direct

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
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
		plan.Objects = append(plan.Objects, object)
	}
	return plan, nil
}

// Orphaned returns false: the inventory contains all objects.
func (Backend) Orphaned() bool { return false }

// Observe returns nil: there is nothing to wait for besides the Deployment.
func (Backend) Observe(*install.Installation, *install.Plan, *appsv1.Deployment) error { return nil }

// Notify does nothing.
func (Backend) Notify(context.Context, *install.Installation, *install.Plan, error) error { return nil }
