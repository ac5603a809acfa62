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

// Method is Direct.
func (Backend) Method() v2beta2.InstallMethod { return v2beta2.InstallDirect }

// Plan renders the whole operator.
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

// Orphaned is never true: the inventory has all that was written.
func (Backend) Orphaned() bool { return false }

// Observe has nothing to add to the Deployment.
func (Backend) Observe(*install.Installation, *install.Plan, *appsv1.Deployment) error { return nil }

// Notify has nobody to report to.
func (Backend) Notify(context.Context, *install.Installation, *install.Plan, error) error { return nil }
