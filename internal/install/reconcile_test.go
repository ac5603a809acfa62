package install_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// objects are those of an installation, in the order in which they are written.
var objects = []string{
	"PATCH secrets/" + operator + "-endpoints", "PATCH serviceaccounts/" + operator, "PATCH roles/" + operator, "PATCH rolebindings/" + operator,
	"PATCH networkpolicies/" + operator, "PATCH configmaps/" + operator + "-runtime", "PATCH deployments/" + operator,
}

func TestInstall(t *testing.T) {
	r := newRig(t)
	result := r.Reconcile(t.Context(), []*install.Installation{r.installation(r.home)})[0]
	if writes := r.writes.Take(); !strings.HasSuffix(writes[0], "/suboperatorconfigs/soc/status") || len(writes) != len(objects)+1 {
		t.Errorf("the record must be written first: %v", writes)
	}
	expectReason(t, result.Err, v2beta2.ReasonProgressing, `is not available: waiting for its pod to be created`)
	if !result.Applied || result.Status.Ready || result.Status.Install != v2beta2.InstallDirect || result.Status.Digest != digest.FromString("things 1.2.0").String() {
		t.Errorf("got %+v", result.Status)
	}
	r.expectBegun(t, "version 1.2.0 is being installed")
	if got := r.soc.Status.Collection; got == nil || got.Name != "things" || len(r.soc.Status.Inventory) != len(objects) {
		t.Errorf("recorded: %+v, %v", got, inventoryOf(r.soc))
	}
	r.record(t, result)

	r.setAvailable(t, false)
	if result := r.reconcile(t, r.installation(r.home)); result.Status.Ready || result.Err == nil {
		t.Error("it is ready before the Deployment is available")
	}
	r.setAvailable(t, true)
	if result := r.reconcile(t, r.installation(r.home)); !result.Status.Ready || result.Err != nil || result.Status.Message != "" {
		t.Errorf("it is available: %v", result.Err)
	}
	if writes := r.writes.Take(); len(writes) > 0 {
		t.Errorf("nothing has changed, and was written: %v", writes)
	}
	r.setAvailable(t, false)
	if result := r.reconcile(t, r.installation(r.home)); result.Status.Ready || result.Err == nil {
		t.Error("it stays ready when the Deployment is not available any more")
	}
}

// expectBegun expects that the record of an installation has taken Ready back.
func (r *rig) expectBegun(t *testing.T, message string) {
	t.Helper()
	live := &v2beta2.SubOperatorConfig{}
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(r.soc), live))
	ready := meta.FindStatusCondition(live.Status.Conditions, v2beta2.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != v2beta2.ReasonProgressing || ready.Message != message ||
		live.Status.ObservedGeneration != live.Generation || live.Status.Phase != v2beta2.PhasePending {
		t.Errorf("got %+v, %+v", ready, live.Status)
	}
	if is := install.Recorded(live, r.home); is == nil || is.Ready || is.Reason != v2beta2.ReasonProgressing {
		t.Errorf("got %+v", is)
	}
}

func TestLimitOfRuns(t *testing.T) {
	day, hour := &metav1.Duration{Duration: 24 * time.Hour}, &metav1.Duration{Duration: time.Hour}
	for name, test := range map[string]struct {
		recorded            bool
		set, want, inStatus *metav1.Duration
	}{
		"a new installation":        {false, nil, day, day},
		"one from before":           {true, nil, &metav1.Duration{}, nil},
		"one with a setting":        {false, hour, hour, day},
		"one from before, with one": {true, hour, hour, nil},
	} {
		r := newRig(t)
		if test.recorded {
			r.soc.Status.Installations = []v2beta2.InstallationStatus{{Namespace: r.home, Digest: "sha256:1"}}
			apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
		}
		for range 2 {
			i := r.installation(r.home)
			i.Runtime.RunTimeout = test.set
			result := r.reconcile(t, i)
			config := &corev1.ConfigMap{}
			apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKey{Namespace: r.home, Name: operator + "-runtime"}, config))
			var settings gate.Settings
			apiserver.Must(t, json.Unmarshal([]byte(config.Data[gate.SettingsFile]), &settings))
			if got := time.Duration(settings.RunTimeoutSeconds) * time.Second; got != test.want.Duration || !ptr.Equal(result.Status.RunTimeout, test.inStatus) {
				t.Errorf("%s: runs end after %s, and status says %v", name, got, result.Status.RunTimeout)
			}
			r.record(t, result)
		}
	}
}

