package controller_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	managercache "github.com/collection-operator/collection-operator/internal/controller/cache"
	catalogcontroller "github.com/collection-operator/collection-operator/internal/controller/catalog"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/customresourcedefinition"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcollection"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcondition"
	"github.com/collection-operator/collection-operator/internal/controller/runcounts"
	"github.com/collection-operator/collection-operator/internal/controller/suboperatorconfig"
	"github.com/collection-operator/collection-operator/internal/controller/subscription"
	"github.com/collection-operator/collection-operator/internal/controller/trustedauthorities"
	"github.com/collection-operator/collection-operator/internal/controller/zosendpoint"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/probe"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// running is a manager with all controllers, which run, for two namespaces: home and other, which lets home map it. It shows what wakes
// which controller. What they do is tested without it.
type running struct {
	server      *apiserver.Server
	client      client.WithWatch
	web         *web
	home, other string
	source      source
	counts      *runcounts.RunCounts
	trusted     *trustedauthorities.TrustedAuthorities
	authorities *trustedauthorities.Authorities
}

func startRunning(t *testing.T) *running {
	t.Helper()
	shared := apiserver.Shared(t)
	scheme, home := withOLM(t, shared), shared.Namespace(t)
	number := strings.TrimPrefix(home, "test-")
	r := &running{
		server: shared, client: newOLMClient(t, scheme, shared.Config), web: startWeb(t), home: home, other: shared.Namespace(t),
		source: source{name: "runs" + number, kind: "Run" + number, version: "1.0.0", description: "a description"},
	}
	r.patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.other}}, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, mapping.AnnotationAllow, home))
	selection := mapping.Selection{r.home, r.other}
	options := managercache.LimitCache(managercache.Options(), selection)
	options.DefaultNamespaces = map[string]cache.Config{r.home: {}, r.other: {}} // Other tests leave objects behind.
	mgr, err := ctrl.NewManager(shared.Config, ctrl.Options{
		Scheme: scheme, MapperProvider: olm.NewRESTMapper, Cache: options, Metrics: metrics.Options{BindAddress: "0"},
		NewClient:  managercache.NewClient,
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	apiserver.Must(t, err)
	ctx, stop := context.WithCancel(context.Background()) // It is stopped before the test ends.
	r.addControllers(ctx, t, mgr, selection)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *running) addControllers(ctx context.Context, t *testing.T, mgr ctrl.Manager, selection mapping.Selection) {
	t.Helper()
	apiserver.Must(t, managercache.AddIndexes(ctx, mgr.GetFieldIndexer()))
	archives, err := store.Open(filepath.Join(t.TempDir(), "artifacts"))
	apiserver.Must(t, err)
	granted, err := grants.NewSource(ctx, mgr, false)
	apiserver.Must(t, err)
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	apiserver.Must(t, err)
	c, reader, recorder, limits := mgr.GetClient(), mgr.GetAPIReader(), events.NewFakeRecorder(100000), budget.Limits{PerNamespace: 4, Total: 4}
	cluster := &olm.Cluster{Client: c, Reader: reader, Discovery: served, CatalogAddress: "catalog.example:50051", CatalogNamespace: r.home}
	collections := &imports.CollectionCache{Store: archives, Peers: &replica.Peers{Reader: reader, Namespace: r.home, Store: archives}, Key: bytes.Repeat([]byte("k"), 32)}
	imported, definitions := &imports.Index{Client: c, Reader: within(r.home, r.client)}, &crdplan.WrittenDefinitions{}
	publications := imports.NewPublications()
	r.counts = &runcounts.RunCounts{Client: c, Reader: reader}
	r.trusted = &trustedauthorities.TrustedAuthorities{Reader: reader, Recorder: recorder, Namespace: r.home}
	apiserver.Must(t, r.trusted.Load(ctx))
	r.authorities = trustedauthorities.NewAuthorities(func() string { return "first" }, 0)
	settings := render.DefaultSettings()
	for _, one := range []interface{ SetupWithManager(ctrl.Manager) error }{
		cluster, r.counts, r.trusted,
		&operatorcollection.Reconciler{
			Client: c, Reader: reader, Recorder: recorder, Collections: collections, Imports: imported, Definitions: definitions, Namespaces: selection,
			Budgets: &operatorcollection.Budgets{}, Publications: publications,
			Source: &intake.Source{
				Client: c, Reader: reader, Collections: collections, Workers: limits, Downloads: limits, Namespace: r.home,
				Fetcher: &fetch.Fetcher{MaxBytes: 1 << 20, Timeout: time.Minute}, Pushes: &store.Pushes{Dir: t.TempDir()},
			},
		},
		&customresourcedefinition.Reconciler{Client: c, Reader: reader, Collections: collections, Imports: imported, Definitions: definitions},
		&suboperatorconfig.Reconciler{
			Client: c, Reader: reader, Cache: mgr.GetCache(), Recorder: recorder, Collections: collections, Settings: settings, Grants: granted,
			CredentialKey: bytes.Repeat([]byte("k"), 32), Namespaces: selection, Workers: limits, OLM: cluster, Trusted: r.trusted, Authorities: r.authorities,
		},
		&zosendpoint.Reconciler{
			Client: c, Reader: reader, Recorder: recorder, Prober: &probe.Prober{}, ProbeInterval: time.Hour, Namespaces: selection,
		},
		&subscription.Reconciler{Client: c, Reader: reader, Recorder: recorder, OLM: cluster},
		&operatorcondition.Reconciler{Client: c, Reader: reader, Namespace: r.home, Name: "manager", Namespaces: selection},
		&catalogcontroller.Reconciler{
			Client: c, Reader: reader, Collections: collections, Settings: settings, Grants: granted, OLM: cluster,
			Server: catalog.NewServer("127.0.0.1:0"), Publications: publications, Elected: mgr.Elected(),
		},
	} {
		apiserver.Must(t, one.SetupWithManager(mgr))
	}
}

func (r *running) patch(t *testing.T, object client.Object, patch string) {
	t.Helper()
	apiserver.Must(t, r.client.Patch(t.Context(), object, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

// awaitCondition waits until a condition of an object has a reason.
func (r *running) awaitCondition(t *testing.T, object interface {
	client.Object
	StatusConditions() *[]metav1.Condition
}, kind, reason string) *metav1.Condition {
	t.Helper()
	var is *metav1.Condition
	defer func() {
		if t.Failed() {
			t.Logf("%s is %+v", kind, is)
		}
	}()
	apiserver.Await(t, fmt.Sprintf("%s of %s is %s", kind, object.GetName(), reason), func() bool {
		is = nil
		if read(t, r.client, object) {
			is = meta.FindStatusCondition(*object.StatusConditions(), kind)
		}
		return is != nil && is.Reason == reason && (reason != v2beta2.ReasonSucceeded || is.ObservedGeneration == object.GetGeneration())
	})
	return is
}

// awaitGone waits until an object is not there any more.
func (r *running) awaitGone(t *testing.T, object client.Object) {
	t.Helper()
	apiserver.Await(t, object.GetName()+" is gone", func() bool { return !read(t, r.client, object) })
}

// awaitAgain deletes an object, and waits until it is there again.
func (r *running) awaitAgain(t *testing.T, object client.Object) {
	t.Helper()
	apiserver.Await(t, object.GetName()+" is there", func() bool { return read(t, r.client, object) })
	before := object.GetUID()
	apiserver.Must(t, r.client.Delete(t.Context(), object))
	apiserver.Await(t, object.GetName()+" is there again", func() bool { return read(t, r.client, object) && object.GetUID() != before })
}

func (r *running) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: r.home, Name: name}
}

func (r *running) operator() string { return "tests-" + r.source.name + "-operator" }

// config makes a SubOperatorConfig that maps the namespace home.
func (r *running) config(t *testing.T, name string) *v2beta2.SubOperatorConfig {
	t.Helper()
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: r.meta(name), Spec: v2beta2.SubOperatorConfigSpec{
		OperatorCollection: "oc", Install: v2beta2.InstallDirect, Mapping: []v2beta2.NamespaceMapping{{Namespace: r.home}},
	}}
	apiserver.Must(t, r.client.Create(t.Context(), soc))
	return soc
}

func TestControllersAreWoken(t *testing.T) {
	r := startRunning(t)
	condition := &operatorsv2.OperatorCondition{ObjectMeta: r.meta("manager")}
	apiserver.Must(t, r.client.Create(t.Context(), condition))
	soc := r.config(t, "soc")
	oc := &v2beta2.OperatorCollection{
		ObjectMeta: r.meta("oc"),
		Spec:       v2beta2.OperatorCollectionSpec{CollectionURL: r.web.serve("/archive", r.source.archive(t)), SkipSignatureVerification: true},
	}
	apiserver.Must(t, r.client.Create(t.Context(), oc))
	r.awaitCondition(t, soc, v2beta2.ConditionReady, v2beta2.ReasonProgressing)
	rig := &rig{server: r.server}
	apiserver.Await(t, "the operator is there", func() bool { return rig.deploymentOf(t, r.home, r.operator()) != nil })
	rig.setAvailableOf(t, r.home, r.operator())
	r.awaitCondition(t, soc, v2beta2.ConditionReady, v2beta2.ReasonSucceeded)
	r.awaitCondition(t, oc, v2beta2.ConditionReady, v2beta2.ReasonSucceeded)

	t.Run("objects", func(t *testing.T) { r.expectObjectsAgain(t, soc) })
	t.Run("endpoints", func(t *testing.T) { r.expectEndpointsFollow(t) })
	t.Run("conflicts", func(t *testing.T) { r.expectConflictsEnd(t, soc) })
	t.Run("consent", func(t *testing.T) { r.expectConsentCounts(t, soc) })
	t.Run("catalog", func(t *testing.T) { r.expectCatalog(t, oc) })
	t.Run("counts", func(t *testing.T) { r.expectCounts(t) })
	t.Run("condition", func(t *testing.T) {
		apiserver.Await(t, "OLM is told that it may replace the manager", func() bool {
			return read(t, r.client, condition) && meta.IsStatusConditionTrue(condition.Spec.Conditions, operatorsv2.Upgradeable)
		})
	})
	t.Run("deletion", func(t *testing.T) {
		apiserver.Must(t, r.client.Delete(t.Context(), oc))
		apiserver.Await(t, "the operator is being removed", func() bool {
			deployment := rig.deploymentOf(t, r.home, r.operator())
			return deployment != nil && deployment.DeletionTimestamp != nil
		})
		rig.endDeploymentOf(t, r.home, r.operator())
		r.awaitGone(t, soc)
		r.awaitGone(t, oc)
	})
}

// expectObjectsAgain expects that what others delete or change is put right.
func (r *running) expectObjectsAgain(t *testing.T, soc *v2beta2.SubOperatorConfig) {
	t.Helper()
	name := r.operator()
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: r.meta(name)}, &rbacv1.Role{ObjectMeta: r.meta(name)}, &rbacv1.RoleBinding{ObjectMeta: r.meta(name)},
		&corev1.ConfigMap{ObjectMeta: r.meta(name + "-runtime")}, &corev1.Secret{ObjectMeta: r.meta(name + "-endpoints")},
	} {
		r.awaitAgain(t, object)
	}
	r.awaitCondition(t, soc, v2beta2.ConditionReady, v2beta2.ReasonSucceeded)
	definition := &importer{server: r.server}
	before := definition.definition(t, r.source.kind)
	r.patch(t, before, `{"metadata":{"annotations":{"zoscb.ibm.com/held-by":null}}}`)
	apiserver.Await(t, "the CRD names its OperatorCollection again", func() bool {
		return definition.definition(t, r.source.kind).Annotations[render.AnnotationHeldBy] == r.home+"/oc"
	})
}

