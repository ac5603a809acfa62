package operands_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// theirs is a resource that somebody else has created, with size 1 and this annotation.
func (s *tools) theirs(t *testing.T, annotation string) {
	t.Helper()
	object := s.shared()
	object.Object["spec"] = map[string]any{"size": int64(1)}
	object.SetAnnotations(map[string]string{v1alpha1.AnnotationOperand: annotation})
	apiserver.Must(t, s.server.Client.Create(t.Context(), object))
}

func (s *tools) expectSize(t *testing.T, want int64) {
	t.Helper()
	if got := s.specOf(t, s.shared())["size"]; got != want {
		t.Errorf("the size is %v, want %d", got, want)
	}
}

// configure changes the spec of the resource in the OperandConfig.
func (s *tools) configure(t *testing.T, spec string) {
	t.Helper()
	s.patch(t, s.config, "{spec: {services: [{name: files, spec: {dataFile: "+spec+"}}]}}")
}

// provide lets the OperandConfig specify another resource.
func (s *tools) provide(t *testing.T, resource string) {
	t.Helper()
	s.patch(t, s.config, "{spec: {services: [{name: files, resources: ["+resource+"]}]}}")
}

// What others have created is neither changed nor removed, whatever its annotation says.
func TestForeignResource(t *testing.T) {
	s := newTools(t)
	for _, annotation := range []string{"", s.home + "/tools/files"} {
		s.theirs(t, annotation)
		request := s.request(t, s.home, "request", files)
		s.fails(t, request, v2beta2.ReasonForeignObject, `files" exists and was not created for this operand: delete or rename it`)
		expectPhase(t, request, v1alpha1.RequestFailed)
		s.expectSize(t, 1)
		s.delete(t, request)
		s.fails(t, request, v1alpha1.ReasonRemovalWaiting, `/files"`) // It may need the operator.
		s.expectSize(t, 1)
		s.delete(t, s.shared())
		s.ends(t, request)
	}
}

// What appears while it is created is not taken over, nor removed later.
func TestForeignResourceAppears(t *testing.T) {
	s := newTools(t)
	request := s.request(t, s.home, "request", files)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "")
	s.manage(t)
	s.faults.Before("create DataFile", func() { s.theirs(t, s.home+"/tools/files") })
	s.fails(t, request, v2beta2.ReasonForeignObject, "was not created for this operand")
	s.expectSize(t, 1)
	s.delete(t, request)
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, `/files"`) // It may need the operator.
	s.expectSize(t, 1)
}

// What replaces a resource after it was read is not changed, even if it has none of our fields.
func TestResourceIsReplaced(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.configure(t, "{size: 6}")
	s.faults.Before("apply DataFile", func() {
		s.delete(t, s.shared())
		apiserver.Must(t, s.server.Client.Create(t.Context(), s.shared()))
	})
	_, err := s.reconcile(t, request)
	apiserver.Must(t, err)
	live := s.shared()
	if spec := s.specOf(t, live); len(spec)+len(live.GetLabels())+len(live.GetAnnotations()) > 0 {
		t.Errorf("it has become %v", live.Object)
	}
	s.fails(t, request, v2beta2.ReasonForeignObject, "was not created for this operand")
	s.delete(t, request)
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, `/files"`)
	if !s.exists(t, live) {
		t.Error("it is removed")
	}
}

// Its owner can hand a resource over by applying our annotation in our name.
func TestResourceIsHandedOver(t *testing.T) {
	s := newTools(t)
	s.theirs(t, "")
	request := s.request(t, s.home, "request", files)
	s.fails(t, request, v2beta2.ReasonForeignObject, "")
	handed := s.shared()
	handed.SetAnnotations(map[string]string{v1alpha1.AnnotationOperand: s.home + "/tools/files"})
	apiserver.Must(t, s.server.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(handed), client.FieldOwner(plan.FieldOwner), client.ForceOwnership))
	s.manage(t)
	s.configure(t, "{size: 1}")
	s.runs(t, request)
	s.delete(t, request)
	_, err := s.reconcile(t, request)
	if apiserver.Must(t, err); s.exists(t, s.shared()) {
		t.Error("it remains")
	}
}