// newUpgrade returns a rig whose installation is Ready, and the next version of it.
func newUpgrade(t *testing.T) (*rig, *install.Installation) {
	t.Helper()
	r := newRig(t)
	r.installed(t)
	status.SetReady(&r.soc.Status.Conditions, r.soc.Generation, nil, "")
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
	next := r.installation(r.home)
	next.Digest = digest.FromString("things 1.3.0")
	r.writes.Take()
	return r, next
}

// Nobody who waits for Ready sees it with pods of another version.
func TestUpgradeTakesReadyBack(t *testing.T) {
	r, changed := newUpgrade(t)
	r.Reconcile(t.Context(), []*install.Installation{changed})
	if writes := r.writes.Take(); len(writes) < 2 || !strings.HasSuffix(writes[0], "/suboperatorconfigs/soc/status") {
		t.Errorf("the record must be written first: %v", writes)
	}
	if ready := meta.FindStatusCondition(r.soc.Status.Conditions, v2beta2.ConditionReady); ready.Reason != v2beta2.ReasonProgressing {
		t.Errorf("got %+v", ready)
	}
}

// What is written to status triggers the next reconcile of the OperatorCollection, and that one of the SubOperatorConfig.
func TestAnUpgradeThatIsRefusedAgainWritesNoStatus(t *testing.T) {
	r, changed := newUpgrade(t)
	r.faults.Set("apply Deployment", apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "x", nil))
	for try := range 2 {
		r.writes.Take()
		result := r.reconcile(t, changed)
		expectReason(t, result.Err, v2beta2.ReasonObjectRefused, "")
		if writes := r.writes.Take(); slices.ContainsFunc(writes, func(write string) bool { return strings.HasSuffix(write, "/status") }) != (try == 0) {
			t.Errorf("try %d: %v", try, writes)
		}
		status.SetReady(&r.soc.Status.Conditions, r.soc.Generation, result.Err, "") // As the reconciler does at the end.
		apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
	}
}

func TestObjectsAreWrittenInOrder(t *testing.T) {
	r := newRig(t)
	r.reconcile(t, r.installation(r.home))
	if diff := cmp.Diff(objects, r.ofInstallation()); diff != "" {
		t.Error(diff)
	}
	// Somebody else's change is put right, and nothing else is written.
	config := &corev1.ConfigMap{}
	if !r.exists(t, config, operator+"-runtime") {
		t.Fatal("there is no ConfigMap")
	}
	config.Data["watches.yaml"] = "changed"
	apiserver.Must(t, r.server.Client.Update(t.Context(), config, client.FieldOwner("somebody")))
	r.reconcile(t, r.installation(r.home))
	if diff := cmp.Diff(objects[5:6], r.ofInstallation()); diff != "" {
		t.Error(diff)
	}
}

// The cache may not have an available Deployment yet, or one that is not any more.
func TestReadyIsConfirmedByALiveRead(t *testing.T) {
	r := newRig(t)
	r.reconcile(t, r.installation(r.home))
	r.setAvailable(t, true)
	r.faults.Set("get Deployment", errAway)
	if result := r.reconcile(t, r.installation(r.home)); result.Status.Ready || !errors.Is(result.Err, errAway) {
		t.Errorf("it is ready by what the cache has alone: %v", result.Err)
	}
	r.faults.Clear()
	r.hidden["Deployment "+operator] = true
	if result := r.reconcile(t, r.installation(r.home)); !result.Status.Ready {
		t.Errorf("the cache is behind what was written: %v", result.Err)
	}
	clear(r.hidden)
	r.faults.Set("cached Deployment", errAway)
	if result := r.reconcile(t, r.installation(r.home)); !errors.Is(result.Err, errAway) {
		t.Errorf("got %v", result.Err)
	}
}

// Whoever deletes the Deployment, or changes what it runs, makes the installation not ready until it is written again.
func TestDeploymentIsWrittenAgain(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	apiserver.Must(t, r.server.Client.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: operator}}))
	if result := r.reconcile(t, r.installation(r.home)); result.Status.Ready {
		t.Error("a new Deployment is ready at once")
	}
	if writes := r.ofInstallation(); !slices.Equal(writes, objects[6:]) {
		t.Errorf("got %v", writes)
	}
	r.setAvailable(t, true)
	changed := r.installation(r.home)
	changed.Digest = digest.FromString("things 1.3.0")
	if result := r.reconcile(t, changed); result.Status.Ready || result.Status.Digest != changed.Digest.String() {
		t.Errorf("another archive is ready at once: %+v", result.Status)
	}
	r.setAvailable(t, true)
	if result := r.reconcile(t, changed); !result.Status.Ready {
		t.Errorf("got %v", result.Err)
	}
}

