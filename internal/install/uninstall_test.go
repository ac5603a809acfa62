package install_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestUninstall(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	result := r.Uninstall(t.Context(), r.soc, r.home)
	expectReason(t, result.Err, v2beta2.ReasonTerminating, "waiting until Deployment")
	if result.Status == nil || result.Status.Ready || result.Status.RemovalTime == nil {
		t.Errorf("got %+v", result.Status)
	}
	if writes := r.ofInstallation(); !slices.Equal(writes, []string{"DELETE deployments/" + operator}) {
		t.Errorf("before the pods have ended: %v", writes)
	}
	if !r.exists(t, &corev1.Secret{}, operator+"-endpoints") || !install.Contains(r.soc, schema.GroupKind{Kind: "Secret"}, client.ObjectKey{Namespace: r.home, Name: operator + "-endpoints"}) {
		t.Error("the Secret is gone before the pods that use it")
	}
	r.Uninstall(t.Context(), r.soc, r.home)
	if writes := r.ofInstallation(); len(writes) > 0 {
		t.Errorf("while it waits: %v", writes)
	}
	r.endDeployment(t)
	if result := r.Uninstall(t.Context(), r.soc, r.home); result.Err != nil || result.Status != nil {
		t.Errorf("got %+v", result)
	}
	var want []string
	for _, written := range slices.Backward(objects[:6]) {
		want = append(want, strings.Replace(written, "PATCH", "DELETE", 1))
	}
	if writes := r.ofInstallation(); !slices.Equal(writes, want) {
		t.Errorf("got %v", writes)
	}
	if len(r.soc.Status.Inventory)+len(r.soc.Status.Installations) > 0 {
		t.Errorf("recorded: %v, %v", inventoryOf(r.soc), r.soc.Status.Installations)
	}
	r.expectEvent(t, "")
	if result := r.Uninstall(t.Context(), r.soc, r.home); result.Err != nil || len(r.ofInstallation()) > 0 {
		t.Errorf("once more: %v", result.Err)
	}
}

// A playbook that is cut off leaves z/OS as nobody knows.
func TestUninstallWaitsForRuns(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	thing := r.resource(t, "Thing", "a", map[string]any{}, running)
	for range 2 {
		result := r.Uninstall(t.Context(), r.soc, r.home)
		expectReason(t, result.Err, v2beta2.ReasonTerminating, "the operator is removed when these playbooks end: Thing "+r.home+"/a")
		if writes := r.ofInstallation(); len(writes) > 0 {
			t.Errorf("got %v", writes)
		}
	}
	r.faults.Set("list Thing", errAway)
	if result := r.Uninstall(t.Context(), r.soc, r.home); !errors.Is(result.Err, errAway) || result.Status == nil {
		t.Errorf("whether one runs is not known: %+v", result)
	}
	r.faults.Clear()

	// For ever it does not wait.
	since := metav1.NewTime(time.Now().Add(-intervals.RunGrace).Truncate(time.Second))
	r.soc.Status.Installations[0].RemovalTime = &since
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
	expectReason(t, r.Uninstall(t.Context(), r.soc, r.home).Err, v2beta2.ReasonTerminating, "waiting until Deployment")
	r.endDeployment(t)
	if result := r.Uninstall(t.Context(), r.soc, r.home); result.Err != nil {
		t.Errorf("got %v", result.Err)
	}
	r.expectEvent(t, "1 custom resources stay in namespace")
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(thing), thing))
	if phase, _, _ := unstructured.NestedString(thing.Object, "status", "phase"); phase != "NoOperator" || len(thing.GetFinalizers()) != 1 {
		t.Errorf("phase %q, finalizers %v", phase, thing.GetFinalizers())
	}
}

