package grants

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// maxChecks is the maximum number of checks that are remembered.
const maxChecks = 1 << 14

// Source reads grants.
type Source struct {
	// Client creates SelfSubjectRulesReviews.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Cache has the metadata of the ClusterRoles that are grants, and of bindings that are labelled like them.
	Cache cache.Cache
	// Manager is the subject that the manager's permissions must be bound to.
	Manager rbacv1.Subject
	// RequireScoped ignores grants for all collections.
	RequireScoped bool

	// checks has each [passed] check by what was asked for.
	checks *lru.Cache
	// since has the time since when the grants are as they are, by their state.
	since *lru.Cache
}

// NewSource returns a source whose cache starts with the manager. It fails if the API server cannot be asked who the manager is.
func NewSource(ctx context.Context, mgr manager.Manager, requireScoped bool) (*Source, error) {
	of := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{render.LabelGrant: "true"}), Transform: keepScope}
	grantCache, err := cache.New(mgr.GetConfig(), cache.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{&rbacv1.ClusterRole{}: of, &rbacv1.ClusterRoleBinding{}: of, &rbacv1.RoleBinding{}: of},
	})
	if err != nil {
		return nil, err
	}
	s := &Source{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Cache: grantCache, RequireScoped: requireScoped,
		checks: lru.New(maxChecks), since: lru.New(maxChecks),
	}
	if s.Manager, err = self(ctx, mgr.GetClient()); err != nil {
		return nil, err
	}
	return s, mgr.Add(s)
}

// Start runs the cache. It implements [manager.Runnable].
func (s *Source) Start(ctx context.Context) error { return s.Cache.Start(ctx) }

// GetCache makes the manager start the cache before its controllers.
func (s *Source) GetCache() cache.Cache { return s.Cache }

// keepScope removes from metadata what is not read.
func keepScope(object any) (any, error) {
	o, ok := object.(client.Object)
	if !ok {
		return object, nil
	}
	o.SetManagedFields(nil)
	annotations := map[string]string{}
	for key, value := range o.GetAnnotations() {
		if strings.HasPrefix(key, annotationPrefix) {
			annotations[key] = value
		}
	}
	o.SetAnnotations(annotations)
	return o, nil
}

// self returns the manager's own user.
func self(ctx context.Context, c client.Client) (rbacv1.Subject, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return rbacv1.Subject{}, fmt.Errorf("asking the API server for the manager's own user: %w", err)
	}
	user := review.Status.UserInfo.Username
	account, isAccount := strings.CutPrefix(user, "system:serviceaccount:")
	if namespace, name, found := strings.Cut(account, ":"); isAccount && found {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}, nil
	}
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}, nil
}

// grant is a ClusterRole that grants its rules to one collection.
type grant struct {
	Scope
	rules []rbacv1.PolicyRule
}

// scopedGrants are what ClusterRoles grant to one collection.
type scopedGrants struct {
	grants []grant
	// notes are about ClusterRoles that could be meant for the collection, but do not count, sorted.
	notes []string
	// pinned is true if one of these is for another archive.
	pinned bool
}

// scoped returns the grants for a collection. The cache only finds the ClusterRoles: their scope and rules are read live.
func (s *Source) scoped(ctx context.Context, of render.Grantee) (found scopedGrants, err error) {
	roles := &metav1.PartialObjectMetadataList{}
	roles.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleList"))
	if err := s.Cache.List(ctx, roles); err != nil {
		return found, fmt.Errorf("listing grants: %w", err)
	}
	for i := range roles.Items {
		if scope, _ := ParseScope(roles.Items[i].Annotations); !scope.mayConcern(of) {
			continue
		}
		live := &rbacv1.ClusterRole{}
		err := s.Reader.Get(ctx, client.ObjectKeyFromObject(&roles.Items[i]), live)
		if client.IgnoreNotFound(err) != nil {
			return found, fmt.Errorf("reading ClusterRole %q: %w", roles.Items[i].Name, err)
		}
		if err != nil || live.Labels[render.LabelGrant] != "true" {
			continue
		}
		scope, problem := ParseScope(live.Annotations)
		switch {
		case !scope.mayConcern(of):
		case problem != nil:
			found.notes = append(found.notes, fmt.Sprintf("ClusterRole %q is not a valid grant, and counts for nothing: %v", live.Name, problem))
		case scope.includes(of):
			found.grants = append(found.grants, grant{Scope: scope, rules: live.Rules})
		default:
			found.pinned = true
			found.notes = append(found.notes, fmt.Sprintf("ClusterRole %q is a grant for the archive %s only, and this one is %s", live.Name, scope.Digest, of.Digest))
		}
	}
	slices.Sort(found.notes)
	return found, nil
}

// MetadataOf returns an object for watches of the metadata of an RBAC kind.
func MetadataOf(kind string) client.Object {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind(kind))
	return object
}