// endpoint returns what the operator's Secret has under a key.
func (r *running) endpoint(t *testing.T, key string) string {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: r.meta(r.operator() + "-endpoints")}
	if !read(t, r.client, secret) {
		return ""
	}
	return string(secret.Data[key])
}

func (r *running) expectEndpointsFollow(t *testing.T) {
	t.Helper()
	server := startSSHServer(t)
	lpar1 := &v2beta2.ZosEndpoint{ObjectMeta: r.meta("lpar1"), Spec: server.spec(t)}
	lpar1.Spec.CredentialName = "logon"
	apiserver.Must(t, r.client.Create(t.Context(), lpar1))
	r.awaitCondition(t, lpar1, v2beta2.ConditionReachable, v2beta2.ReasonSucceeded)
	apiserver.Await(t, "the operator has the endpoint", func() bool { return strings.HasPrefix(r.endpoint(t, "lpar1_refusal"), v2beta2.ReasonCredentialInvalid) })
	logon := &corev1.Secret{
		ObjectMeta: r.meta("logon"), Type: corev1.SecretTypeSSHAuth, StringData: map[string]string{"username": "IBMUSER", "ssh-privatekey": "key one"},
	}
	apiserver.Must(t, r.client.Create(t.Context(), logon))
	apiserver.Await(t, "the operator has the key", func() bool { return r.endpoint(t, "lpar1_key") == "key one" })
	r.patch(t, logon, `{"stringData":{"ssh-privatekey":"key two"}}`)
	apiserver.Await(t, "the operator has the other key", func() bool { return r.endpoint(t, "lpar1_key") == "key two" })
	binding := &rbacv1.RoleBinding{ObjectMeta: r.meta("zosendpoint-lpar1")}
	r.awaitAgain(t, binding)
	if !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == r.operator() }) {
		t.Errorf("got %+v", binding.Subjects)
	}
	r.awaitAgain(t, &rbacv1.Role{ObjectMeta: r.meta("zosendpoint-lpar1")})
	lpar2 := &v2beta2.ZosEndpoint{ObjectMeta: r.meta("lpar2"), Spec: server.spec(t)}
	apiserver.Must(t, r.client.Create(t.Context(), lpar2))
	rig := &endpoints{server: r.server, home: r.home}
	apiserver.Await(t, "two share a state", func() bool { secret, _ := rig.state(t, lpar1); return len(secret.OwnerReferences) == 2 })
	rig.edit(t, lpar1, func(state *endpoint.State) {
		state.Systems = endpoint.Systems{server.address(): {Outage: &endpoint.Outage{Since: time.Now().UTC().Truncate(time.Second), Message: "refused"}}}
	})
	r.awaitCondition(t, lpar2, v2beta2.ConditionReady, v2beta2.ReasonSucceeded)
	apiserver.Await(t, "the outage has ended", func() bool {
		_, state := rig.state(t, lpar1)
		return state.Systems[server.address()] != nil && state.Systems[server.address()].Outage == nil
	})
	apiserver.Must(t, r.client.Delete(t.Context(), lpar2))
	apiserver.Await(t, "one has the state", func() bool { secret, _ := rig.state(t, lpar1); return len(secret.OwnerReferences) == 1 })
	apiserver.Must(t, r.client.Delete(t.Context(), lpar1))
	apiserver.Await(t, "the operator has no endpoint", func() bool { return r.endpoint(t, "lpar1_key") == "" })
}

