package controller

import (
	"context"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// checkPermissions looks at the rendered roles before anything is applied. The manager must hold all that is in them, and
// what the collection asks for beyond its base rules must have been granted to collections: the manager needs permissions
// of its own, such as to read Secrets anywhere, which are not for passing on. The API server makes the first comparison
// once more when a role is written, and has the last word.
func (r *SubOperatorConfigReconciler) checkPermissions(ctx context.Context, _ *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	granted, err := r.grantedRules(ctx)
	if err != nil {
		return err
	}
	var missing []render.Permission
	for _, object := range facts.objects {
		var asked, given []rbacv1.PolicyRule
		switch role := object.(type) {
		case *rbacv1.Role:
			asked, given = role.Rules, slices.Concat(granted, render.BaseRules(facts.collection, groupOf(facts.oc, facts.collection)))
		case *rbacv1.ClusterRole:
			asked, given = role.Rules, granted
		default:
			continue
		}
		held, err := r.heldRules(ctx, object.GetNamespace())
		if err != nil {
			return err
		}
		for _, rules := range [][]rbacv1.PolicyRule{held, given} {
			lacking, err := render.MissingPermissions(object.GetNamespace(), asked, rules)
			if err != nil {
				return stalled(v2beta2.ReasonObjectRefused, err)
			}
			missing = append(missing, lacking...)
		}
	}
	if len(missing) > 0 {
		return waiting(v2beta2.ReasonPermissionsNotGranted, missingInterval, "%s", render.DescribeMissing(facts.collection, missing))
	}
	return nil
}

// grantedRules are what administrators granted to collections.
func (r *SubOperatorConfigReconciler) grantedRules(ctx context.Context) ([]rbacv1.PolicyRule, error) {
	role := &rbacv1.ClusterRole{}
	if err := r.Reader.Get(ctx, client.ObjectKey{Name: grantsRole}, role); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ClusterRole %q: %w", grantsRole, err)
	}
	return role.Rules, nil
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