// rule is one that no collection has by itself, and the manager holds.
var rule = rbacv1.PolicyRule{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}}

func TestRefusalWritesNothing(t *testing.T) {
	fromSecret := &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Key: "b"}}
	fromConfig := &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Key: "b"}}
	text := map[string]string{"a": "b"}
	for name, test := range map[string]struct {
		change       func(i *install.Installation)
		reason, text string
		// elsewhere is true if it is refused in another namespace only.
		elsewhere bool
	}{
		"a role that is not granted":         {func(i *install.Installation) { i.Collection.Roles = []rbacv1.PolicyRule{rule} }, v2beta2.ReasonPermissionsNotGranted, "jobs", false},
		"a cluster role that is not granted": {func(i *install.Installation) { i.Collection.ClusterRoles = []rbacv1.PolicyRule{rule} }, v2beta2.ReasonPermissionsNotGranted, "jobs", false},
		"a variable from a Secret": {func(i *install.Installation) {
			i.Runtime.Env = []corev1.EnvVar{{Name: "X", ValueFrom: fromSecret}}
		}, v2beta2.ReasonMappingNotAllowed, `variable "X" must not read a Secret`, true},
		"a variable from a ConfigMap": {func(i *install.Installation) {
			i.Runtime.Env = []corev1.EnvVar{{Name: "X", ValueFrom: fromConfig}}
		}, v2beta2.ReasonMappingNotAllowed, `variable "X" must not read a Secret or ConfigMap`, true},
		"annotations of pods": {func(i *install.Installation) { i.Runtime.PodAnnotations = text }, v2beta2.ReasonMappingNotAllowed, "podAnnotations must not be set", true},
		"labels of pods":      {func(i *install.Installation) { i.Runtime.PodLabels = text }, v2beta2.ReasonMappingNotAllowed, "podLabels must not be set", true},
		"annotations of the ServiceAccount": {func(i *install.Installation) { i.Runtime.ServiceAccountAnnotations = text },
			v2beta2.ReasonMappingNotAllowed, "serviceAccountAnnotations must not be set", true},
		"a Secret that does not exist": {func(i *install.Installation) {
			i.Runtime.EnvFrom = []v2beta2.RuntimeEnvSource{{SecretRef: &v2beta2.RuntimeObject{Name: "absent"}}}
		}, "", "absent", false},
		"what the OperatorCollection does not allow": {func(i *install.Installation) {
			i.Blocked = status.Waiting(v2beta2.ReasonCredentialsInvalid, status.Watched, "no credentials")
		}, v2beta2.ReasonCredentialsInvalid, "no credentials", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			other := r.server.Namespace(t)
			for _, namespace := range []string{r.home, other} {
				i := r.installation(namespace)
				test.change(i)
				result := r.Reconcile(t.Context(), []*install.Installation{i})[0]
				if test.elsewhere && namespace == r.home {
					if reason := reasonOf(result.Err); reason == test.reason {
						t.Errorf("in its own namespace: %v", result.Err)
					}
					r.writes.Take()
					continue
				}
				if test.reason != "" {
					expectReason(t, result.Err, test.reason, test.text)
				}
				if writes := r.writes.Take(); result.Err == nil || result.Applied || result.Status != nil || len(writes) > 0 {
					t.Errorf("got %+v, and %v was written", result, writes)
				}
			}
		})
	}
}

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return status.AsError(err).Reason
}

// A label on the Secret lets operators use it, and its withdrawal does not stop those that do.
func TestLabelledReferences(t *testing.T) {
	r := newRig(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "settings"}}
	apiserver.Must(t, r.server.Client.Create(t.Context(), secret))
	i := r.installation(r.home)
	i.Runtime.EnvFrom = []v2beta2.RuntimeEnvSource{{SecretRef: &v2beta2.RuntimeObject{Name: "settings"}}}
	result := r.reconcile(t, i)
	expectReason(t, result.Err, v2beta2.ReasonRuntimeObjectNotAllowed, `Secret "`+r.home+`/settings" does not allow its use by operators`)
	for _, value := range []string{operator, "another-operator", ""} {
		secret.Labels = map[string]string{v2beta2.LabelRuntime: value}
		apiserver.Must(t, r.server.Client.Update(t.Context(), secret))
		if result := r.reconcile(t, i); !result.Applied {
			t.Errorf("label %q: %v", value, result.Err)
		}
	}
	r.faults.Set("get Secret settings", errAway)
	i.Runtime.PriorityClassName = "system-cluster-critical"
	if result := r.reconcile(t, i); !errors.Is(result.Err, errAway) {
		t.Errorf("got %v", result.Err)
	}
}

