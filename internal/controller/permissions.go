package controller

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

// nowhere is no namespace's name, so that just those rules hold there that hold in the whole cluster.
const nowhere = "-"

// askedRole is what one role of a collection's operator asks for.
type askedRole struct {
	// namespace is where it holds, or empty for the whole cluster.
	namespace string
	rules     []rbacv1.PolicyRule
	// given are rules that need no grant.
	given []rbacv1.PolicyRule
}

// grants are what collections may be given at one time. They are read once, and are not for use by two at once.
type grants struct {
	// client asks for the manager's own permissions.
	client client.Client
	// granted are the rules that administrators granted to collections.
	granted []rbacv1.PolicyRule
	// held are those of the manager by namespace.
	held map[string][]rbacv1.PolicyRule
}

func readGrants(ctx context.Context, c client.Client, reader client.Reader) (*grants, error) {
	role := &rbacv1.ClusterRole{}
	if err := reader.Get(ctx, client.ObjectKey{Name: grantsRole}, role); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ClusterRole %q: %w", grantsRole, err)
	}
	return &grants{client: c, granted: role.Rules, held: map[string][]rbacv1.PolicyRule{}}, nil
}

// check is nil if the collection's operator may have the roles. The manager must hold all that is in them, and what the
// collection asks for beyond its base rules must have been granted to collections: the manager needs permissions of its
// own, such as to read Secrets anywhere, which are not for passing on.
func (g *grants) check(ctx context.Context, c *collection.Collection, roles []askedRole) error {
	var missing []render.Permission
	for _, role := range roles {
		held, err := g.heldIn(ctx, role.namespace)
		if err != nil {
			return err
		}
		granted := slices.Concat(role.given, g.granted)
		for _, rules := range [][]rbacv1.PolicyRule{held, granted} {
			lacking, err := render.MissingPermissions(role.namespace, role.rules, rules)
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

// heldIn are the rules that the API server counts in favour of the manager in a namespace, or in the whole cluster if the
// namespace is empty. Authorizers that cannot list theirs do not matter: only RBAC decides what may be passed on.
func (g *grants) heldIn(ctx context.Context, namespace string) ([]rbacv1.PolicyRule, error) {
	if held, asked := g.held[namespace]; asked {
		return held, nil
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if namespace == "" {
		review.Spec.Namespace = nowhere
	}
	if err := g.client.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("asking for the manager's own permissions: %w", err)
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
