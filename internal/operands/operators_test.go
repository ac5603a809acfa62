package operands_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestWhichSubOperatorConfigServes(t *testing.T) {
	s := newTools(t)
	s.hold(t, s.soc)
	s.delete(t, s.soc)
	request := s.request(t, s.home, "request", files)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, fmt.Sprintf(`OperatorCollection "%s/oc" has no SubOperatorConfig: create one`, s.home))
	expectPhase(t, request, v1alpha1.RequestInstalling)
	if got := inventoryOf(request); !slices.Equal(got, []string{fmt.Sprintf("Config DataFile %s/files", s.home)}) {
		t.Errorf("the inventory is %q", got)
	}
	s.release(t, s.soc)
	s.create(t, &v2beta2.SubOperatorConfig{}, s.home, "another", "{spec: {operatorCollection: other}}")
	s.create(t, &v2beta2.SubOperatorConfig{}, s.home, "soc", "{spec: {operatorCollection: oc}}")
	s.create(t, &v2beta2.SubOperatorConfig{}, s.home, "zoc", "{spec: {operatorCollection: oc}}")
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, fmt.Sprintf(`SubOperatorConfig "%s/soc" installs`, s.home))
	s.expectMapped(t, s.home)
	s.manage(t)
	s.runs(t, request)
	s.delete(t, s.soc)
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, fmt.Sprintf(`SubOperatorConfig "%s/zoc" installs`, s.home))
	if got := inventoryOf(request); len(got) != 3 || got[1] != fmt.Sprintf("Operator SubOperatorConfig %s/zoc for %s", s.home, s.home) {
		t.Errorf("the inventory is %q", got)
	}
}

// Who maps the namespace already serves it, and keeps the mapping.
func TestMappingOfSomebodyElse(t *testing.T) {
	s := newTools(t)
	theirs := &v2beta2.SubOperatorConfig{}
	s.create(t, theirs, s.home, "zoc", fmt.Sprintf("{spec: {operatorCollection: oc, mapping: [{namespace: %s}]}}", s.home))
	theirs.Status.Installations = []v2beta2.InstallationStatus{{Namespace: s.home, Digest: "sha256:1", Ready: true}}
	apiserver.Must(t, s.server.Client.Status().Update(t.Context(), theirs))
	request := s.request(t, s.home, "request", files)
	s.runs(t, request)
	if got := inventoryOf(request); !slices.Equal(got, []string{fmt.Sprintf("Config DataFile %s/files", s.home)}) {
		t.Errorf("the inventory is %q", got)
	}
	s.expectMapped(t)
	s.delete(t, request)
	s.ends(t, request)
	if writes := ofObjects(s.writes.Take(), "/suboperatorconfigs"); len(writes) > 0 {
		t.Errorf("it writes %q", writes)
	}
}

// A mapping that others have, too, remains when the request goes.
func TestMappingThatOthersShare(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", own)
	shared := instance(v2beta2.GroupVersion.String(), "SubOperatorConfig", s.home, "soc")
	shared.Object["spec"] = map[string]any{"operatorCollection": "oc", "mapping": []any{map[string]any{"namespace": s.home}}}
	apiserver.Must(t, s.server.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(shared), client.FieldOwner("gitops"), client.ForceOwnership))
	s.delete(t, request)
	if s.ends(t, request); s.exists(t, dataFile(s.home, "own")) {
		t.Error("the resource remains")
	}
	s.expectMapped(t, s.home)
}

func TestConsentOfANamespace(t *testing.T) {
	s := newTools(t)
	team := s.server.Namespace(t)
	request := s.request(t, team, "request", own)
	for _, annotation := range []string{"", s.home + "1"} {
		s.annotate(t, team, consents, annotation)
		s.fails(t, request, v2beta2.ReasonMappingNotAllowed, "can give it the annotation "+consents+": "+s.home)
		expectPhase(t, request, v1alpha1.RequestFailed)
		s.expectMapped(t)
	}
	s.annotate(t, team, consents, "other, "+s.home)
	s.run(t, request)
	s.expectMapped(t, team)
}

// What is installed cannot have two lists of ZosEndpoints.
func TestOperandsWithOtherEndpoints(t *testing.T) {
	s := newTools(t)
	s.patch(t, s.registry, "{spec: {operators: [{name: files, collection: {name: oc}}, {name: other, collection: {name: oc, zosendpoints: [{name: lpar1}]}}]}}")
	request := s.request(t, s.home, "request", files, "{name: other}")
	s.fails(t, request, v1alpha1.ReasonInvalidOperand, fmt.Sprintf(`operand "files" wants the operator of OperatorCollection "%s/oc" in namespace %q with other zosendpoints`, s.home, s.home))
	expectPhase(t, request, v1alpha1.RequestFailed)
	s.expectMapped(t, s.home)
	if s.soc.Spec.Mapping[0].ZosEndpoints != nil {
		t.Errorf("got %+v", s.soc.Spec.Mapping)
	}
}

