package operands_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/operandregistry"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// reportRegistry reconciles the OperandRegistry tools, and reads it and its OperandConfig again.
func (s *tools) reportRegistry(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	result, err := (&operandregistry.Reconciler{Client: s.Client}).Reconcile(ofTestContext(t), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.config)})
	*s.registry, *s.config = v1alpha1.OperandRegistry{ObjectMeta: keyOf(s.registry)}, v1alpha1.OperandConfig{ObjectMeta: keyOf(s.config)}
	apiserver.Must(t, client.IgnoreNotFound(s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(s.registry), s.registry)))
	apiserver.Must(t, client.IgnoreNotFound(s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(s.config), s.config)))
	return result, err
}

func keyOf(of client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: of.GetNamespace(), Name: of.GetName()}
}

// expectStatus reports, and expects the phases of the OperandRegistry and the OperandConfig, and that of the resource.
func (s *tools) expectStatus(t *testing.T, registry, config, resource string) {
	t.Helper()
	_, err := s.reportRegistry(t)
	apiserver.Must(t, err)
	if s.registry.Status.Phase != registry || s.config.Status.Phase != config || s.config.Status.ServiceStatus["files"].CustomResourceStatus["dataFile"] != resource {
		t.Errorf("got %+v and %+v", s.registry.Status, s.config.Status)
	}
	if s.registry.Status.ObservedGeneration != s.registry.Generation || s.config.Status.ObservedGeneration != s.config.Generation {
		t.Error("the status is of another generation")
	}
}

func TestStatusOfARegistry(t *testing.T) {
	s := newTools(t)
	s.expectStatus(t, v1alpha1.RegistryReady, v1alpha1.ConfigInitialized, "")
	first := s.request(t, s.home, "first", files)
	s.expectStatus(t, v1alpha1.RegistryRunning, v1alpha1.ConfigCreating, v1alpha1.ConfigCreating)
	s.fails(t, first, v1alpha1.ReasonOperatorNotReady, "")
	s.expectStatus(t, v1alpha1.RegistryRunning, v1alpha1.ConfigCreating, v1alpha1.ConfigCreating)
	if of := s.registry.Status.OperatorsStatus["files"]; of.Phase != v1alpha1.OperatorInstalling || len(of.ReconcileRequests) != 1 || of.ReconcileRequests[0].Name != "first" {
		t.Errorf("got %+v", of)
	}
	s.run(t, first)
	second := s.running(t, s.newTeam(t), "second", files)
	s.expectStatus(t, v1alpha1.RegistryRunning, v1alpha1.ConfigRunning, v1alpha1.ConfigRunning)
	if of := s.registry.Status.OperatorsStatus["files"]; of.Phase != v1alpha1.OperatorRunning || len(of.ReconcileRequests) != 2 {
		t.Errorf("got %+v", of)
	}
	s.writes.Take()
	if s.expectStatus(t, v1alpha1.RegistryRunning, v1alpha1.ConfigRunning, v1alpha1.ConfigRunning); len(s.writes.Take()) > 0 {
		t.Error("nothing has changed, and something was written")
	}
	s.delete(t, first, second) // They have not ended yet.
	s.expectStatus(t, v1alpha1.RegistryReady, v1alpha1.ConfigInitialized, "")
}

func TestStatusOfARegistryWithProblems(t *testing.T) {
	s := newTools(t)
	s.theirs(t, "")
	s.fails(t, s.request(t, s.home, "request", files, "{name: unknown}"), v2beta2.ReasonForeignObject, "")
	s.expectStatus(t, v1alpha1.RegistryRunning, v1alpha1.ConfigFailed, v1alpha1.ConfigFailed)
	if len(s.registry.Status.OperatorsStatus) != 1 {
		t.Errorf("got %+v", s.registry.Status)
	}
	s.patch(t, s.config, "{spec: {services: [{name: files, spec: {misspelt: {}}}]}}")
	s.expectStatus(t, v1alpha1.RegistryRunning, v1alpha1.ConfigFailed, "")
	s.patch(t, s.registry, "{spec: {operators: [{name: files, collection: {name: missing}, scope: private}]}}")
	s.request(t, s.newTeam(t), "outside", files)
	s.expectStatus(t, v1alpha1.RegistryRunning, v1alpha1.ConfigInitialized, "")
	if of := s.registry.Status.OperatorsStatus["files"]; len(of.ReconcileRequests) != 1 {
		t.Errorf("those who may not request it: %+v", of)
	}
}

// What is being deleted, or gone, gets no status.
func TestRegistryThatGoes(t *testing.T) {
	s := newTools(t)
	s.hold(t, s.registry)
	s.hold(t, s.config)
	s.delete(t, s.registry, s.config)
	s.writes.Take()
	_, err := s.reportRegistry(t)
	apiserver.Must(t, err)
	s.release(t, s.registry)
	s.release(t, s.config)
	_, err = s.reportRegistry(t)
	apiserver.Must(t, err)
	if writes := s.writes.Take(); len(writes) > 0 {
		t.Errorf("it writes %q", writes)
	}
}