func TestForeignObjectIsNotTakenOver(t *testing.T) {
	for name, object := range map[string]client.Object{
		"endpoints":  &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: operator + "-endpoints"}},
		"deployment": &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: operator}},
		"others": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: operator + "-runtime", Labels: render.Labels(things()), Annotations: map[string]string{install.AnnotationOwner: "other/soc"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			object.SetNamespace(r.home)
			apiserver.Must(t, r.server.Client.Create(t.Context(), object))
			version := object.GetResourceVersion()
			result := r.reconcile(t, r.installation(r.home))
			expectReason(t, result.Err, v2beta2.ReasonForeignObject, object.GetName()+`" exists and was not created for this object`)
			apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			if writes := r.ofInstallation(); len(writes) > 0 || object.GetResourceVersion() != version || result.Applied {
				t.Errorf("it was written: %v", writes)
			}
		})
	}
}

// What a failed request leaves is known from status, and the next reconciliation continues.
func TestFailedRequests(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Group: rbacv1.GroupName, Resource: "roles"}, operator, errors.New("no"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "soc", errors.New("no"))
	for name, test := range map[string]struct {
		request string
		err     error
		reason  string
		written int
	}{
		"reading the key":        {"get Secret", errAway, v2beta2.ReasonUnexpectedError, 0},
		"recording":              {"status SubOperatorConfig", errAway, v2beta2.ReasonUnexpectedError, 0},
		"recording, in conflict": {"status SubOperatorConfig", conflict, v2beta2.ReasonUnexpectedError, 0},
		"a write":                {"apply NetworkPolicy", errAway, v2beta2.ReasonApplyFailed, 4},
		"a refused write":        {"apply Role", forbidden, v2beta2.ReasonPermissionsNotGranted, 2},
		"an invalid write":       {"apply ConfigMap", apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "x", nil), v2beta2.ReasonObjectRefused, 5},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.faults.Set(test.request, test.err)
			result := r.Reconcile(t.Context(), []*install.Installation{r.installation(r.home)})[0]
			if !errors.Is(result.Err, test.err) || reasonOf(result.Err) != test.reason || result.Applied {
				t.Errorf("got %q: %v", reasonOf(result.Err), result.Err)
			}
			if writes := r.ofInstallation(); len(writes) != test.written {
				t.Errorf("%v were written", writes)
			}
			r.faults.Clear()
			live := &v2beta2.SubOperatorConfig{}
			apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(r.soc), live))
			if recorded := len(live.Status.Inventory); test.written > 0 && recorded != len(objects) {
				t.Errorf("%d objects are recorded", recorded)
			}
			r.soc = live
			if result := r.reconcile(t, r.installation(r.home)); !result.Applied {
				t.Errorf("the next attempt: %v", result.Err)
			}
			if writes := r.ofInstallation(); len(writes) != len(objects)-test.written {
				t.Errorf("the next attempt has written %v", writes)
			}
		})
	}
}

// What is recorded and not planned any more goes, but not what somebody else has made in its place.
func TestObsoleteObjectsArePruned(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	obsolete := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.home, Name: "former", Labels: render.Labels(things()), Annotations: map[string]string{install.AnnotationOwner: r.home + "/soc"},
	}}
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: "foreign"}}
	for _, object := range []*corev1.ConfigMap{obsolete, foreign} {
		apiserver.Must(t, r.server.Client.Create(t.Context(), object))
		r.soc.Status.Inventory = append(r.soc.Status.Inventory, v2beta2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: r.home, Name: object.Name})
	}
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
	r.faults.Set("delete ConfigMap former", errAway)
	if result := r.reconcile(t, r.installation(r.home)); !errors.Is(result.Err, errAway) || !slices.Contains(inventoryOf(r.soc), "ConfigMap former") {
		t.Errorf("got %v, %v", result.Err, inventoryOf(r.soc))
	}
	r.faults.Clear()
	r.writes.Take()
	result := r.reconcile(t, r.installation(r.home))
	if writes := r.ofInstallation(); !slices.Equal(writes, []string{"DELETE configmaps/former"}) || result.Err != nil || !result.Status.Ready {
		t.Errorf("%v were written: %v", writes, result.Err)
	}
	if !r.exists(t, foreign, "foreign") || r.exists(t, obsolete, "former") || len(r.soc.Status.Inventory) != len(objects) {
		t.Errorf("the inventory is %v", inventoryOf(r.soc))
	}
}