func TestUninstallIsRepeatedAfterAFailure(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, operator, errors.New("no"))
	for name, test := range map[string]struct {
		request string
		err     error
	}{
		"recording the time":                {"status SubOperatorConfig", errAway},
		"recording the time, in conflict":   {"status SubOperatorConfig", apierrors.NewConflict(schema.GroupResource{Resource: "x"}, "soc", errors.New("no"))},
		"finding the CRDs":                  {"list CustomResourceDefinition", errAway},
		"reading the Deployment":            {"get Deployment", errAway},
		"deleting the Deployment":           {"delete Deployment", forbidden},
		"deleting the Deployment, too late": {"delete Deployment", apierrors.NewTimeoutError("too late", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.installed(t)
			r.faults.Set(test.request, test.err)
			result := r.Uninstall(t.Context(), r.soc, r.home)
			if !errors.Is(result.Err, test.err) || result.Status == nil || result.Status.Namespace != r.home {
				t.Errorf("got %+v", result)
			}
			for _, write := range r.ofInstallation() {
				if strings.Contains(write, "secrets/") {
					t.Errorf("the Secret is gone before the Deployment: %s", write)
				}
			}
			r.faults.Clear()
			apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(r.soc), r.soc))
			if len(r.soc.Status.Installations) != 1 {
				t.Error("the record is gone")
			}
			expectReason(t, r.Uninstall(t.Context(), r.soc, r.home).Err, v2beta2.ReasonTerminating, "waiting until Deployment")
			r.endDeployment(t)
			if result := r.Uninstall(t.Context(), r.soc, r.home); result.Err != nil || len(r.soc.Status.Inventory) > 0 {
				t.Errorf("got %v, and there are still %v", result.Err, inventoryOf(r.soc))
			}
		})
	}
}

// An installation that failed in the middle leaves nothing.
func TestHalfMadeInstallationIsRemoved(t *testing.T) {
	r := newRig(t)
	r.faults.Set("apply Deployment", errAway)
	if result := r.reconcile(t, r.installation(r.home)); !errors.Is(result.Err, errAway) || len(r.ofInstallation()) != len(objects)-1 {
		t.Errorf("got %v", result.Err)
	}
	if result := r.Uninstall(t.Context(), r.soc, r.home); result.Err != nil || result.Status != nil || len(r.soc.Status.Inventory) > 0 {
		t.Errorf("got %v, and there are still %v", result.Err, inventoryOf(r.soc))
	}
	if writes := r.ofInstallation(); len(writes) != len(objects)-1 {
		t.Errorf("got %v", writes)
	}
}

// What others have made under a recorded name stays, as does what was taken out of the manager's hands.
func TestUninstallKeepsForeignObjects(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	deployment, secret := &appsv1.Deployment{}, &corev1.Secret{}
	if !r.exists(t, deployment, operator) || !r.exists(t, secret, operator+"-endpoints") {
		t.Fatal("it is not installed")
	}
	deployment.Annotations = nil
	secret.Labels = nil
	apiserver.Must(t, errors.Join(r.server.Client.Update(t.Context(), deployment), r.server.Client.Update(t.Context(), secret)))
	if result := r.Uninstall(t.Context(), r.soc, r.home); result.Err != nil || len(r.soc.Status.Inventory) > 0 {
		t.Errorf("got %v", result.Err)
	}
	if !r.exists(t, deployment, operator) || !r.exists(t, secret, operator+"-endpoints") || r.exists(t, &rbacv1.Role{}, operator) {
		t.Error("the wrong objects are gone")
	}
}

// A removed operator is reported also if its resources cannot be written or counted.
func TestWhatStaysIsReported(t *testing.T) {
	for name, test := range map[string]struct{ request, want string }{
		"in status, too":              {"", "Warning InstancesExist 2 custom resources stay in namespace"},
		"though it cannot be written": {"status Thing", "their status does not say so"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.installed(t)
			r.resource(t, "Thing", "a", map[string]any{}, nil)
			deleted := r.resource(t, "Thing", "b", map[string]any{}, nil)
			apiserver.Must(t, r.server.Client.Delete(t.Context(), deleted))
			r.Uninstall(t.Context(), r.soc, r.home)
			r.endDeployment(t)
			if test.request != "" {
				r.faults.Set(test.request, errAway)
			}
			if result := r.Uninstall(t.Context(), r.soc, r.home); result.Err != nil || result.Status != nil {
				t.Errorf("got %+v", result)
			}
			r.expectEvent(t, test.want)
		})
	}
}

