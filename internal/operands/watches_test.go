package operands_test

import (
	"context"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/operandregistry"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// newWatchingRig returns a rig whose manager runs. Its controller reconciles nothing: it says which request is to be reconciled.
func newWatchingRig(t *testing.T) *rig {
	t.Helper()
	r := prepareRig(t)
	mgr := r.newManager(t)
	apiserver.Must(t, r.SetupWithManager(mgr))
	apiserver.Must(t, (&operandregistry.Reconciler{Client: r.server.Client}).SetupWithManager(mgr))
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	probe := r.request(t, r.home, "probe", "{name: unknown}")
	r.expectAsked(t, "a new request", probe)
	r.delete(t, probe)
	return r
}

// expectAsked waits until the controller has asked for a request since the last call.
func (r *rig) expectAsked(t *testing.T, after string, request *v1alpha1.OperandRequest) {
	t.Helper()
	key := client.ObjectKeyFromObject(request)
	apiserver.Await(t, after, func() bool {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		return r.asked[key] > 0
	})
}

// forget forgets what the controller has asked for.
func (r *rig) forget() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	clear(r.asked)
}

func TestWatches(t *testing.T) {
	s := toolsOf(t, newWatchingRig(t))
	source := s.withBindings(t, "{public: {secret: admin}}")
	team := s.newTeam(t)
	request := s.request(t, team, "request", files, own)
	_, err := s.reconcile(t, request)
	apiserver.Must(t, err)
	s.manage(t)
	_, err = s.reconcile(t, request)
	apiserver.Must(t, err)
	result, err := s.reconcile(t, request)
	apiserver.Must(t, err)
	expectPhase(t, request, v1alpha1.RequestRunning)
	if result.RequeueAfter != 0 {
		t.Errorf("it polls after %s", result.RequeueAfter)
	}
	info := &v1alpha1.OperandBindInfo{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: "info"}}
	for what, change := range map[string]func(){
		"the OperandRequest":        func() { s.wants(t, request.DeepCopy(), files, own, "{name: more}") },
		"the OperandRegistry":       func() { s.patch(t, s.registry, "{spec: {touched: now}}") },
		"the OperandConfig":         func() { s.configure(t, "{size: 9}") },
		"the OperandBindInfo":       func() { s.patch(t, info, "{spec: {description: other}}") },
		"the OperatorCollection":    func() { s.patch(t, s.oc, "{metadata: {labels: {a: b}}}") },
		"the SubOperatorConfig":     func() { s.patch(t, s.soc, "{metadata: {labels: {a: b}}}") },
		"a resource of the request": func() { s.reports(t, dataFile(team, "own"), "Ready", "False", "later") },
		"a resource that is shared": func() { s.reports(t, s.shared(), "Ready", "False", "later") },
		"the source of a copy":      func() { s.patch(t, source, "{stringData: {password: second}}") },
		"a copy": func() {
			s.delete(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "info-admin"}})
		},
		"a resource of somebody else": func() { apiserver.Must(t, s.server.Client.Create(t.Context(), dataFile(team, "theirs"))) },
	} {
		s.forget()
		change()
		s.expectAsked(t, what, request)
	}
	apiserver.Await(t, "the status of the OperandRegistry follows", func() bool {
		s.exists(t, s.registry)
		return len(s.registry.Status.OperatorsStatus["files"].ReconcileRequests) == 1
	})
	s.delete(t, s.registry)
	s.forget()
	s.patch(t, s.soc, "{metadata: {labels: {a: c}}}")
	s.expectAsked(t, "the SubOperatorConfig of a mapping, without OperandRegistry", request)
	s.delete(t, dataFile(team, "theirs"), request)
	_, err = s.reconcile(t, request)
	apiserver.Must(t, err)
	s.manage(t)
	s.ends(t, request)
}

// What cannot be watched is tried again a second after the watch has begun, and polled each minute.
func TestWatchesOfPackages(t *testing.T) {
	s := newCI(t)
	watching := newWatchingRig(t)
	watching.home, s.rig = s.home, watching
	request := s.request(t, s.home, "request", jenkins)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "OLM installs")
	s.installs(t, "1.0.0", "Installing")
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "Installing")
	s.forget()
	s.reportsPhase(t, "Succeeded")
	s.expectAsked(t, "the ClusterServiceVersion", request)
	s.forget()
	s.patch(t, s.subscription, fmt.Sprintf("{metadata: {labels: {%s: 'false'}}}", v1alpha1.LabelKeep))
	s.expectAsked(t, "the Subscription", request)
	s.runs(t, request)
}
