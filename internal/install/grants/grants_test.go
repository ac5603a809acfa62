package grants_test

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// rig is a Source of a manager that holds jobs, pods and what it needs to read grants, and a collection in the namespace home.
type rig struct {
	*grants.Source
	server *apiserver.Server
	home   string
	of     render.Grantee
	// requests counts live reads and questions. They fail with failure, by kind.
	requests atomic.Int32
	failure  map[string]error
}

func allow(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

var (
	jobs    = allow("batch", "jobs", "create", "delete")
	pods    = allow("", "pods", "get")
	secrets = allow("", "secrets", "get")
)

func newRig(t *testing.T, requireScoped bool) *rig {
	t.Helper()
	server := apiserver.Shared(t)
	r := &rig{server: server, home: server.Namespace(t), failure: map[string]error{}}
	r.of = render.Grantee{ID: model.ID{Domain: "acme", Name: r.home}, Namespace: r.home, Digest: digest.FromString("one")}
	name := "manager-" + r.home
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		allow(rbacv1.GroupName, "*", "get", "list", "watch"), jobs, pods, allow("", "configmaps", "get"),
	}}
	apiserver.Must(t, server.Client.Create(t.Context(), role))
	apiserver.Must(t, server.Client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}))
	inHome := metav1.ObjectMeta{Namespace: r.home, Name: "manager"}
	apiserver.Must(t, server.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: inHome, Rules: []rbacv1.PolicyRule{secrets}}))
	apiserver.Must(t, server.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: inHome, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: inHome.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}))
	config := server.As(name)
	apiserver.Await(t, "the manager's own rights", func() bool {
		return server.NewClient(t, config).List(t.Context(), &rbacv1.ClusterRoleList{}) == nil
	})
	mgr, err := ctrl.NewManager(config, ctrl.Options{Scheme: server.Scheme, Metrics: metrics.Options{BindAddress: "0"}})
	apiserver.Must(t, err)
	r.Source, err = grants.NewSource(t.Context(), mgr, requireScoped)
	apiserver.Must(t, err)
	go func() { _ = mgr.Start(t.Context()) }() // It ends with the test.
	if !r.Cache.WaitForCacheSync(t.Context()) {
		t.Fatal("the cache does not start")
	}
	count := func(object client.Object) error {
		r.requests.Add(1)
		kind, err := server.Client.GroupVersionKindFor(object)
		return cmp.Or(err, r.failure[kind.Kind])
	}
	cached := r.Client
	r.Client = interceptor.NewClient(server.NewClient(t, config), interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return cmp.Or(r.failure["cached"], cached.Get(ctx, key, object, options...))
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return cmp.Or(count(object), c.Create(ctx, object, options...))
		},
	})
	r.Reader = interceptor.NewClient(server.NewClient(t, config), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			return cmp.Or(count(object), c.Get(ctx, key, object, options...))
		},
	})
	return r
}

// grant makes a ClusterRole that grants a rule, with more annotations, and waits until the cache has it.
func (r *rig) grant(t *testing.T, rule rbacv1.PolicyRule, annotations map[string]string) *rbacv1.ClusterRole {
	t.Helper()
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "grant-" + r.home + "-", Labels: map[string]string{render.LabelGrant: "true"}, Annotations: map[string]string{
			render.AnnotationGrantCollection: r.of.ID.String(), render.AnnotationGrantNamespace: r.home,
		}},
		Rules: []rbacv1.PolicyRule{rule},
	}
	for name, value := range annotations {
		role.Annotations[name] = value
	}
	apiserver.Must(t, r.server.Client.Create(t.Context(), role))
	apiserver.Await(t, "the cache has a grant", func() bool { return r.cached(t, role) == nil })
	return role
}

func (r *rig) cached(t *testing.T, role *rbacv1.ClusterRole) error {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	return r.Cache.Get(t.Context(), client.ObjectKeyFromObject(role), found)
}

// remove removes a grant, and waits until the cache does not have it.
func (r *rig) remove(t *testing.T, role *rbacv1.ClusterRole) {
	t.Helper()
	apiserver.Must(t, r.server.Client.Delete(t.Context(), role))
	apiserver.Await(t, "the cache has no grant", func() bool { return r.cached(t, role) != nil })
}

// asks are a role in a namespace, or cluster-wide, with rules.
func asks(namespace string, rules ...rbacv1.PolicyRule) []grants.Role {
	return []grants.Role{{Namespace: namespace, Rules: rules}}
}

// expectMissing fails unless an error names missing permissions, with some texts.
func expectMissing(t *testing.T, err error, texts ...string) {
	t.Helper()
	if status.AsError(err) == nil || status.AsError(err).Reason != v2beta2.ReasonPermissionsNotGranted {
		t.Fatalf("got %v", err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %s", err, text)
		}
	}
}

