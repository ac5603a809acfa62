package operands_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestRequestBringsOperatorAndResources(t *testing.T) {
	s := newTools(t)
	team := s.newTeam(t)
	request := s.request(t, team, "request", files, own)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, fmt.Sprintf(`SubOperatorConfig "%s/soc" installs the operator in namespace %q`, s.home, s.home))
	expectPhase(t, request, v1alpha1.RequestInstalling)
	s.expectMapped(t, s.home, team)
	if !slices.Contains(request.Finalizers, v1alpha1.FinalizerRequest) || request.Status.ObservedGeneration != request.Generation {
		t.Errorf("finalizers %q, generation %d", request.Finalizers, request.Status.ObservedGeneration)
	}
	want := []string{
		fmt.Sprintf("Operator SubOperatorConfig %s/soc for %s", s.home, s.home), fmt.Sprintf("Operator SubOperatorConfig %s/soc for %s", s.home, team),
		fmt.Sprintf("Config DataFile %s/files", s.home), fmt.Sprintf("Request DataFile %s/own", team),
	}
	if got := inventoryOf(request); !slices.Equal(got, want) {
		t.Errorf("the inventory is %q, want %q", got, want)
	}
	if writes := s.writes.Take(); len(ofObjects(writes, "/datafiles")) > 0 {
		t.Errorf("resources are written before the operator runs: %q", writes)
	}
	if member := request.Status.Members[0]; member.Phase.OperatorPhase != v1alpha1.OperatorInstalling || member.Phase.OperandPhase != v1alpha1.OperandCreating || member.Message == "" {
		t.Errorf("the member is %+v", member)
	}
	s.manage(t)
	s.runs(t, request)
	if spec := s.specOf(t, s.shared()); spec["size"] != int64(5) || spec["note"] != "a" {
		t.Errorf("got %v", spec)
	}
	created := dataFile(team, "own")
	if spec := s.specOf(t, created); spec["size"] != int64(8) {
		t.Errorf("got %v", spec)
	}
	if created.GetLabels()[v1alpha1.LabelControl] != "true" || created.GetAnnotations()[v1alpha1.AnnotationOperand] != s.home+"/tools/files/"+team+"/request" {
		t.Errorf("labels %v, annotations %v", created.GetLabels(), created.GetAnnotations())
	}
	member := request.Status.Members[0]
	if len(request.Status.Members) != 1 || member.Phase != (v1alpha1.MemberPhase{OperatorPhase: v1alpha1.OperatorRunning, OperandPhase: v1alpha1.OperandRunning}) ||
		member.Message != "" || len(member.OperandCRList) != 1 || member.OperandCRList[0].Name != "own" || request.Status.Inventory[3].UID != string(created.GetUID()) {
		t.Errorf("got %+v", request.Status)
	}
	expectEvents(t, s.rig, "Warning OperatorNotReady", "Normal Succeeded 1 operands are running")
}

// expectEvents expects as many events, with these texts.
func expectEvents(t *testing.T, r *rig, texts ...string) {
	t.Helper()
	var got []string
	for len(r.events) > 0 {
		got = append(got, <-r.events)
	}
	if len(got) != len(texts) {
		t.Errorf("the events are %q, want %q", got, texts)
	}
	for i := range min(len(got), len(texts)) {
		if !strings.Contains(got[i], texts[i]) {
			t.Errorf("event %d is %q, want %s", i+1, got[i], texts[i])
		}
	}
}

func TestNothingIsWrittenWhileNothingChanges(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files, own)
	result, err := s.reconcile(t, request)
	apiserver.Must(t, err)
	if writes := s.writes.Take(); len(writes) > 0 {
		t.Errorf("it writes %q", writes)
	}
	if result.RequeueAfter != intervals.Missing {
		t.Errorf("what cannot be watched is polled after %s", result.RequeueAfter)
	}
}