// The older request decides, whichever is reconciled first, until it is deleted.
func TestRequestsWithOtherEndpoints(t *testing.T) {
	s := newTools(t)
	s.patch(t, s.registry, "{spec: {operators: [{name: files, collection: {name: oc, zosendpoints: [{name: files}]}}, {name: other, collection: {name: oc, zosendpoints: [{name: other}]}}]}}")
	first, second := s.request(t, s.home, "files", files), s.request(t, s.home, "other", "{name: other}")
	refused := fmt.Sprintf("an OperandRequest in namespace %q wants the operator", s.home)
	if cmp.Or(first.CreationTimestamp.Compare(second.CreationTimestamp.Time), strings.Compare(string(first.UID), string(second.UID))) > 0 { // Of the same second.
		first, second = second, first
	}
	endpoint := func() string {
		s.expectMapped(t, s.home)
		return (*s.soc.Spec.Mapping[0].ZosEndpoints)[0].Name
	}
	s.fails(t, second, v1alpha1.ReasonInvalidOperand, refused)
	s.expectMapped(t)
	s.fails(t, first, v1alpha1.ReasonOperatorNotReady, "installs the operator")
	s.fails(t, second, v1alpha1.ReasonInvalidOperand, refused)
	if got := endpoint(); got != first.Name {
		t.Errorf("the endpoint is %s", got)
	}
	s.delete(t, first)
	s.fails(t, second, v1alpha1.ReasonOperatorNotReady, "installs the operator")
	if got := endpoint(); got != second.Name {
		t.Errorf("the endpoint is %s: a request that is being deleted decides", got)
	}
}

func TestPhasesOfOperators(t *testing.T) {
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	for name, test := range map[string]struct {
		installation v2beta2.InstallationStatus
		condition    *metav1.Condition
		reason, text string
		phase        v1alpha1.OperatorPhase
	}{
		"not installed": {reason: v1alpha1.ReasonOperatorNotReady, text: "installs the operator", phase: v1alpha1.OperatorInstalling},
		"not available": {
			installation: v2beta2.InstallationStatus{Reason: v2beta2.ReasonWorkloadUnavailable, Message: "no pod"},
			reason:       v1alpha1.ReasonOperatorNotReady, text: ": no pod", phase: v1alpha1.OperatorInstalling,
		},
		"failed": {
			installation: v2beta2.InstallationStatus{Reason: v2beta2.ReasonForeignObject, Message: "a Role\nis foreign"},
			reason:       v1alpha1.ReasonOperatorFailed, text: ": a Role is foreign", phase: v1alpha1.OperatorFailed,
		},
		"being removed": {
			installation: v2beta2.InstallationStatus{Ready: true, RemovalTime: &now},
			reason:       v1alpha1.ReasonOperatorNotReady, text: "installs the operator", phase: v1alpha1.OperatorInstalling,
		},
		"not installed for a reason": {
			condition: &metav1.Condition{Status: metav1.ConditionFalse, Reason: v2beta2.ReasonMappingConflict, Message: "another one maps it"},
			reason:    v1alpha1.ReasonOperatorFailed, text: ": another one maps it", phase: v1alpha1.OperatorFailed,
		},
		"not installed yet": {
			condition: &metav1.Condition{Status: metav1.ConditionTrue, Reason: v2beta2.ReasonSucceeded, Message: "elsewhere"},
			reason:    v1alpha1.ReasonOperatorNotReady, text: "installs the operator", phase: v1alpha1.OperatorInstalling,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTools(t)
			request := s.request(t, s.home, "request", files)
			s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "")
			if s.mapped(t); test.condition != nil {
				test.condition.Type, test.condition.ObservedGeneration, test.condition.LastTransitionTime = v2beta2.ConditionReady, s.soc.Generation, now
				s.soc.Status.Conditions = []metav1.Condition{*test.condition}
			} else if name != "not installed" {
				test.installation.Namespace, test.installation.Digest = s.home, "sha256:1"
				s.soc.Status.Installations = []v2beta2.InstallationStatus{test.installation}
			}
			apiserver.Must(t, s.server.Client.Status().Update(t.Context(), s.soc))
			s.fails(t, request, test.reason, test.text)
			if phase := request.Status.Members[0].Phase.OperatorPhase; phase != test.phase {
				t.Errorf("the operator is %s, want %s", phase, test.phase)
			}
			if s.exists(t, s.shared()) {
				t.Error("the resource does not wait for the operator")
			}
			s.manage(t)
			s.runs(t, request)
		})
	}
}

