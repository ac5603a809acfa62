package operands_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestRequestIsDeletedResourcesFirst(t *testing.T) {
	s := newTools(t)
	team := s.newTeam(t)
	request := s.running(t, team, "request", own)
	theirs := dataFile(team, "theirs")
	apiserver.Must(t, s.server.Client.Create(t.Context(), theirs))
	s.hold(t, dataFile(team, "own"))
	s.delete(t, request)
	for range 2 {
		s.fails(t, request, v1alpha1.ReasonRemovalWaiting, fmt.Sprintf(`waiting for DataFile "%s/own"`, team))
		s.expectMapped(t, team)
	}
	if got := deletions(s.writes.Take()); got != "datafiles" {
		t.Errorf("it deletes %s", got)
	}
	s.release(t, dataFile(team, "own"))
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, fmt.Sprintf(`waiting for DataFile "%s/theirs"`, team))
	s.expectMapped(t, team)
	s.delete(t, theirs)
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, fmt.Sprintf(`waiting for the operator of OperatorCollection "oc" in namespace %q to end`, team))
	s.expectMapped(t)
	s.manage(t)
	s.ends(t, request)
}

// Those of others in another namespace are only counted.
func TestUsersInAnotherNamespace(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.newTeam(t), "request", files)
	apiserver.Must(t, s.server.Client.Create(t.Context(), dataFile(s.home, "theirs")))
	s.delete(t, request)
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, fmt.Sprintf("waiting for 1 of kind DataFile in namespace %q", s.home))
	s.expectMapped(t, s.home)
}

// A resource may need the Secret that was created before it until it is gone.
func TestResourcesAreDeletedInReverseOrder(t *testing.T) {
	s := newTools(t)
	s.patch(t, s.config, "{spec: {services: [{name: files, resources: [{apiVersion: v1, kind: Secret, name: needed}], spec: {dataFile: {size: 5}}}]}}")
	request := s.running(t, s.home, "request", files)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: "needed"}}
	s.hold(t, s.shared())
	s.delete(t, request)
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, `/files"`)
	if !s.exists(t, secret) {
		t.Error("the Secret goes first")
	}
	s.release(t, s.shared())
	_, err := s.reconcile(t, request)
	if apiserver.Must(t, err); s.exists(t, secret) {
		t.Error("the Secret remains")
	}
}

func TestWhatIsNotWantedAnyMore(t *testing.T) {
	s := newTools(t)
	team := s.newTeam(t)
	request := s.running(t, team, "request", files, own)
	s.wants(t, request, files)
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, "to end")
	s.manage(t)
	s.runs(t, request)
	s.expectMapped(t, s.home)
	if s.exists(t, dataFile(team, "own")) || !s.exists(t, s.shared()) {
		t.Error("what is wanted goes, or the rest stays")
	}
}

// What requests share goes with the last one.
func TestSharedResourceIsHandedOver(t *testing.T) {
	s := newTools(t)
	first := s.running(t, s.home, "first", files)
	second := s.request(t, s.newTeam(t), "second", files)
	s.delete(t, first)
	for _, what := range []string{"patch OperandRequest second", "status OperandRequest second"} {
		s.faults.Set(what, errAway)
		if _, err := s.reconcile(t, first); err == nil || !strings.Contains(err.Error(), "handing over to OperandRequest") {
			t.Errorf("got %v", err)
		}
		s.faults.Set(what, nil)
	}
	s.ends(t, first)
	apiserver.Must(t, s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(second), second))
	want := []string{fmt.Sprintf("Config DataFile %s/files", s.home), fmt.Sprintf("Operator SubOperatorConfig %s/soc for %s", s.home, s.home)}
	if got := slices.Sorted(slices.Values(inventoryOf(second))); !slices.Equal(got, want) || !slices.Contains(second.Finalizers, v1alpha1.FinalizerRequest) {
		t.Errorf("the inventory is %q, the finalizers are %q", got, second.Finalizers)
	}
	if got := deletions(s.writes.Take()); got != "" {
		t.Errorf("it deletes %s", got)
	}
	s.expectMapped(t, s.home)
	s.delete(t, second)
	_, err := s.reconcile(t, second)
	apiserver.Must(t, err)
	s.manage(t)
	s.ends(t, second)
	if s.expectMapped(t); s.exists(t, s.shared()) {
		t.Error("it remains")
	}
}