func TestRequestThatIsNotOurs(t *testing.T) {
	s := newTools(t)
	request := s.request(t, s.home, "request", files)
	s.hold(t, request)
	s.delete(t, request)
	_, err := s.reconcile(t, request)
	apiserver.Must(t, err)
	s.release(t, request)
	s.ends(t, request)
	s.faults.Set("get OperandRequest", errAway)
	if _, err := s.reconcile(t, request); err == nil {
		t.Error("a request that cannot be read counts as gone")
	}
	if writes := s.writes.Take(); len(writes) > 0 {
		t.Errorf("it writes %q", writes)
	}
}

// Each request of a reconciliation can fail, before or after it was carried out. What remains to be done is done later, and nothing twice.
func TestFailureOfEachRequest(t *testing.T) {
	for lost, least := range map[bool]int{false: 18, true: 6} {
		t.Run(fmt.Sprintf("lost=%t", lost), func(t *testing.T) {
			s := newTools(t)
			team := s.newTeam(t)
			s.failed, s.lost = map[string]bool{}, lost
			request := s.request(t, team, "request", own)
			s.settles(t, request, func() bool { return meta.IsStatusConditionTrue(request.Status.Conditions, v2beta2.ConditionReady) })
			s.delete(t, request)
			s.settles(t, request, func() bool { return request.UID == "" })
			s.expectMapped(t)
			writes := s.writes.Take()
			for _, write := range []string{"POST " + pathOf(team, ""), "DELETE " + pathOf(team, "own")} {
				if n := len(slices.DeleteFunc(slices.Clone(writes), func(w string) bool { return w != write })); n != 1 {
					t.Errorf("%d times %s", n, write)
				}
			}
			if len(s.failed) < least {
				t.Errorf("only these have failed: %q", slices.Sorted(maps.Keys(s.failed)))
			}
		})
	}
}

// settles reconciles a request until it is done.
func (s *tools) settles(t *testing.T, request *v1alpha1.OperandRequest, done func() bool) {
	t.Helper()
	for range 50 {
		_, _ = s.reconcile(t, request) // Whether it fails does not matter: it ends.
		s.manage(t)
		if done() {
			return
		}
	}
	t.Fatalf("it does not end: %+v", request.Status)
}

// pathOf returns the path of a resource, or without a name that of all in a namespace.
func pathOf(namespace, name string) string {
	return strings.TrimSuffix("/apis/suboperator.zoscb.ibm.com/v1/namespaces/"+namespace+"/datafiles/"+name, "/")
}

func TestErrorsOfSteps(t *testing.T) {
	for what, test := range map[string]struct {
		text string
		// written is part of the paths of what must not be written.
		written string
	}{
		"patch OperandRequest":         {"adding the finalizer", "/suboperatorconfigs"},
		"cached OperandRegistry":       {"listing *v1alpha1.OperandRegistryList", "/suboperatorconfigs"},
		"cached OperandBindInfo":       {"listing *v1alpha1.OperandBindInfoList", "/suboperatorconfigs"},
		"cached SubOperatorConfig":     {"listing SubOperatorConfigs", "/suboperatorconfigs"},
		"list OperandRequest":          {"listing OperandRequests", "/suboperatorconfigs"},
		"get Namespace":                {"reading namespace", "/datafiles"},
		"get DataFile own":             {"own", "/datafiles"},
		"apply SubOperatorConfig soc":  {"SubOperatorConfig", "/datafiles"},
		"cached OperatorCollection":    {"listing *v2beta2.OperatorCollectionList", "/suboperatorconfigs"},
		"cached OperandConfig":         {"listing *v1alpha1.OperandConfigList", "/suboperatorconfigs"},
		"create DataFile own":          {"own", "/nothing"},
		"patch DataFile own":           {"own", "/nothing"},
		"get OperandRequest something": {"", "/nothing"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newTools(t)
			team := s.newTeam(t)
			request := s.request(t, team, "request", own)
			if strings.Contains(what, " DataFile ") {
				s.report(t, v2beta2.InstallationStatus{Namespace: team, Digest: "sha256:1", Ready: true})
			}
			s.faults.Set(what, errAway)
			_, err := s.reconcile(t, request)
			if test.text == "" {
				apiserver.Must(t, err)
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v", err)
			}
			expectReady(t, request, metav1.ConditionFalse, v2beta2.ReasonUnexpectedError, test.text)
			if writes := ofObjects(s.writes.Take(), test.written); len(writes) > 0 {
				t.Errorf("it writes %q", writes)
			}
			s.faults.Set(what, nil)
			s.run(t, request)
		})
	}
}