// What the removal of obsolete objects waits for does not affect the operator.
func TestPruningThatWaits(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.home, Name: "held", Labels: render.Labels(things()), Annotations: map[string]string{install.AnnotationOwner: r.home + "/soc"},
		Finalizers: []string{"example.com/wait"},
	}}
	apiserver.Must(t, r.server.Client.Create(t.Context(), held))
	apiserver.Must(t, r.server.Client.Delete(t.Context(), held))
	r.soc.Status.Inventory = append(r.soc.Status.Inventory, v2beta2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: r.home, Name: "held"})
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
	result := r.reconcile(t, r.installation(r.home))
	if expectReason(t, result.Err, v2beta2.ReasonTerminating, "waiting until ConfigMap"); !result.Status.Ready {
		t.Errorf("got %+v", result.Status)
	}
}

func TestOneNamespaceDoesNotAffectOthers(t *testing.T) {
	r := newRig(t)
	other := r.server.Namespace(t)
	apiserver.Must(t, r.server.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: operator + "-runtime"}}))
	results := r.Reconcile(t.Context(), []*install.Installation{r.installation(other), r.installation(r.home)})
	expectReason(t, results[0].Err, v2beta2.ReasonForeignObject, "runtime")
	if results[0].Applied || !results[1].Applied || results[1].Namespace != r.home {
		t.Errorf("got %+v", results)
	}
}

// A problem such as a withdrawn grant must not keep a replaced key in use.
func TestEndpointsAreUpdatedInAnyCase(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	i := r.installation(r.home)
	i.Endpoints = []render.Endpoint{{Name: "lpar1", Local: true}}
	i.Blocked = status.Waiting(v2beta2.ReasonCredentialsInvalid, status.Watched, "no credentials")
	result := r.reconcile(t, i)
	expectReason(t, result.Err, v2beta2.ReasonCredentialsInvalid, "no credentials")
	if writes := r.ofInstallation(); !slices.Equal(writes, objects[:1]) {
		t.Errorf("got %v", writes)
	}
}

// Each installation has a key of its own, which lasts.
func TestRecordKeyLasts(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	before, after := &corev1.Secret{}, &corev1.Secret{}
	r.exists(t, before, operator+"-endpoints")
	r.Memory = install.NewMemory()
	r.reconcile(t, r.installation(r.home))
	r.exists(t, after, operator+"-endpoints")
	if diff := cmp.Diff(before.Data, after.Data); diff != "" || len(before.Data["record.key"]) == 0 {
		t.Error(diff)
	}
	apiserver.Must(t, r.server.Client.Delete(t.Context(), after))
	r.reconcile(t, r.installation(r.home))
	again := &corev1.Secret{}
	if !r.exists(t, again, operator+"-endpoints") || cmp.Equal(before.Data["record.key"], again.Data["record.key"]) {
		t.Error("a new Secret has the old key")
	}
}

// A kind without a finalizer playbook would wait for ever.
func TestFinalizersAreReleasedOnceReady(t *testing.T) {
	r := newRig(t)
	r.reconcile(t, r.installation(r.home))
	thing, simple := r.resource(t, "Thing", "a", map[string]any{}, nil), r.resource(t, "Simple", "a", map[string]any{}, nil)
	r.reconcile(t, r.installation(r.home))
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(simple), simple))
	if len(simple.GetFinalizers()) == 0 {
		t.Error("it was released while old pods may add it again")
	}
	r.setAvailable(t, true)
	r.faults.Set("list Simple", errAway)
	if result := r.reconcile(t, r.installation(r.home)); !errors.Is(result.Err, errAway) || result.Status.Ready {
		t.Errorf("got %v", result.Err)
	}
	r.faults.Clear()
	r.reconcile(t, r.installation(r.home))
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(simple), simple))
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(thing), thing))
	if len(simple.GetFinalizers()) > 0 || len(thing.GetFinalizers()) != 1 {
		t.Errorf("got %v and %v", simple.GetFinalizers(), thing.GetFinalizers())
	}
}