// expectConflictsEnd expects that the second SubOperatorConfig of a collection in a namespace is told so, until the first one is gone.
func (r *running) expectConflictsEnd(t *testing.T, soc *v2beta2.SubOperatorConfig) {
	t.Helper()
	second := r.config(t, "second")
	r.awaitCondition(t, second, v2beta2.ConditionReady, v2beta2.ReasonMappingConflict)
	r.patch(t, soc, `{"spec":{"mapping":[]}}`)
	rig := &rig{server: r.server}
	apiserver.Await(t, "the operator is being removed", func() bool {
		deployment := rig.deploymentOf(t, r.home, r.operator())
		return deployment != nil && deployment.DeletionTimestamp != nil
	})
	rig.endDeploymentOf(t, r.home, r.operator())
	apiserver.Await(t, "the other one installs", func() bool { return read(t, r.client, second) && mapping.InstalledIn(second, r.home) })
	apiserver.Must(t, r.client.Delete(t.Context(), second))
	apiserver.Await(t, "the operator is being removed", func() bool {
		deployment := rig.deploymentOf(t, r.home, r.operator())
		return deployment != nil && deployment.DeletionTimestamp != nil
	})
	rig.endDeploymentOf(t, r.home, r.operator())
	r.awaitGone(t, second)
	r.patch(t, soc, fmt.Sprintf(`{"spec":{"mapping":[{"namespace":%q}]}}`, r.home))
	apiserver.Await(t, "the first one installs again", func() bool { return read(t, r.client, soc) && mapping.InstalledIn(soc, r.home) })
	apiserver.Await(t, "the operator is there", func() bool { return rig.deploymentOf(t, r.home, r.operator()) != nil })
	rig.setAvailableOf(t, r.home, r.operator())
	r.awaitCondition(t, soc, v2beta2.ConditionReady, v2beta2.ReasonSucceeded)
}