// The operator of another method goes first: two in one namespace would run the same playbooks at once.
func TestOperatorOfTheOtherMethodIsRemovedFirst(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: operator}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("pod_1")}}
	apiserver.Must(t, r.server.Client.Create(t.Context(), lease))
	thing := r.resource(t, "Thing", "a", map[string]any{}, running)
	r.soc.Status.Installations[0].Install = v2beta2.InstallOLM
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
	changed := r.installation(r.home)
	changed.Collection.Description = "changed"

	r.faults.Set("patch Lease", errAway)
	if result := r.reconcile(t, changed); !errors.Is(result.Err, errAway) {
		t.Errorf("got %v", result.Err)
	}
	r.faults.Clear()
	expectReason(t, r.reconcile(t, changed).Err, v2beta2.ReasonTerminating, "no further playbook is started")
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(lease), lease))
	if len(lease.Annotations) == 0 {
		t.Error("the operator may start runs")
	}
	expectReason(t, r.reconcile(t, changed).Err, v2beta2.ReasonTerminating, "the operator is removed when these playbooks end")
	unstructured.RemoveNestedField(thing.Object, "status", "conditions")
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), thing))

	r.olm.gone = false
	expectReason(t, r.reconcile(t, changed).Err, v2beta2.ReasonTerminating, "waiting until OLM has removed the operator")
	r.olm.err = errAway
	if result := r.reconcile(t, changed); !errors.Is(result.Err, errAway) || result.Applied {
		t.Errorf("got %v", result.Err)
	}
	if writes := r.ofInstallation(); slices.ContainsFunc(writes, func(write string) bool { return strings.HasPrefix(write, "PATCH deployments") }) {
		t.Errorf("a second operator is there: %v", writes)
	}
	r.olm.gone, r.olm.err = true, nil
	if result := r.reconcile(t, changed); !result.Applied || result.Status.Install != v2beta2.InstallDirect || r.olm.removed != 3 {
		t.Errorf("got %+v: %v", result.Status, result.Err)
	}
}

// What OLM has made for a Subscription goes with it.
func TestUninstallOfASubscription(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	r.soc.Status.Installations[0].Install = v2beta2.InstallOLM
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
	r.olm.available, r.olm.gone = true, false
	expectReason(t, r.Uninstall(t.Context(), r.soc, r.home).Err, v2beta2.ReasonTerminating, "waiting until OLM has removed the operator")
	if writes := r.ofInstallation(); len(writes) > 0 {
		t.Errorf("what its pods need is gone first: %v", writes)
	}
	subscription := v2beta2.ObjectReference{APIVersion: operatorsv1alpha1.SubscriptionCRDAPIVersion, Kind: operatorsv1alpha1.SubscriptionKind, Namespace: r.home, Name: operator}
	r.soc.Status.Inventory = append(r.soc.Status.Inventory, subscription)
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
	expectReason(t, r.Uninstall(t.Context(), r.soc, r.home).Err, v2beta2.ReasonTerminating, "waiting until Subscription")
	if writes := r.ofInstallation(); len(writes) > 0 || r.olm.removed != 2 {
		t.Errorf("what its pods need is gone first: %v", writes)
	}
	r.olm.gone = true
	expectReason(t, r.Uninstall(t.Context(), r.soc, r.home).Err, v2beta2.ReasonTerminating, "waiting until Deployment")
	r.endDeployment(t)
	if result := r.Uninstall(t.Context(), r.soc, r.home); result.Err != nil {
		t.Errorf("got %v", result.Err)
	}
}