func TestErrorsOfARegistry(t *testing.T) {
	for _, what := range []string{
		"cached OperandRegistry", "cached OperandRequest", "status OperandRegistry", "status OperandConfig", "status OperandBindInfo", "patch OperandBindInfo",
	} {
		t.Run(what, func(t *testing.T) {
			s := newTools(t)
			s.withBindings(t, "{public: {secret: admin}}")
			former := &v1alpha1.OperandBindInfo{}
			s.create(t, former, s.home, "former", "{metadata: {finalizers: [finalizer.bindinfo.ibm.com]}, spec: {operand: files, registry: tools}}")
			s.faults.Set(what, errAway)
			if _, err := s.reportRegistry(t); !errors.Is(err, errAway) {
				t.Errorf("got %v", err)
			}
			if strings.HasPrefix(what, "cached") {
				return
			}
			s.faults.Set(what, apierrors.NewConflict(schema.GroupResource{}, "a", errAway))
			result, err := s.reportRegistry(t)
			if apiserver.Must(t, err); result.RequeueAfter != intervals.Conflict {
				t.Errorf("again after %s", result.RequeueAfter)
			}
			s.faults.Set(what, apierrors.NewNotFound(schema.GroupResource{}, "a"))
			_, err = s.reportRegistry(t)
			apiserver.Must(t, err)
		})
	}
}

func TestStatusOfAnOperandBindInfo(t *testing.T) {
	s := newTools(t)
	source := s.withBindings(t, "{public: {secret: admin}}")
	elsewhere, info := s.server.Namespace(t), &v1alpha1.OperandBindInfo{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: "info"}}
	lost := &v1alpha1.OperandBindInfo{}
	s.create(t, lost, elsewhere, "info", "{spec: {operand: files, registry: tools, registryNamespace: "+s.home+", bindings: {public: {secret: admin}}}}")
	expect := func(info *v1alpha1.OperandBindInfo, phase string, namespaces int) {
		t.Helper()
		_, err := s.reportRegistry(t)
		apiserver.Must(t, err)
		if s.exists(t, info); info.Status.Phase != phase || len(info.Status.RequestNamespaces) != namespaces || info.Status.ObservedGeneration != info.Generation {
			t.Errorf("got %+v", info.Status)
		}
	}
	expect(info, v1alpha1.BindInfoInitialized, 0)
	expect(lost, v1alpha1.BindInfoFailed, 0)
	if !strings.Contains(lost.Status.Message, "create the OperandBindInfo there") {
		t.Errorf("got %+v", lost.Status)
	}
	team := s.newTeam(t)
	request := s.request(t, team, "request", files)
	expect(info, v1alpha1.BindInfoWaiting, 0)
	s.run(t, request)
	s.running(t, s.home, "inside", files)
	expect(info, v1alpha1.BindInfoCompleted, 1)
	s.expectSecret(t, team, "info-admin", "first")
	apiserver.Must(t, s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(source), &corev1.Secret{}))
}

// The finalizer of the Operand Deployment Lifecycle Manager would keep an OperandBindInfo for ever.
func TestFinalizerOfAnOperandBindInfo(t *testing.T) {
	s := newTools(t)
	info := &v1alpha1.OperandBindInfo{}
	s.create(t, info, s.home, "info", "{metadata: {finalizers: [finalizer.bindinfo.ibm.com, example.com/test]}, spec: {operand: files, registry: tools}}")
	s.delete(t, info)
	for range 2 {
		_, err := s.reportRegistry(t)
		apiserver.Must(t, err)
		apiserver.Must(t, s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(info), info))
		if len(info.Finalizers) != 1 || info.Status.Phase != "" {
			t.Errorf("finalizers %q, status %+v", info.Finalizers, info.Status)
		}
	}
}

// An example of a package that was created is part of the status.
func TestStatusOfTheConfigOfAPackage(t *testing.T) {
	s := newCI(t)
	s.running(t, s.home, "request", jenkins)
	_, err := (&operandregistry.Reconciler{Client: s.Client}).Reconcile(ofTestContext(t), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.config)})
	apiserver.Must(t, err)
	if s.exists(t, s.config); s.config.Status.Phase != v1alpha1.ConfigRunning || len(s.config.Status.ServiceStatus["jenkins"].CustomResourceStatus) != 1 {
		t.Errorf("got %+v", s.config.Status)
	}
}

func TestDefaults(t *testing.T) {
	s := newRig(t)
	defaults := &cluster.Defaults{Client: s.server.NewClient(t, s.writes.Of(s.server.Config)), Namespace: s.home}
	for _, want := range []int{2, 0} {
		apiserver.Must(t, defaults.Start(t.Context()))
		if writes := s.writes.Take(); len(writes) != want {
			t.Errorf("it writes %q", writes)
		}
	}
	registry, config := &v1alpha1.OperandRegistry{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: "default"}}, &v1alpha1.OperandConfig{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: "default"}}
	if !s.exists(t, registry) || !s.exists(t, config) {
		t.Error("they do not exist")
	}
	if err := (&cluster.Defaults{Client: defaults.Client, Namespace: "missing"}).Start(t.Context()); err == nil || !strings.Contains(err.Error(), "creating the default *v1alpha1.OperandRegistry") {
		t.Errorf("got %v", err)
	}
}
