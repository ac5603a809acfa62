package grants

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

const (
	// maxChecks is the maximum number of checks that are remembered.
	maxChecks = 1 << 14
	// settleTime is the time after a change of grants before a check is remembered: the API server may not know of it at once.
	settleTime = 5 * time.Second
	// checkAge is how long a check is remembered: permissions can be bound to the manager by objects that it does not watch.
	checkAge = 10 * time.Minute
)

// memory has checks that were passed, by what was asked for, and since when the grants are as they are.
type memory struct{ checks, since *lru.Cache }

// passed is a check that was passed.
type passed struct {
	grants   string
	at       time.Time
	warnings []string
}

func newMemory() memory { return memory{checks: lru.New(maxChecks), since: lru.New(maxChecks)} }

// Check is [Grants.Check]. It reads nothing if the same roles were checked in the last ten minutes, and no object that grants permissions
// has changed since then, by what the caches have of them.
func (s *Source) Check(ctx context.Context, of render.Grantee, roles []Role) (warnings []string, err error) {
	state, err := s.state(ctx, of)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	since, isKnown := s.checked.since.Get(state)
	if !isKnown {
		s.checked.since.Add(state, now)
		since = now
	}
	asked, err := digestOf(of, roles)
	if err != nil {
		return nil, err
	}
	if found, ok := s.checked.checks.Get(asked); ok && found.(passed).grants == state && now.Sub(found.(passed).at) < checkAge {
		return slices.Clone(found.(passed).warnings), nil
	}
	granted, err := s.Read(ctx)
	if err != nil {
		return nil, err
	}
	warnings, err = granted.Check(ctx, of, roles)
	if err == nil && now.Sub(since.(time.Time)) > settleTime {
		s.checked.checks.Add(asked, passed{grants: state, at: now, warnings: slices.Clone(warnings)})
	}
	return warnings, err
}

func digestOf(values ...any) (string, error) {
	content, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("encoding roles: %w", err)
	}
	sum := sha256.Sum256(content)
	return string(sum[:]), nil
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