// The collection that replaces another one takes over the key of its records, and nothing else.
func TestHandOver(t *testing.T) {
	r := newRig(t)
	i := r.installation(r.home)
	i.Endpoints = []render.Endpoint{{Name: "lpar1", Local: true}}
	r.reconcile(t, i)
	key := &corev1.Secret{}
	r.exists(t, key, operator+"-endpoints")
	r.HandOver(t.Context(), r.soc, r.home)
	r.endDeployment(t)
	r.faults.Set("update Secret", errAway)
	if result := r.HandOver(t.Context(), r.soc, r.home); !errors.Is(result.Err, errAway) {
		t.Errorf("got %v", result.Err)
	}
	r.faults.Clear()
	r.resource(t, "Thing", "a", map[string]any{}, nil)
	if result := r.HandOver(t.Context(), r.soc, r.home); result.Err != nil || len(r.soc.Status.Inventory) > 0 {
		t.Errorf("got %v, and %v", result.Err, inventoryOf(r.soc))
	}
	r.expectEvent(t, "for the collection that replaces acme/things")
	left := &corev1.Secret{}
	if !r.exists(t, left, operator+"-endpoints") || len(left.Data) != 2 || string(left.Data["record.key"]) != string(key.Data["record.key"]) {
		t.Fatalf("what is left: %v", left.Data)
	}

	// A SubOperatorConfig of another namespace does not get it.
	successor := r.installation(r.home)
	successor.Collection.Name, successor.Collection.Replaces = "objects", model.ID{Domain: "acme", Name: "things"}
	stranger, strangers := newRig(t), *successor
	strangers.Owner = stranger.soc
	stranger.Reconcile(t.Context(), []*install.Installation{&strangers})
	made := &corev1.Secret{}
	if name := successor.Collection.OperatorName() + "-endpoints"; !r.exists(t, made, name) || string(made.Data["record.key"]) == string(key.Data["record.key"]) {
		t.Error("a stranger has the key")
	}
	apiserver.Must(t, r.server.Client.Delete(t.Context(), made))
	for _, kind := range []client.Object{
		&appsv1.Deployment{}, &corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &networkingv1.NetworkPolicy{}, &corev1.ConfigMap{},
	} {
		apiserver.Must(t, r.server.Client.DeleteAllOf(t.Context(), kind, client.InNamespace(r.home), client.MatchingLabels(render.Labels(successor.Collection))))
	}

	r.soc.Status = v2beta2.SubOperatorConfigStatus{}
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), r.soc))
	r.Reconcile(t.Context(), []*install.Installation{successor})
	if name := successor.Collection.OperatorName() + "-endpoints"; !r.exists(t, made, name) || string(made.Data["record.key"]) != string(key.Data["record.key"]) {
		t.Error("the successor does not have the key")
	}
}

// An operator of a user's Subscription may still be there.
func TestSuccessorWaitsForTheReplacedOperator(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	successor := r.installation(r.home)
	successor.Collection.Name, successor.Collection.Replaces = "objects", model.ID{Domain: "acme", Name: "things"}
	r.soc.Status.Installations = nil
	result := r.Reconcile(t.Context(), []*install.Installation{successor})[0]
	if expectReason(t, result.Err, v2beta2.ReasonReplaced, `waiting until Deployment "`+operator+`"`); result.Applied {
		t.Error("two operators are there")
	}
	r.faults.Set("get Deployment", errAway)
	if result := r.Reconcile(t.Context(), []*install.Installation{successor})[0]; !errors.Is(result.Err, errAway) {
		t.Errorf("got %v", result.Err)
	}
}

// An operator that is kept is as it is, and its custom resources say so when it is gone.
func TestKeep(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	thing := r.resource(t, "Thing", "a", map[string]any{}, nil)
	if result := r.Keep(t.Context(), r.soc, r.home); result.Err != nil || !result.Status.Ready {
		t.Errorf("it is available: %v", result.Err)
	}
	r.setAvailable(t, false)
	result := r.Keep(t.Context(), r.soc, r.home)
	if expectReason(t, result.Err, v2beta2.ReasonProgressing, "is not available"); result.Status.Ready {
		t.Error("it is ready")
	}
	r.hidden["Deployment "+operator] = true
	expectReason(t, r.Keep(t.Context(), r.soc, r.home).Err, v2beta2.ReasonProgressing, "is not available")
	r.faults.Set("get Deployment", errAway)
	if result := r.Keep(t.Context(), r.soc, r.home); !errors.Is(result.Err, errAway) {
		t.Errorf("got %v", result.Err)
	}
	r.faults.Clear()
	apiserver.Must(t, r.server.Client.Delete(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: operator}}))
	result = r.Keep(t.Context(), r.soc, r.home)
	expectReason(t, result.Err, v2beta2.ReasonWorkloadUnavailable, "so no playbook runs for Thing "+r.home+"/a")
	if !errors.Is(result.Err, install.ErrNoDeployment) {
		t.Errorf("got %v", result.Err)
	}
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(thing), thing))
	if phase, _, _ := unstructured.NestedString(thing.Object, "status", "phase"); phase != "NoOperator" {
		t.Errorf("phase %q", phase)
	}
	thing.SetFinalizers(nil)
	apiserver.Must(t, r.server.Client.Update(t.Context(), thing))
	apiserver.Must(t, r.server.Client.Delete(t.Context(), thing))
	expectReason(t, r.Keep(t.Context(), r.soc, r.home).Err, v2beta2.ReasonWorkloadUnavailable, "does not exist")
}