// Nothing is created that is not in the inventory: after a crash it would be left behind.
func TestNothingIsCreatedBeforeItIsRecorded(t *testing.T) {
	s := newTools(t)
	request := s.request(t, s.home, "request", files, own)
	for name, errStatus := range map[string]error{"failure": errAway, "conflict": apierrors.NewConflict(schema.GroupResource{Resource: "operandrequests"}, "request", errAway)} {
		s.faults.Set("status OperandRequest", errStatus)
		result, err := s.reconcile(t, request)
		if isConflict := name == "conflict"; (err == nil) != isConflict || isConflict && result.RequeueAfter != intervals.Conflict {
			t.Errorf("%s: again after %s, %v", name, result.RequeueAfter, err)
		}
	}
	s.expectMapped(t)
	s.faults.Set("status OperandRequest", nil)
	s.run(t, request)
}

// A change of the request while it is reconciled is not overwritten, and comes next.
func TestRequestChangesMeanwhile(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.patch(t, s.config, "{spec: {services: [{name: files, spec: {dataFile: {zosendpoint: lpar1, size: 6}}}]}}")
	s.reports(t, s.shared(), "Ready", "False", "not yet")
	s.faults.Before("status OperandRequest", func() { s.wants(t, request.DeepCopy(), files, own) })
	result, err := s.reconcile(t, request)
	apiserver.Must(t, err)
	if result.RequeueAfter != intervals.Conflict || len(request.Spec.Requests[0].Operands) != 2 {
		t.Errorf("again after %s, %+v", result.RequeueAfter, request.Spec)
	}
	s.reports(t, s.shared(), "Ready", "True", "done")
	s.runs(t, request)
	if !s.exists(t, dataFile(s.home, "own")) {
		t.Error("what was added is not created")
	}
}

// One operand with a mistake does not keep others from being served. What needs attention is reported first.
func TestOperandsWithProblems(t *testing.T) {
	s := newTools(t)
	request := s.request(t, s.home, "request", files, "{name: unknown}", "{name: a/b}")
	s.fails(t, request, v1alpha1.ReasonOperandNotFound, `does not list an operator "unknown"`)
	expectPhase(t, request, v1alpha1.RequestFailed)
	s.expectMapped(t, s.home)
	var phases []v1alpha1.MemberPhase
	for _, member := range request.Status.Members {
		phases = append(phases, member.Phase)
	}
	if want := []v1alpha1.MemberPhase{
		{OperatorPhase: v1alpha1.OperatorInstalling, OperandPhase: v1alpha1.OperandCreating},
		{OperatorPhase: v1alpha1.OperatorNotFound, OperandPhase: v1alpha1.OperandNotFound}, {OperatorPhase: v1alpha1.OperatorFailed},
	}; !slices.Equal(phases, want) {
		t.Errorf("got %+v, want %+v", phases, want)
	}
	s.manage(t)
	s.fails(t, request, v1alpha1.ReasonOperandNotFound, "unknown")
	if !s.exists(t, s.shared()) {
		t.Error("the good operand is not served")
	}
	s.wants(t, request, files, "{name: unknown}")
	s.fails(t, request, v1alpha1.ReasonOperandNotFound, "unknown")
	expectPhase(t, request, v1alpha1.RequestPending)
}