func TestWhatAUserKeeps(t *testing.T) {
	keep := fmt.Sprintf("{metadata: {labels: {%s: 'true'}}}", v1alpha1.LabelKeep)
	for name, test := range map[string]struct {
		keep        func(*testing.T, *tools)
		own, shared bool
		mapped      int
	}{
		"a resource": {func(t *testing.T, s *tools) { s.patch(t, dataFile(s.home, "own"), keep) }, true, false, 1},
		// What the request specifies itself is not of the operator.
		"the operator": {func(t *testing.T, s *tools) { s.patch(t, s.soc, keep) }, false, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTools(t)
			request := s.running(t, s.home, "request", files, own)
			test.keep(t, s)
			s.delete(t, request)
			_, err := s.reconcile(t, request)
			apiserver.Must(t, err)
			if own, shared := s.exists(t, dataFile(s.home, "own")), s.exists(t, s.shared()); own != test.own || shared != test.shared {
				t.Errorf("the resource of the request exists: %t, that of the OperandConfig: %t", own, shared)
			}
			if got := s.mapped(t); len(got) != test.mapped {
				t.Errorf("it maps %q", got)
			}
		})
	}
}

// A cache that begins with an older state than the former process has seen lacks what was added since.
func TestNothingIsRemovedBecauseTheCacheIsBehind(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.cached = func(list client.ObjectList) {
		if configs, ok := list.(*v1alpha1.OperandConfigList); ok {
			for i := range configs.Items {
				configs.Items[i].Spec.Services = nil
			}
		}
	}
	s.runs(t, request)
	if got := deletions(s.writes.Take()); got != "" || !s.exists(t, s.shared()) {
		t.Errorf("it deletes %s", got)
	}
	s.faults.Set("list OperandConfig", errAway)
	if _, err := s.reconcile(t, request); !errors.Is(err, errAway) || !s.exists(t, s.shared()) {
		t.Errorf("got %v", err)
	}
	s.faults.Set("list OperandConfig", nil)
	s.patch(t, s.config, "{spec: {services: []}}")
	_, err := s.reconcile(t, request)
	if apiserver.Must(t, err); s.exists(t, s.shared()) {
		t.Error("it remains")
	}
}

// Somebody has replaced a resource while it is deleted: what is there now is theirs.
func TestDeletedResourceIsReplaced(t *testing.T) {
	s := newTools(t)
	request := s.running(t, s.home, "request", files)
	s.faults.Before("delete DataFile", func() {
		s.delete(t, s.shared())
		s.theirs(t, "")
	})
	s.delete(t, request)
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, `/files"`)
	s.expectSize(t, 1)
	_, err := s.reconcile(t, request)
	apiserver.Must(t, err)
	s.expectSize(t, 1)
}

func TestErrorsOfRemoval(t *testing.T) {
	for what, text := range map[string]string{
		"get DataFile": "reading DataFile", "delete DataFile": "deleting DataFile", "get SubOperatorConfig": "reading SubOperatorConfig",
		"get OperatorCollection": "reading OperatorCollection", "list DataFile": "listing kind DataFile", "apply SubOperatorConfig": "SubOperatorConfig",
		"list OperandRequest": "listing OperandRequests", "list OperandRegistry": "listing", "cached OperandRegistry": "listing",
	} {
		t.Run(what, func(t *testing.T) {
			s := newTools(t)
			request := s.running(t, s.home, "request", own)
			s.delete(t, request)
			s.faults.Set(what, errAway)
			if _, err := s.reconcile(t, request); !errors.Is(err, errAway) || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v", err)
			}
			s.expectMapped(t, s.home)
			expectReady(t, request, metav1.ConditionFalse, v2beta2.ReasonUnexpectedError, text)
			s.faults.Set(what, nil)
			_, err := s.reconcile(t, request)
			apiserver.Must(t, err)
			s.manage(t)
			s.ends(t, request)
		})
	}
}