// An operator that ran before is updated, not installed.
func TestOperatorIsUpdated(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.report(t, v2beta2.InstallationStatus{Namespace: s.home, Digest: "sha256:2", Reason: v2beta2.ReasonProgressing})
	for range 2 {
		s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "installs the operator")
		expectPhase(t, request, v1alpha1.RequestUpdating)
	}
	s.manage(t)
	s.runs(t, request)
}

// A field that somebody else has set is not taken over.
func TestMappingThatSomebodyHasChanged(t *testing.T) {
	s := newTools(t)
	s.patch(t, s.registry, "{spec: {operators: [{name: files, collection: {name: oc, zosendpoints: [{name: lpar1, credentialName: ours}]}}]}}")
	request := s.running(t, s.home, "request", files)
	s.patch(t, s.soc, fmt.Sprintf("{spec: {mapping: [{namespace: %s, zosendpoints: [{name: lpar1, credentialName: theirs}]}]}}", s.home))
	result, err := s.reconcile(t, request)
	apiserver.Must(t, err)
	expectReady(t, request, metav1.ConditionFalse, v1alpha1.ReasonFieldConflict,
		fmt.Sprintf(`SubOperatorConfig "%s/soc": others have set .spec.mapping[namespace=%q].zosendpoints[name="lpar1"].credentialName`, s.home, s.home))
	if s.mapped(t); (*s.soc.Spec.Mapping[0].ZosEndpoints)[0].CredentialName != "theirs" || result.RequeueAfter != intervals.Missing {
		t.Errorf("got %+v, again after %s", s.soc.Spec.Mapping, result.RequeueAfter)
	}
	expectPhase(t, request, v1alpha1.RequestFailed)
}

// The mapping follows the OperandRegistry.
func TestEndpointsChange(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.patch(t, s.registry, "{spec: {operators: [{name: files, collection: {name: oc, zosendpoints: [{name: lpar1}]}}]}}")
	s.runs(t, request)
	if s.mapped(t); s.soc.Spec.Mapping[0].ZosEndpoints == nil || (*s.soc.Spec.Mapping[0].ZosEndpoints)[0].Name != "lpar1" {
		t.Errorf("got %+v", s.soc.Spec.Mapping)
	}
}

// An OperatorCollection of another namespace is used if its owner allows it, with no ZosEndpoints but those that are named.
func TestCollectionOfAnotherNamespace(t *testing.T) {
	s := newTools(t)
	other := s.server.Namespace(t)
	s.annotate(t, other, consents, s.home)
	s.create(t, &v1alpha1.OperandRegistry{}, other, "tools", fmt.Sprintf("{spec: {operators: [{name: files, collection: {name: oc, namespace: %s}}]}}", s.home))
	request := &v1alpha1.OperandRequest{}
	s.create(t, request, other, "request", "{spec: {requests: [{registry: tools, operands: ["+own+"]}]}}")
	s.fails(t, request, v1alpha1.ReasonOutOfScope, "does not exist, or does not allow it")
	s.expectMapped(t)
	s.patch(t, s.oc, fmt.Sprintf("{metadata: {annotations: {%s: %s}}}", v1alpha1.AnnotationAllowRegistries, other))
	s.run(t, request)
	if s.expectMapped(t, other); s.soc.Spec.Mapping[0].ZosEndpoints == nil || len(*s.soc.Spec.Mapping[0].ZosEndpoints) > 0 {
		t.Errorf("got %+v", s.soc.Spec.Mapping)
	}
}

// The mapping of a SubOperatorConfig that was created again is added again, and that of the former one is not confused with it.
func TestSubOperatorConfigIsCreatedAgain(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.delete(t, s.soc)
	s.create(t, &v2beta2.SubOperatorConfig{}, s.home, "soc", "{spec: {operatorCollection: oc}}")
	s.fails(t, request, v1alpha1.ReasonOperatorNotReady, "installs the operator")
	s.expectMapped(t, s.home)
	if e := request.Status.Inventory[0]; e.UID != string(s.soc.UID) {
		t.Errorf("got %+v", e)
	}
	s.manage(t)
	s.runs(t, request)
	s.delete(t, s.soc)
	s.create(t, &v2beta2.SubOperatorConfig{}, s.home, "soc", fmt.Sprintf("{spec: {operatorCollection: oc, mapping: [{namespace: %s}]}}", s.home))
	s.delete(t, request)
	s.ends(t, request)
	s.expectMapped(t, s.home)
}

// no-op is for operators that somebody else installs.
func TestOperatorThatIsNotInstalled(t *testing.T) {
	s := newTools(t)
	s.patch(t, s.registry, "{spec: {operators: [{name: files, collection: {name: oc}, installMode: no-op}]}}")
	request := s.request(t, s.home, "request", files)
	s.runs(t, request)
	s.expectMapped(t)
	if spec := s.specOf(t, s.shared()); spec["size"] != int64(5) {
		t.Errorf("got %v", spec)
	}
}
