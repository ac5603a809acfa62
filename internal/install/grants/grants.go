// Package grants decides whether a collection's operator may have the permissions that it requests.
package grants

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// ClusterRole is the name of the aggregated ClusterRole with the permissions that administrators grant to all collections.
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

// checkAge is how long a check is remembered: permissions can be bound to the manager by objects that it does not watch.
const checkAge = 10 * time.Minute

// passed is a check that was passed.
type passed struct {
	grants   string
	at       time.Time
	warnings []string
}

// Check is [Grants.Check]. It reads nothing if the same roles were checked in the last ten minutes, and no object that grants permissions
// has changed since then, by what the caches have of them.
func (s *Source) Check(ctx context.Context, of render.Grantee, roles []Role) (warnings []string, err error) {
	state, err := s.state(ctx, of)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	since, isKnown := s.since.Get(state)
	if !isKnown {
		s.since.Add(state, now)
		since = now
	}
	asked, err := digestOf(of, roles)
	if err != nil {
		return nil, err
	}
	if found, ok := s.checks.Get(asked); ok && found.(passed).grants == state && now.Sub(found.(passed).at) < checkAge {
		return slices.Clone(found.(passed).warnings), nil
	}
	granted, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	warnings, err = granted.Check(ctx, of, roles)
	if err == nil && now.Sub(since.(time.Time)) > intervals.GrantSettles {
		s.checks.Add(asked, passed{grants: state, at: now, warnings: slices.Clone(warnings)})
	}
	return warnings, err
}

// state identifies, by their versions in the caches, the grants that may concern a collection and all bindings of grants.
func (s *Source) state(ctx context.Context, of render.Grantee) (string, error) {
	var versions []string
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "RoleBinding"} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind + "List"))
		if err := s.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return "", fmt.Errorf("listing grants: %w", err)
		}
		for i := range list.Items {
			if kind == "ClusterRole" {
				if scope, _ := ParseScope(list.Items[i].Annotations); !scope.mayConcern(of) {
					continue
				}
			}
			versions = append(versions, string(list.Items[i].UID)+" "+list.Items[i].ResourceVersion)
		}
	}
	unscoped := &metav1.PartialObjectMetadata{}
	unscoped.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	if err := s.Client.Get(ctx, client.ObjectKey{Name: ClusterRole}, unscoped); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading ClusterRole %q from the cache: %w", ClusterRole, err)
	}
	slices.Sort(versions)
	return digestOf(append(versions, unscoped.ResourceVersion))
}

func digestOf(values ...any) (string, error) {
	content, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("encoding roles: %w", err)
	}
	sum := sha256.Sum256(content)
	return string(sum[:]), nil
}

// Grants is a snapshot of the permissions that collections may have. It is not safe for concurrent use.
type Grants struct {
	*Source
	// unscoped are the rules that administrators granted to all collections.
	unscoped []rbacv1.PolicyRule
	// held has the manager's own rules by namespace.
	held map[string][]rbacv1.PolicyRule
}

// Read reads the aggregated ClusterRole with the grants for all collections, unless these are ignored.
func (s *Source) Read(ctx context.Context) (*Grants, error) {
	g := &Grants{Source: s, held: map[string][]rbacv1.PolicyRule{}}
	if s.RequireScoped {
		return g, nil
	}
	role := &rbacv1.ClusterRole{}
	if err := s.Reader.Get(ctx, client.ObjectKey{Name: ClusterRole}, role); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ClusterRole %q: %w", ClusterRole, err)
	}
	g.unscoped = role.Rules
	return g, nil
}

// Check returns nil if the collection's operator may have the roles, else an error that lists the missing rules. The manager
// must hold every rule, and rules that are not given must be granted to the collection: it must not get permissions that the
// manager holds for itself, such as reading Secrets, or that were granted to others. Warnings name permissions that the
// collection has only by grants for all collections.
func (g *Grants) Check(ctx context.Context, of render.Grantee, roles []Role) (warnings []string, err error) {
	found, err := g.scoped(ctx, of)
	if err != nil {
		return nil, err
	}
	of.Manager, of.PinDigest = g.Manager, found.pinned
	var missing, shared []render.Permission
	for _, role := range roles {
		notHeld, err := g.notHeld(ctx, role)
		if err != nil {
			return nil, err
		}
		notGranted, byAll, err := g.notGranted(role, found.grants)
		if err != nil {
			return nil, err
		}
		missing, shared = slices.Concat(missing, notHeld, notGranted), append(shared, byAll...)
	}
	if len(missing) > 0 {
		return nil, status.Waiting(v2beta2.ReasonPermissionsNotGranted, intervals.Missing, "%s", render.DescribeMissing(of, missing, found.notes))
	}
	if len(shared) > 0 {
		warnings = []string{render.DescribeShared(of, shared)}
	}
	return warnings, nil
}

// notHeld returns the permissions of a role that the manager does not hold. It needs those for the collection's own kinds in the
// whole cluster, to look for resources in all namespaces.
func (g *Grants) notHeld(ctx context.Context, role Role) ([]render.Permission, error) {
	held, err := g.Held(ctx, role.Namespace)
	if err != nil {
		return nil, err
	}
	missing, err := missingIn(role, role.Rules, held)
	if err != nil || len(role.Given) == 0 || len(missing) == 0 {
		return missing, err
	}
	others, err := missingIn(role, role.Rules, slices.Concat(held, role.Given))
	if err != nil {
		return nil, err
	}
	for i, permission := range missing {
		if !slices.Contains(others, permission) {
			missing[i].Namespace = ""
		}
	}
	return missing, nil
}

// notGranted returns the permissions of a role that were not granted to the collection, and those that only grants for all
// collections contain.
func (g *Grants) notGranted(role Role, found []grant) (missing, shared []render.Permission, err error) {
	granted := slices.Clone(role.Given)
	for _, each := range found {
		if each.appliesIn(role.Namespace) {
			granted = append(granted, each.rules...)
		}
	}
	lacking, err := missingIn(role, role.Rules, granted)
	if err != nil || len(lacking) == 0 {
		return nil, nil, err
	}
	missing, err = missingIn(role, role.Rules, slices.Concat(granted, g.unscoped))
	for _, permission := range lacking {
		if !slices.Contains(missing, permission) {
			shared = append(shared, permission)
		}
	}
	return missing, shared, err
}

// missingIn returns the permissions of asked that rules in the namespace of a role do not cover.
func missingIn(role Role, asked, rules []rbacv1.PolicyRule) ([]render.Permission, error) {
	missing, err := render.MissingPermissions(role.Namespace, asked, rules)
	if err != nil {
		return nil, status.Stalled(v2beta2.ReasonObjectRefused, err)
	}
	return missing, nil
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
	if err := g.Client.Create(ctx, review); err != nil {
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