// Earlier versions set owner references, which the garbage collector follows before finalizers have run.
func TestRemoveOwners(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	owner := metav1.OwnerReference{APIVersion: v2beta2.GroupVersion.String(), Kind: "SubOperatorConfig", Name: "soc", UID: r.soc.UID}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "other"}
	deployment := &appsv1.Deployment{}
	r.exists(t, deployment, operator)
	deployment.OwnerReferences = []metav1.OwnerReference{owner, other}
	apiserver.Must(t, r.server.Client.Update(t.Context(), deployment))
	r.faults.Set("patch Deployment", errAway)
	if err := r.RemoveOwners(t.Context(), r.soc); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	r.faults.Clear()
	apiserver.Must(t, r.RemoveOwners(t.Context(), r.soc))
	if writes := r.ofInstallation(); !slices.Equal(writes, []string{"PATCH deployments/" + operator}) {
		t.Errorf("got %v", writes)
	}
	r.exists(t, deployment, operator)
	if len(deployment.OwnerReferences) != 1 || deployment.OwnerReferences[0].UID != "other" {
		t.Errorf("got %v", deployment.OwnerReferences)
	}
	r.faults.Set("get Deployment", errAway)
	if err := r.RemoveOwners(t.Context(), r.soc); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
}

// Operators keep the authorities that they have while the manager does not know others.
func TestTrustedAuthoritiesAreKept(t *testing.T) {
	r := newRig(t)
	r.Settings.TrustedAuthorities = "authorities"
	r.installed(t)
	r.Settings.TrustedAuthorities, r.KeepTrusted = "", true
	if result := r.reconcile(t, r.installation(r.home)); result.Err != nil || len(r.ofInstallation()) > 0 {
		t.Errorf("the authorities were written: %v", result.Err)
	}
	r.faults.Set("get ConfigMap", errAway)
	if result := r.reconcile(t, r.installation(r.home)); !errors.Is(result.Err, errAway) {
		t.Errorf("got %v", result.Err)
	}
}

// An earlier manager asked for no label on Secrets: those that living resources name are kept.
func TestSecretsInUseAreKept(t *testing.T) {
	r := newRig(t)
	r.installed(t)
	for _, name := range []string{"used", "unused"} {
		apiserver.Must(t, r.server.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: r.home, Name: name}}))
	}
	r.resource(t, "Thing", "a", map[string]any{"secret": "used"}, nil)
	r.resource(t, "Thing", "b", map[string]any{"secret": "absent"}, nil)
	r.resource(t, "Thing", "c", map[string]any{"secret": operator + "-endpoints"}, nil)
	secret := &corev1.Secret{}
	r.exists(t, secret, operator+"-endpoints")
	delete(secret.Data, "kept-secrets")
	apiserver.Must(t, r.server.Client.Update(t.Context(), secret))
	r.Memory = install.NewMemory()
	r.faults.Set("list Thing", errAway)
	result := r.reconcile(t, r.installation(r.home))
	if !errors.Is(result.Err, errAway) || !strings.Contains(result.Err.Error(), "which Secrets resources use") {
		t.Errorf("got %v", result.Err)
	}
	r.faults.Clear()
	r.reconcile(t, r.installation(r.home))
	r.exists(t, secret, operator+"-endpoints")
	if got := string(secret.Data["kept-secrets"]); strings.TrimSpace(got) != `["used"]` {
		t.Errorf("got %s", got)
	}
}