// A permission that is missing is no reason to leave something behind, unless the namespace goes.
func TestRemovalWithoutPermission(t *testing.T) {
	all := []string{"get DataFile", "delete DataFile", "list DataFile"}
	for _, what := range all {
		t.Run(what, func(t *testing.T) {
			s := newTools(t)
			team := s.newTeam(t)
			request := s.running(t, team, "request", own)
			s.delete(t, request)
			errForbidden := apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("User %q cannot do it", "system:serviceaccount:"+account.Namespace+":"+account.Name))
			s.faults.Set(what, errForbidden)
			s.fails(t, request, v1alpha1.ReasonNotGranted, "kubectl create rolebinding collection-operator-operands -n "+team+" --clusterrole=collection-operator-operands-namespace ")
			s.expectMapped(t, team)
			s.deleteNamespace(t, team)
			for _, what := range all {
				s.faults.Set(what, errForbidden)
			}
			s.ends(t, request)
			s.expectMapped(t)
		})
	}
}

// The operator ends with its namespace: it is not waited for. Without the OperatorCollection it does not run.
func TestOperatorIsNotWaitedFor(t *testing.T) {
	s := newTools(t)
	team := s.newTeam(t)
	request := s.running(t, team, "request", own)
	s.deleteNamespace(t, team)
	s.delete(t, request)
	s.ends(t, request)
	s.expectMapped(t)

	s = newTools(t)
	request = s.running(t, s.home, "request", own)
	apiserver.Must(t, s.server.Client.Create(t.Context(), dataFile(s.home, "theirs")))
	s.delete(t, s.oc)
	s.delete(t, request)
	s.fails(t, request, v1alpha1.ReasonRemovalWaiting, "to end")
	s.expectMapped(t)
	s.delete(t, s.soc)
	s.ends(t, request)
}

// The version of a kind may not be served any more when a resource is removed.
func TestVersionIsNotServed(t *testing.T) {
	s := newTools(t)
	version := func(name string, served bool) apiextensionsv1.CustomResourceDefinitionVersion {
		preserve := true
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: served, Storage: served, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
		}}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "filecopys.copies.example"}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "copies.example", Scope: apiextensionsv1.NamespaceScoped, Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true)},
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "filecopys", Singular: "filecopy", Kind: "FileCopy", ListKind: "FileCopyList"}, // Not English.
	}}
	apiserver.Must(t, s.server.Client.Create(t.Context(), crd))
	list := instance("copies.example/v1", "FileCopy", s.home, "none")
	apiserver.Await(t, "v1 is served", func() bool {
		return isMissing(s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(list), list))
	})
	s.provide(t, "{apiVersion: copies.example/v1, kind: FileCopy, name: report}")
	request := s.running(t, s.home, "request", files)
	apiserver.Must(t, s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(crd), crd))
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", false), version("v2", true)}
	apiserver.Must(t, s.server.Client.Update(t.Context(), crd))
	report := instance("copies.example/v2", "FileCopy", s.home, "report")
	apiserver.Await(t, "v2 is served", func() bool {
		return s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(report), report) == nil
	})
	apiserver.Await(t, "v1 is not served", func() bool {
		return !isMissing(s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(list), list))
	})
	s.delete(t, request)
	_, err := s.reconcile(t, request)
	apiserver.Must(t, err)
	if s.exists(t, report) {
		t.Error("it remains")
	}
}

// isMissing reports whether an object of a kind that is served does not exist.
func isMissing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