func (r *running) expectConsentCounts(t *testing.T, soc *v2beta2.SubOperatorConfig) {
	t.Helper()
	rig := &rig{server: r.server}
	r.patch(t, soc, fmt.Sprintf(`{"spec":{"mapping":[{"namespace":%q},{"namespace":%q}]}}`, r.home, r.other))
	apiserver.Await(t, "the operator is there", func() bool { return rig.deploymentOf(t, r.other, r.operator()) != nil })
	rig.setAvailableOf(t, r.other, r.operator())
	r.awaitCondition(t, soc, v2beta2.ConditionReady, v2beta2.ReasonSucceeded)
	r.patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.other}}, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, mapping.AnnotationAllow))
	apiserver.Await(t, "the operator is being removed", func() bool {
		deployment := rig.deploymentOf(t, r.other, r.operator())
		return deployment != nil && deployment.DeletionTimestamp != nil
	})
	rig.endDeploymentOf(t, r.other, r.operator())
	r.awaitCondition(t, soc, v2beta2.ConditionReady, v2beta2.ReasonMappingNotAllowed)
	r.patch(t, soc, fmt.Sprintf(`{"spec":{"mapping":[{"namespace":%q}]}}`, r.home))
	r.awaitCondition(t, soc, v2beta2.ConditionReady, v2beta2.ReasonSucceeded)
}