// What is not known remains as it was.
func TestProblemsOfWhatIsNamed(t *testing.T) {
	for name, test := range map[string]struct {
		change        func(*testing.T, *tools)
		reason, text  string
		operatorPhase v1alpha1.OperatorPhase
	}{
		"no OperandRegistry": {func(t *testing.T, s *tools) { s.delete(t, s.registry) }, v1alpha1.ReasonRegistryNotFound, "does not exist", v1alpha1.OperatorNotFound},
		"no operator": {func(t *testing.T, s *tools) { s.patch(t, s.registry, "{spec: {operators: []}}") },
			v1alpha1.ReasonOperandNotFound, "does not list an operator", v1alpha1.OperatorNotFound},
		"no OperatorCollection": {func(t *testing.T, s *tools) { s.delete(t, s.oc) }, v2beta2.ReasonCollectionNotFound, "does not exist", v1alpha1.OperatorFailed},
		"an OperatorCollection that is not imported": {func(t *testing.T, s *tools) {
			s.oc.Status.Collection = nil
			apiserver.Must(t, s.server.Client.Status().Update(t.Context(), s.oc))
		}, v2beta2.ReasonCollectionNotImported, "is not imported yet", v1alpha1.OperatorInstalling},
		"a mistake in the OperandConfig": {func(t *testing.T, s *tools) {
			s.patch(t, s.config, "{spec: {services: [{name: files, spec: {misspelt: {}}}]}}")
		},
			v1alpha1.ReasonInvalidOperand, "has no kind", v1alpha1.OperatorRunning},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTools(t)
			request := s.running(t, s.home, "request", files, own)
			before := inventoryOf(request)
			test.change(t, s)
			s.fails(t, request, test.reason, test.text)
			if phase := request.Status.Members[0].Phase.OperatorPhase; phase != test.operatorPhase {
				t.Errorf("the operator is %s", phase)
			}
			if writes := ofObjects(s.writes.Take(), "/datafiles"); len(writes) > 0 || !slices.Equal(inventoryOf(request), before) {
				t.Errorf("it writes %q, the inventory is %q", writes, inventoryOf(request))
			}
			s.expectMapped(t, s.home)
			s.delete(t, request)
			if name == "an OperatorCollection that is not imported" {
				s.fails(t, request, v1alpha1.ReasonRemovalWaiting, "/oc\" to be imported")
				s.expectMapped(t, s.home)
				return
			}
			_, err := s.reconcile(t, request)
			apiserver.Must(t, err)
			s.manage(t)
			s.ends(t, request)
			if s.exists(t, s.shared()) || s.exists(t, dataFile(s.home, "own")) {
				t.Error("the inventory is not enough")
			}
		})
	}
}

func TestPrivateOperandIsRefused(t *testing.T) {
	s := newTools(t)
	s.patch(t, s.registry, "{spec: {operators: [{name: files, collection: {name: oc}, scope: private}]}}")
	team := s.newTeam(t)
	request := s.request(t, team, "request", files, own)
	s.manage(t)
	s.fails(t, request, v1alpha1.ReasonOutOfScope, "is private")
	if s.expectMapped(t); len(request.Status.Inventory) > 0 {
		t.Errorf("the inventory is %q", inventoryOf(request))
	}
	s.run(t, s.request(t, s.home, "inside", files))
	s.patch(t, s.registry, "{spec: {operators: [{name: files, collection: {name: oc}, scope: public}]}}")
	s.run(t, request)
}

func TestReleaseFails(t *testing.T) {
	for what, text := range map[string]string{"patch OperandRequest": "removing the finalizer", "list OperandRequest": "listing OperandRequests"} {
		t.Run(what, func(t *testing.T) {
			s := newTools(t)
			request := s.request(t, s.home, "request", "{name: unknown}")
			s.fails(t, request, v1alpha1.ReasonOperandNotFound, "unknown")
			s.delete(t, request)
			s.faults.Set(what, errAway)
			if _, err := s.reconcile(t, request); err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v", err)
			}
			s.faults.Set(what, nil)
			s.ends(t, request)
		})
	}
	s := newTools(t)
	request := s.request(t, s.home, "request", "{name: unknown}")
	s.fails(t, request, v1alpha1.ReasonOperandNotFound, "unknown")
	s.delete(t, request)
	s.faults.Before("patch OperandRequest", func() { s.release(t, request.DeepCopy()) })
	s.ends(t, request)
}

// A request that is gone from the API server while it is reconciled is no error.
func TestRequestGoesMeanwhile(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", own)
	s.reports(t, dataFile(s.home, "own"), "Ready", "False", "not yet")
	s.faults.Before("status OperandRequest", func() {
		s.release(t, request.DeepCopy())
		s.delete(t, request.DeepCopy())
	})
	s.ends(t, request)
	if err := s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}
