package operands_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// withBindings gives the requesters of the operand files a Secret and more.
func (s *tools) withBindings(t *testing.T, bindings string) (source *corev1.Secret) {
	t.Helper()
	source = &corev1.Secret{}
	s.create(t, source, s.home, "admin", "{type: example.com/any, stringData: {password: first}}")
	s.create(t, &v1alpha1.OperandBindInfo{}, s.home, "info", "{spec: {operand: files, registry: tools, bindings: "+bindings+"}}")
	return source
}

func (r *rig) expectSecret(t *testing.T, namespace, name, want string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if exists := r.exists(t, secret); exists != (want != "") || string(secret.Data["password"]) != want {
		t.Errorf("Secret %s exists: %t, with %s", name, exists, secret.Data)
	}
}

func TestCopies(t *testing.T) {
	s := newTools(t)
	team := s.newTeam(t)
	source := s.withBindings(t, "{public: {secret: admin}, protected: {secret: admin}, private: {secret: admin}, public-url: {service: {name: files, data: {port: ':+.spec.ports[0].port'}}}}")
	s.create(t, &corev1.Service{}, s.home, "files", "{spec: {ports: [{port: 8081}]}}")
	theirs := &corev1.Secret{}
	s.create(t, theirs, team, "theirs", "{stringData: {password: kept}}")
	request := s.request(t, team, "request", "{name: files, bindings: {protected: {secret: theirs}, private: {secret: no}}}")
	s.fails(t, request, v2beta2.ReasonForeignObject, "theirs\" exists and was not created for this operand")
	s.expectSecret(t, team, "info-admin", "first")
	s.expectSecret(t, team, "theirs", "kept")
	s.expectSecret(t, team, "no", "")
	address := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "info-files"}}
	if !s.exists(t, address) || address.Data["port"] != ":8081" {
		t.Errorf("got %v", address.Data)
	}
	s.manage(t)
	s.patch(t, source, "{stringData: {password: second}}")
	s.patch(t, s.config, "{spec: {services: [{name: files, spec: {misspelt: {}}}]}}")
	s.fails(t, request, v1alpha1.ReasonInvalidOperand, "has no kind")
	s.expectSecret(t, team, "info-admin", "second")

	s.patch(t, s.registry, "{spec: {operators: [{name: files, collection: {name: oc}, scope: private}]}}")
	s.fails(t, request, v1alpha1.ReasonOutOfScope, "is private")
	s.expectSecret(t, team, "info-admin", "")
	s.expectSecret(t, team, "theirs", "kept")
}

// Whoever gives a Secret away can take it back, also from those who want to keep it.
func TestCopyIsTakenBack(t *testing.T) {
	s := newTools(t)
	s.withBindings(t, "{public: {secret: admin}}")
	team := s.newTeam(t)
	request := s.running(t, team, "request", files)
	s.patch(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "info-admin"}}, "{metadata: {labels: {"+v1alpha1.LabelKeep+": 'true'}}}")
	s.delete(t, &v1alpha1.OperandBindInfo{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: "info"}})
	s.runs(t, request)
	s.expectSecret(t, team, "info-admin", "")
}

// Requests of a namespace share a copy: it goes with the last one.
func TestCopyIsShared(t *testing.T) {
	s := newTools(t)
	s.withBindings(t, "{public: {secret: admin}}")
	team := s.newTeam(t)
	first, second := s.running(t, team, "first", files), s.running(t, team, "second", files)
	s.delete(t, first)
	s.ends(t, first)
	s.expectSecret(t, team, "info-admin", "first")
	s.delete(t, second)
	_, err := s.reconcile(t, second)
	apiserver.Must(t, err)
	s.manage(t)
	s.ends(t, second)
	s.expectSecret(t, team, "info-admin", "")
	s.expectSecret(t, s.home, "admin", "first")
}

func TestCopyOfWhatCannotBeCopied(t *testing.T) {
	for name, test := range map[string]struct{ bindings, reason, text string }{
		"a Secret that does not exist": {"{public: {secret: missing}}", v1alpha1.ReasonBindingNotFound, "which an OperandBindInfo names, does not exist yet"},
		"a token":                      {"{public: {secret: token}}", v1alpha1.ReasonInvalidOperand, "is a token of a ServiceAccount: these are not copied"},
		"a field that does not exist":  {"{public: {service: {name: files, data: {a: .spec.nothing}}}}", v1alpha1.ReasonBindingNotFound, "there is no such text or number"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTools(t)
			s.withBindings(t, test.bindings)
			s.create(t, &corev1.Secret{}, s.home, "token", "{type: kubernetes.io/service-account-token, metadata: {annotations: {kubernetes.io/service-account.name: default}}}")
			s.create(t, &corev1.Service{}, s.home, "files", "{spec: {ports: [{port: 8081}]}}")
			request := s.request(t, s.home, "request", files)
			_, err := s.reconcile(t, request)
			apiserver.Must(t, err)
			s.manage(t)
			s.fails(t, request, test.reason, test.text)
			if writes := append(ofObjects(s.writes.Take(), "/secrets"), ofObjects(inventoryOf(request), "Binding")...); len(writes) > 0 {
				t.Errorf("got %q", writes)
			}
			if !s.exists(t, s.shared()) {
				t.Error("the resource waits for it")
			}
		})
	}
}

// Routes are those of OpenShift. Other clusters do without.
func TestRouteElsewhere(t *testing.T) {
	s := newTools(t)
	s.withBindings(t, "{public: {route: {name: files}}}")
	request := s.running(t, s.home, "request", files)
	if got := inventoryOf(request); slices.ContainsFunc(got, func(e string) bool { return strings.HasPrefix(e, "Binding") }) {
		t.Errorf("the inventory is %q", got)
	}
	s.faults.Set("get Route", errAway)
	if _, err := s.reconcile(t, request); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
}