func TestResourceFollowsItsConfiguration(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.patch(t, s.shared(), "{metadata: {labels: {theirs: yes-it-is}}}")
	s.configure(t, "{zosendpoint: lpar1, size: 6}")
	s.runs(t, request)
	s.expectSize(t, 6)
	live := s.shared()
	if spec := s.specOf(t, live); spec["note"] != nil || live.GetLabels()["theirs"] == "" || live.GetLabels()[v1alpha1.LabelControl] != "true" {
		t.Errorf("got %v, labels %v", spec, live.GetLabels())
	}
	s.patch(t, s.shared(), "{spec: {size: 7}}")
	s.fails(t, request, v1alpha1.ReasonFieldConflict, ".spec.size")
	s.expectSize(t, 7)
	expectPhase(t, request, v1alpha1.RequestFailed)
	s.patch(t, s.shared(), "{spec: {size: 6}}")
	s.runs(t, request)
}

// A resource that somebody changes while its fields become ours keeps the change.
func TestResourceChangesMeanwhile(t *testing.T) {
	s := newTools(t)
	request := s.request(t, s.home, "request", files)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "")
	s.manage(t)
	s.faults.Before("patch DataFile", func() { s.patch(t, s.shared(), "{metadata: {labels: {theirs: yes-it-is}}}") })
	s.runs(t, request)
	live := s.shared()
	if s.expectSize(t, 5); !s.exists(t, live) || live.GetLabels()["theirs"] == "" {
		t.Errorf("labels %v", live.GetLabels())
	}
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == plan.FieldOwner && entry.Operation != metav1.ManagedFieldsOperationApply {
			t.Errorf("got %+v", entry)
		}
	}
	s.delete(t, s.shared())
	s.faults.Before("patch DataFile", func() {
		s.delete(t, s.shared())
		s.theirs(t, "")
	})
	if _, err := s.reconcile(t, request); err == nil || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("got %v", err)
	}
	s.expectSize(t, 1)
}

func TestResourceIsCreatedAgain(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.hold(t, s.shared())
	s.delete(t, s.shared())
	s.fails(t, request, v1alpha1.ReasonOperandNotReady, "is being deleted, and is created again then")
	expectPhase(t, request, v1alpha1.RequestCreating)
	s.release(t, s.shared())
	s.runs(t, request)
	if live := s.shared(); !s.exists(t, live) || find(request, "DataFile").UID != string(live.GetUID()) {
		t.Error("it is not created again, or not recorded")
	}
}

func find(request *v1alpha1.OperandRequest, kind string) v1alpha1.InventoryEntry {
	for _, e := range request.Status.Inventory {
		if e.Kind == kind {
			return e
		}
	}
	return v1alpha1.InventoryEntry{}
}

// What a resource says is for those who may read it.
func TestHealthOfResources(t *testing.T) {
	for name, test := range map[string]struct{ condition, state, reason, text, elsewhere, phase string }{
		"not ready": {"Ready", "False", v1alpha1.ReasonOperandNotReady, "is not ready: said by the operator", "is not ready: its status has the reason", v1alpha1.RequestCreating},
		"failed":    {"Stalled", "True", v1alpha1.ReasonOperandFailed, "has failed: said by the operator", "has failed: its status has the reason", v1alpha1.RequestFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTools(t)
			inside, outside := s.running(t, s.home, "inside", files), s.running(t, s.newTeam(t), "outside", files)
			s.reports(t, s.shared(), test.condition, test.state, "said by\nthe operator")
			s.fails(t, inside, test.reason, test.text)
			expectPhase(t, inside, test.phase)
			s.fails(t, outside, test.reason, test.elsewhere)
			if strings.Contains(fmt.Sprint(outside.Status), "said by") {
				t.Errorf("it reveals %+v", outside.Status)
			}
			s.reports(t, s.shared(), test.condition, map[string]string{"Ready": "True", "Stalled": "False"}[test.condition], "done")
			s.runs(t, inside)
		})
	}
}

func TestRefusedResources(t *testing.T) {
	for name, test := range map[string]struct{ spec, text string }{
		"a value of another type": {"{size: {secret: word}}", "size"},
		"an unknown field":        {"{unknown: word}", "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTools(t)
			s.configure(t, test.spec)
			inside, outside := s.request(t, s.home, "inside", files), s.request(t, s.newTeam(t), "outside", files)
			s.fails(t, inside, v1alpha1.ReasonOperatorNotReady, "")
			s.manage(t)
			s.fails(t, inside, v2beta2.ReasonObjectRefused, test.text)
			expectPhase(t, inside, v1alpha1.RequestFailed)
			s.fails(t, outside, v2beta2.ReasonObjectRefused, "was refused: the log of the component operands has the reason")
			if s.exists(t, s.shared()) || strings.Contains(fmt.Sprint(outside.Status), "word") {
				t.Errorf("it is created, or reveals %+v", outside.Status)
			}
		})
	}
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.configure(t, "{size: {not: a number}}")
	s.fails(t, request, v2beta2.ReasonObjectRefused, "size")
	s.expectSize(t, 5)
	s.provide(t, "{apiVersion: v1, kind: Secret, name: UPPER, data: {stringData: {a: b}}}")
	s.fails(t, s.request(t, s.newTeam(t), "outside", files), v2beta2.ReasonObjectRefused, "was refused: to see why, apply it in its namespace")
}