func (r *running) expectCatalog(t *testing.T, oc *v2beta2.OperatorCollection) {
	t.Helper()
	if published := r.awaitCondition(t, oc, v2beta2.ConditionPublished, v2beta2.ReasonSucceeded); !strings.Contains(published.Message, "package "+r.operator()+", channels stable and v1.0.0") {
		t.Errorf("got %+v", published)
	}
	catalogSource := &operatorsv1alpha1.CatalogSource{ObjectMeta: r.meta(olm.CatalogSourceName)}
	r.awaitAgain(t, catalogSource)
	first := catalogSource.Annotations["zoscb.ibm.com/catalog-digest"]
	if catalogSource.Spec.Address != "catalog.example:50051" || !strings.HasPrefix(first, "sha256:") {
		t.Errorf("got %+v, %v", catalogSource.Spec, catalogSource.Annotations)
	}
	needy := source{
		name: r.source.name + "x", kind: r.source.kind + "x", version: "1.0.0", description: "needs a permission",
		more: "roles:\n  - {apiGroups: [batch], resources: [jobs], verbs: [create]}\n",
	}
	second := &v2beta2.OperatorCollection{
		ObjectMeta: r.meta("needy"),
		Spec:       v2beta2.OperatorCollectionSpec{CollectionURL: r.web.serve("/needy", needy.archive(t)), SkipSignatureVerification: true},
	}
	apiserver.Must(t, r.client.Create(t.Context(), &v2beta2.SubOperatorConfig{ // It maps no namespace: nothing is installed.
		ObjectMeta: r.meta("needy-none"), Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: "needy"},
	}))
	apiserver.Must(t, r.client.Create(t.Context(), second))
	r.awaitCondition(t, second, v2beta2.ConditionPublished, v2beta2.ReasonPermissionsNotGranted)
	needless := needy
	needless.version, needless.more = "1.1.0", ""
	r.patch(t, second, fmt.Sprintf(`{"spec":{"collectionURL":%q}}`, r.web.serve("/needless", needless.archive(t))))
	r.awaitCondition(t, second, v2beta2.ConditionPublished, v2beta2.ReasonSucceeded)
	apiserver.Await(t, "the CatalogSource has another content", func() bool {
		return read(t, r.client, catalogSource) && catalogSource.Annotations["zoscb.ibm.com/catalog-digest"] != first
	})
	r.patch(t, second, `{"spec":{"deletionPolicy":"Orphan"}}`)
	apiserver.Must(t, r.client.Delete(t.Context(), second))
	r.awaitGone(t, second)
	apiserver.Await(t, "the CatalogSource has the content from before", func() bool {
		return read(t, r.client, catalogSource) && catalogSource.Annotations["zoscb.ibm.com/catalog-digest"] == first
	})
}

// expectCounts expects that the counts of runs in the Lease of an operator are read, and in no other one.
func (r *running) expectCounts(t *testing.T) {
	t.Helper()
	counts := &runcount.Counts{}
	counts.Run(r.source.kind, "lpar1", "Succeeded", time.Second, time.Second)
	text := counts.Marshal(func(string) bool { return true })
	for _, name := range []string{"of-nobody", r.operator()} {
		lease := &coordinationv1.Lease{ObjectMeta: r.meta(name)}
		lease.Labels, lease.Annotations = map[string]string{runcount.Label: "true"}, map[string]string{runcount.Annotation: text}
		apiserver.Must(t, r.client.Create(t.Context(), lease))
	}
	key := client.ObjectKey{Namespace: r.home, Name: r.operator()}
	apiserver.Await(t, "the counts are known", func() bool { return r.counts.Of(key) != nil })
	if r.counts.Of(client.ObjectKey{Namespace: r.home, Name: "of-nobody"}) != nil {
		t.Error("the counts of nobody are known")
	}
	apiserver.Must(t, r.client.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: r.meta(r.operator())}))
	apiserver.Await(t, "the counts are forgotten", func() bool { return r.counts.Of(key) == nil })
}
