// Package grants decides whether a collection's operator may have the permissions that it requests.
package grants

import (
	"context"
	"fmt"
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// ClusterRole is the name of the aggregated ClusterRole with the permissions that administrators grant to collections.
const ClusterRole = "collection-operator-grants"

// noNamespace is not a valid namespace name: only cluster-wide rules apply to it.
const noNamespace = "-"

// Role contains the rules of one role of a collection's operator.
type Role struct {
	// Namespace of the role. Empty means cluster-wide.
	Namespace string
	Rules     []rbacv1.PolicyRule
	// Given rules need no grant.
	Given []rbacv1.PolicyRule
}

// Grants is a snapshot of the permissions that collections may have. It is not safe for concurrent use.
type Grants struct {
	// client creates SelfSubjectRulesReviews.
	client client.Client
	// granted are the rules that administrators granted to collections.
	granted []rbacv1.PolicyRule
	// held has the manager's own rules by namespace.
	held map[string][]rbacv1.PolicyRule
}

// Read reads the aggregated ClusterRole from reader.
func Read(ctx context.Context, c client.Client, reader client.Reader) (*Grants, error) {
	role := &rbacv1.ClusterRole{}
	if err := reader.Get(ctx, client.ObjectKey{Name: ClusterRole}, role); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ClusterRole %q: %w", ClusterRole, err)
	}
	return &Grants{client: c, granted: role.Rules, held: map[string][]rbacv1.PolicyRule{}}, nil
}

// Check returns nil if the collection's operator may have the roles, else an error that lists the missing rules. The manager
// must hold every rule, and rules that are not given must be granted to collections: collections must not get permissions
// that the manager holds for itself, such as reading Secrets.
func (g *Grants) Check(ctx context.Context, c *collection.Collection, roles []Role) error {
	var missing []render.Permission
	for _, role := range roles {
		held, err := g.Held(ctx, role.Namespace)
		if err != nil {
			return err
		}
		for _, rules := range [][]rbacv1.PolicyRule{held, slices.Concat(role.Given, g.granted)} {
			lacking, err := render.MissingPermissions(role.Namespace, role.Rules, rules)
			if err != nil {
				return status.Stalled(v2beta2.ReasonObjectRefused, err)
			}
			missing = append(missing, lacking...)
		}
	}
	if len(missing) > 0 {
		return status.Waiting(v2beta2.ReasonPermissionsNotGranted, status.MissingInterval, "%s", render.DescribeMissing(c, missing))
	}
	return nil
}

// Held returns the rules that the API server's RBAC authorizer grants the manager in a namespace, or cluster-wide if the
// namespace is empty. Rules of other authorizers are irrelevant: only RBAC decides which rules the manager may grant.
func (g *Grants) Held(ctx context.Context, namespace string) ([]rbacv1.PolicyRule, error) {
	if held, asked := g.held[namespace]; asked {
		return held, nil
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if namespace == "" {
		review.Spec.Namespace = noNamespace
	}
	if err := g.client.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("reading the manager's own permissions: %w", err)
	}
	held := []rbacv1.PolicyRule{}
	for _, rule := range review.Status.ResourceRules {
		held = append(held, rbacv1.PolicyRule{
			APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames, Verbs: rule.Verbs,
		})
	}
	for _, rule := range review.Status.NonResourceRules {
		held = append(held, rbacv1.PolicyRule{NonResourceURLs: rule.NonResourceURLs, Verbs: rule.Verbs})
	}
	g.held[namespace] = held
	return held, nil
}