func TestResourcesOfAnOperandConfig(t *testing.T) {
	for name, test := range map[string]struct{ resource, reason, text string }{
		"an unknown kind":          {"{apiVersion: nosuch.example/v1, kind: Nothing, name: a}", v1alpha1.ReasonInvalidOperand, "the cluster has no kind Nothing in nosuch.example/v1"},
		"a kind without namespace": {"{apiVersion: jenkins.example/v1, kind: World, name: a}", v1alpha1.ReasonInvalidOperand, `World "a" has no namespace`},
		"a token":                  {"{apiVersion: v1, kind: Secret, name: a, data: {type: kubernetes.io/service-account-token}}", v1alpha1.ReasonInvalidOperand, "cannot be created"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTools(t)
			s.provide(t, test.resource)
			request := s.request(t, s.home, "request", files)
			s.fails(t, request, test.reason, test.text)
			expectPhase(t, request, v1alpha1.RequestFailed)
			if n := len(request.Status.Inventory); n != 1 {
				t.Errorf("the inventory is %q", inventoryOf(request))
			}
		})
	}
}

// Another namespace must allow what an OperandConfig creates in it.
func TestResourceInAnotherNamespace(t *testing.T) {
	s := newTools(t)
	team := s.newTeam(t)
	s.provide(t, "{apiVersion: v1, kind: ConfigMap, namespace: "+team+", name: a, labels: {app: files}, data: {data: {k: v}}}")
	request := s.request(t, s.home, "request", files)
	created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "a"}}
	s.fails(t, request, v2beta2.ReasonMappingNotAllowed, "can give it the annotation "+v1alpha1.AnnotationAllowConfigs+": "+s.home)
	s.annotate(t, team, v1alpha1.AnnotationAllowConfigs, s.home)
	s.run(t, request)
	if !s.exists(t, created) || created.Data["k"] != "v" || created.Labels["app"] != "files" {
		t.Errorf("got %+v", created)
	}
}

func TestResourceThatIsOnlyCreated(t *testing.T) {
	s := newTools(t)
	s.provide(t, "{apiVersion: v1, kind: ConfigMap, name: a, force: false, data: {data: {k: v}}}")
	request := s.running(t, s.home, "request", files)
	s.provide(t, "{apiVersion: v1, kind: ConfigMap, name: a, force: false, data: {data: {k: w}}}")
	s.runs(t, request)
	created := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: "a"}}
	if !s.exists(t, created) || created.Data["k"] != "v" || len(ofObjects(s.writes.Take(), "/configmaps")) > 0 {
		t.Errorf("got %+v", created.Data)
	}
	s.delete(t, request)
	_, err := s.reconcile(t, request)
	if apiserver.Must(t, err); s.exists(t, created) {
		t.Error("it remains")
	}
}

// A resource keeps its identity when its operand has another name.
func TestOperandIsRenamed(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", own)
	live := dataFile(s.home, "own")
	s.exists(t, live)
	uid := live.GetUID()
	s.patch(t, s.registry, "{spec: {operators: [{name: files, collection: {name: oc}}, {name: other, collection: {name: oc}}]}}")
	s.wants(t, request, strings.Replace(own, "name: files", "name: other", 1))
	s.runs(t, request)
	if !s.exists(t, live) || live.GetUID() != uid || live.GetAnnotations()[v1alpha1.AnnotationOperand] != s.home+"/tools/other/"+s.home+"/request" {
		t.Errorf("got %v", live.GetAnnotations())
	}
	if e := find(request, "DataFile"); e.Operand != "other" || e.UID != string(uid) {
		t.Errorf("got %+v", e)
	}
}

func TestKindThatCannotBeLookedUp(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.faults.Set("get DataFile", errAway)
	if _, err := s.reconcile(t, request); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	expectPhase(t, request, v1alpha1.RequestFailed)
	s.expectSize(t, 5)
}
