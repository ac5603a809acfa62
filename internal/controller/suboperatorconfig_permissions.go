package controller

import (
	"context"
	"fmt"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
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

	// nowhere is no namespace's name, so that just those rules hold there that hold in the whole cluster.
	nowhere = "-"
)

// checkPermissions compares what the rendered roles hold with what the manager holds, so that nothing is applied of an
// installation that would be refused half-way. The API server makes the same comparison once more when a role is
// written, and has the last word.
func (r *SubOperatorConfigReconciler) checkPermissions(ctx context.Context, _ *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	var missing []render.Permission
	for _, object := range facts.objects {
		var asked []rbacv1.PolicyRule
		switch role := object.(type) {
		case *rbacv1.Role:
			asked = role.Rules
		case *rbacv1.ClusterRole:
			asked = role.Rules
		default:
			continue
		}
		held, err := r.heldRules(ctx, object.GetNamespace())
		if err != nil {
			return err
		}
		lacking, err := render.MissingPermissions(object.GetNamespace(), asked, held)
		if err != nil {
			return stalled(v2beta2.ReasonObjectRefused, err)
		}
		missing = append(missing, lacking...)
	}
	if len(missing) > 0 {
		return waiting(v2beta2.ReasonPermissionsNotGranted, missingInterval, "%s", render.DescribeMissing(facts.collection, missing))
	}
	return nil
}

// heldRules are the rules that the API server counts in favour of the manager in a namespace, or in the whole cluster if
// the namespace is empty. Authorizers that cannot list theirs do not matter: only RBAC decides what may be passed on.
func (r *SubOperatorConfigReconciler) heldRules(ctx context.Context, namespace string) ([]rbacv1.PolicyRule, error) {
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if namespace == "" {
		review.Spec.Namespace = nowhere
	}
	if err := r.Client.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("asking for the manager's own permissions: %w", err)
	}
	var held []rbacv1.PolicyRule
	for _, rule := range review.Status.ResourceRules {
		held = append(held, rbacv1.PolicyRule{
			APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames, Verbs: rule.Verbs,
		})
	}
	for _, rule := range review.Status.NonResourceRules {
		held = append(held, rbacv1.PolicyRule{NonResourceURLs: rule.NonResourceURLs, Verbs: rule.Verbs})
	}
	return held, nil
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
