package controller

import (
	"context"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/render"
)

const (
	// grantsRole is the aggregated ClusterRole with what collections may be granted.
	grantsRole = "collection-operator-grants"

	// grantDelay is how long the API server gets to learn about a grant itself. It reads roles from a cache.
	grantDelay = 2 * time.Second
)

// checkPermissions looks at the rendered roles before anything is applied, also where OLM writes them: OLM would pass on
// anything. The API server makes a part of the comparison once more when the manager writes a role, and has the last word.
func (r *SubOperatorConfigReconciler) checkPermissions(ctx context.Context, _ *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	base := render.BaseRules(facts.collection, groupOf(facts.oc, facts.collection))
	var roles []askedRole
	for _, object := range facts.roles {
		switch role := object.(type) {
		case *rbacv1.Role:
			roles = append(roles, askedRole{namespace: role.Namespace, rules: role.Rules, given: base})
		case *rbacv1.ClusterRole:
			roles = append(roles, askedRole{rules: role.Rules})
		}
	}
	grants, err := readGrants(ctx, r.Client, r.Reader)
	if err != nil {
		return err
	}
	return grants.check(ctx, facts.collection, roles)
}

// whenGranted brings all SubOperatorConfigs back a little after the grants have changed.
func (r *SubOperatorConfigReconciler) whenGranted() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e.ObjectNew.GetName() != grantsRole {
				return
			}
			for _, request := range r.requests(ctx, "", func(*v2beta2.SubOperatorConfig) bool { return true }) {
				queue.AddAfter(request, grantDelay)
			}
		},
	}
}