func TestOnlyWhatIsGrantedToTheCollectionCounts(t *testing.T) {
	r := newRig(t, false)
	other := r.server.Namespace(t)
	for name, test := range map[string]struct {
		rule        rbacv1.PolicyRule
		annotations map[string]string
		asked       []grants.Role
		missing     []string
	}{
		"all namespaces":            {jobs, nil, asks(r.home, jobs), nil},
		"cluster-wide":              {jobs, nil, asks("", jobs), nil},
		"a part of it":              {jobs, nil, asks(r.home, allow("batch", "jobs", "delete")), nil},
		"more than it":              {allow("batch", "jobs", "create"), nil, asks(r.home, jobs), []string{"delete"}},
		"this namespace":            {jobs, map[string]string{render.AnnotationGrantIn: r.home}, asks(r.home, jobs), nil},
		"another namespace":         {jobs, map[string]string{render.AnnotationGrantIn: other}, asks(r.home, jobs), []string{"jobs", r.home}},
		"a namespace, cluster-wide": {jobs, map[string]string{render.AnnotationGrantIn: r.home}, asks("", jobs), []string{"jobs"}},
		"another claim":             {jobs, map[string]string{render.AnnotationGrantNamespace: other}, asks(r.home, jobs), []string{"jobs"}},
		"another collection":        {jobs, map[string]string{render.AnnotationGrantCollection: "acme/others"}, asks(r.home, jobs), []string{"jobs"}},
		"this archive":              {jobs, map[string]string{render.AnnotationGrantDigest: r.of.Digest.String()}, asks(r.home, jobs), nil},
		"another archive": {jobs, map[string]string{render.AnnotationGrantDigest: digest.FromString("two").String()}, asks(r.home, jobs),
			[]string{"jobs", "is a grant for the archive " + digest.FromString("two").String()}},
		"a misspelt scope":             {jobs, map[string]string{"zoscb.ibm.com/grant-digets": "x"}, asks(r.home, jobs), []string{"is not a valid grant, and counts for nothing"}},
		"more than the manager has":    {allow("apps", "deployments", "get"), nil, asks(other, allow("apps", "deployments", "get")), []string{"deployments"}},
		"what it has in one namespace": {secrets, nil, asks(r.home, secrets), nil},
		"though not in another one":    {secrets, nil, asks(other, secrets), []string{"secrets"}},
		"nor cluster-wide":             {secrets, nil, asks("", secrets), []string{"secrets"}},
		"what the manager has itself":  {jobs, nil, asks(r.home, pods), []string{"pods"}},
	} {
		t.Run(name, func(t *testing.T) {
			role := r.grant(t, test.rule, test.annotations)
			defer r.remove(t, role)
			warnings, err := r.Check(t.Context(), r.of, test.asked)
			if len(test.missing) > 0 {
				expectMissing(t, err, test.missing...)
			} else if err != nil || len(warnings) > 0 {
				t.Errorf("got %v, %v", warnings, err)
			}
		})
	}
	if _, err := r.Check(t.Context(), r.of, nil); err != nil {
		t.Errorf("who asks for nothing needs nothing: %v", err)
	}
}

// What every operator gets needs no grant, but the manager must have it.
func TestGivenRules(t *testing.T) {
	r := newRig(t, false)
	other := r.server.Namespace(t)
	given := func(namespace string, rule rbacv1.PolicyRule) []grants.Role {
		return []grants.Role{{Namespace: namespace, Rules: []rbacv1.PolicyRule{rule}, Given: []rbacv1.PolicyRule{rule}}}
	}
	if _, err := r.Check(t.Context(), r.of, given(r.home, jobs)); err != nil {
		t.Error(err)
	}
	_, err := r.Check(t.Context(), r.of, given(other, allow("acme.example.com", "things", "get")))
	expectMissing(t, err, "things")
	_, err = r.Check(t.Context(), r.of, []grants.Role{{Namespace: r.home, Rules: []rbacv1.PolicyRule{pods, jobs}, Given: []rbacv1.PolicyRule{jobs}}})
	if expectMissing(t, err, "pods"); strings.Contains(err.Error(), "jobs") {
		t.Errorf("got %v", err)
	}
}

// Grants for all collections count, with a warning, unless the administrator asks for scoped ones.
func TestGrantsForAllCollections(t *testing.T) {
	shared := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: grants.ClusterRole}, Rules: []rbacv1.PolicyRule{allow("", "configmaps", "get")}}
	lenient, strict := newRig(t, false), newRig(t, true)
	asked := asks("", allow("", "configmaps", "get"))
	_, err := lenient.Check(t.Context(), lenient.of, asked)
	expectMissing(t, err, "configmaps")
	apiserver.Must(t, lenient.server.Client.Create(t.Context(), shared))
	apiserver.Await(t, "the shared grants count", func() bool {
		warnings, err := lenient.Check(t.Context(), lenient.of, asked)
		return err == nil && len(warnings) == 1 && strings.Contains(warnings[0], "configmaps")
	})
	lenient.grant(t, allow("", "configmaps", "get"), nil)
	if warnings, err := lenient.Check(t.Context(), lenient.of, asked); err != nil || len(warnings) > 0 {
		t.Errorf("it has a grant of its own: %v, %v", warnings, err)
	}
	_, err = strict.Check(t.Context(), strict.of, asked)
	expectMissing(t, err, "configmaps")
}

// A check is not repeated while nothing changes. A grant that is withdrawn counts at once when the cache has that.
func TestChecksAreRemembered(t *testing.T) {
	settles := intervals.GrantSettles
	t.Cleanup(func() { intervals.GrantSettles = settles })
	r := newRig(t, false)
	role, asked := r.grant(t, jobs, nil), asks(r.home, jobs)
	makesRequests := func() bool {
		before := r.requests.Load()
		if _, err := r.Check(t.Context(), r.of, asked); err != nil {
			t.Fatal(err)
		}
		return r.requests.Load() > before
	}
	if makesRequests(); !makesRequests() {
		t.Error("a check is remembered when the grant is new")
	}
	intervals.GrantSettles = 0
	if makesRequests(); makesRequests() {
		t.Error("a check is repeated")
	}
	if _, err := r.Check(t.Context(), r.of, asks(r.home, jobs, pods)); err == nil {
		t.Error("what was not asked before is remembered")
	}
	another := r.of
	another.Namespace = "another"
	if _, err := r.Check(t.Context(), another, asked); err == nil {
		t.Error("what another one asked is remembered")
	}
	r.remove(t, role)
	_, err := r.Check(t.Context(), r.of, asked)
	expectMissing(t, err, "jobs")
}

// What is not known is neither granted nor refused.
func TestFailedReads(t *testing.T) {
	r := newRig(t, false)
	r.grant(t, jobs, nil)
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "x", errors.New("no"))
	for kind, text := range map[string]string{"ClusterRole": "reading ClusterRole", "SelfSubjectRulesReview": "reading the manager's own permissions", "cached": "from the cache"} {
		for _, failure := range []error{forbidden, context.DeadlineExceeded} {
			r.failure = map[string]error{kind: failure}
			if _, err := r.Check(t.Context(), r.of, asks(r.home, jobs)); !errors.Is(err, failure) || status.Is(err) || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: got %v", kind, err)
			}
		}
	}
	r.failure = map[string]error{"ClusterRole": apierrors.NewNotFound(schema.GroupResource{Resource: "clusterroles"}, "x")}
	_, err := r.Check(t.Context(), r.of, asks(r.home, jobs))
	expectMissing(t, err, "jobs")
	r.failure = nil
	if _, err := r.Check(t.Context(), r.of, asks(r.home, jobs)); err != nil {
		t.Error(err)
	}
}

// The cache may have a grant that was changed meanwhile: its live label, scope and rules count.
func TestLiveGrantCounts(t *testing.T) {
	r := newRig(t, false)
	r.grant(t, jobs, nil)
	live := &rbacv1.ClusterRole{}
	reader := r.Reader
	r.Reader = interceptor.NewClient(r.server.Client, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := reader.Get(ctx, key, object, options...); err != nil || key.Name == grants.ClusterRole {
				return err
			}
			live.DeepCopyInto(object.(*rbacv1.ClusterRole))
			return nil
		},
	})
	annotations := map[string]string{render.AnnotationGrantCollection: r.of.ID.String(), render.AnnotationGrantNamespace: r.home}
	for name, test := range map[string]struct {
		label       string
		annotations map[string]string
		rules       []rbacv1.PolicyRule
	}{
		"without the label":      {"", annotations, []rbacv1.PolicyRule{jobs}},
		"for another collection": {"true", map[string]string{render.AnnotationGrantCollection: "acme/x", render.AnnotationGrantNamespace: r.home}, []rbacv1.PolicyRule{jobs}},
		"with other rules":       {"true", annotations, []rbacv1.PolicyRule{pods}},
	} {
		live.Labels, live.Annotations, live.Rules = map[string]string{render.LabelGrant: test.label}, test.annotations, test.rules
		if _, err := r.Check(t.Context(), r.of, asks(r.home, jobs)); err == nil {
			t.Errorf("%s: it counts", name)
		}
	}
	live.Labels, live.Annotations, live.Rules = map[string]string{render.LabelGrant: "true"}, annotations, []rbacv1.PolicyRule{jobs}
	if _, err := r.Check(t.Context(), r.of, asks(r.home, jobs)); err != nil {
		t.Error(err)
	}
}

func TestManagerKnowsWhoItIs(t *testing.T) {
	r := newRig(t, false)
	if want := (rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "manager-" + r.home}); r.Manager != want {
		t.Errorf("got %+v", r.Manager)
	}
	mgr, err := ctrl.NewManager(r.server.AsServiceAccount(t, r.home, "default"), ctrl.Options{Scheme: r.server.Scheme, Metrics: metrics.Options{BindAddress: "0"}})
	apiserver.Must(t, err)
	source, err := grants.NewSource(t.Context(), mgr, false)
	apiserver.Must(t, err)
	if want := (rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: r.home, Name: "default"}); source.Manager != want {
		t.Errorf("got %+v", source.Manager)
	}
}
