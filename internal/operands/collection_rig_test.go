package operands_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

const (
	files    = "{name: files}"
	own      = "{name: files, kind: DataFile, apiVersion: suboperator.zoscb.ibm.com/v1, instanceName: own, spec: {zosendpoint: lpar1, size: 8}}"
	consents = "zoscb.ibm.com/allow-mapping-from"
)

// tools has the OperandRegistry tools with the operator files, which is that of an OperatorCollection, in the namespace home. The
// SubOperatorConfig maps nothing.
type tools struct {
	*rig
	oc       *v2beta2.OperatorCollection
	soc      *v2beta2.SubOperatorConfig
	registry *v1alpha1.OperandRegistry
	config   *v1alpha1.OperandConfig
}

func newTools(t *testing.T) *tools {
	t.Helper()
	return toolsOf(t, newRig(t))
}

func toolsOf(t *testing.T, r *rig) *tools {
	t.Helper()
	s := &tools{rig: r, oc: &v2beta2.OperatorCollection{}, soc: &v2beta2.SubOperatorConfig{}, registry: &v1alpha1.OperandRegistry{}, config: &v1alpha1.OperandConfig{}}
	r.create(t, s.oc, r.home, "oc", "{}")
	s.oc.Status.Collection = &v2beta2.ImportedCollection{Domain: "tests", Name: "files", Version: "1.0.0", APIVersion: "suboperator.zoscb.ibm.com/v1", Kinds: []string{"DataFile"}}
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), s.oc))
	r.create(t, s.soc, r.home, "soc", "{spec: {operatorCollection: oc}}")
	r.create(t, s.registry, r.home, "tools", "{spec: {operators: [{name: files, collection: {name: oc}, scope: public}]}}")
	r.create(t, s.config, r.home, "tools", "{spec: {services: [{name: files, spec: {dataFile: {zosendpoint: lpar1, size: 5, note: a}}}]}}")
	return s
}

// newTeam returns a namespace in which the operator may be installed.
func (s *tools) newTeam(t *testing.T) string {
	t.Helper()
	team := s.server.Namespace(t)
	s.annotate(t, team, consents, s.home)
	return team
}

func (r *rig) annotate(t *testing.T, namespace, annotation, value string) {
	t.Helper()
	r.patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, fmt.Sprintf("{metadata: {annotations: {%q: %q}}}", annotation, value))
}

// manage plays the part of the manager: the operators run where they are mapped.
func (s *tools) manage(t *testing.T) {
	t.Helper()
	var installations []v2beta2.InstallationStatus
	for _, namespace := range s.mapped(t) {
		installations = append(installations, v2beta2.InstallationStatus{Namespace: namespace, Digest: "sha256:1", Ready: true})
	}
	s.report(t, installations...)
}

// report writes the status of the SubOperatorConfig.
func (s *tools) report(t *testing.T, installations ...v2beta2.InstallationStatus) {
	t.Helper()
	s.mapped(t)
	s.soc.Status.Installations = installations
	apiserver.Must(t, s.server.Client.Status().Update(t.Context(), s.soc))
}

// mapped returns the namespaces that the SubOperatorConfig maps, sorted.
func (s *tools) mapped(t *testing.T) []string {
	t.Helper()
	*s.soc = v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: s.home, Name: "soc"}}
	apiserver.Must(t, s.server.Client.Get(t.Context(), client.ObjectKeyFromObject(s.soc), s.soc))
	var namespaces []string
	for _, m := range s.soc.Spec.Mapping {
		namespaces = append(namespaces, m.Namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}

func (s *tools) expectMapped(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := s.mapped(t); !slices.Equal(got, want) {
		t.Errorf("the SubOperatorConfig maps %q, want %q", got, want)
	}
}

// running returns a request whose operator and resources run.
func (s *tools) running(t *testing.T, namespace, name string, wanted ...string) *v1alpha1.OperandRequest {
	t.Helper()
	request := s.request(t, namespace, name, wanted...)
	s.run(t, request)
	return request
}

// run reconciles a request until what it wants runs.
func (s *tools) run(t *testing.T, request *v1alpha1.OperandRequest) {
	t.Helper()
	_, err := s.reconcile(t, request)
	apiserver.Must(t, err)
	s.manage(t)
	s.runs(t, request)
	s.writes.Take()
}

// shared is the resource that the OperandConfig specifies.
func (s *tools) shared() *unstructured.Unstructured { return dataFile(s.home, "files") }

// dataFile is a resource of the kind of the collection.
func dataFile(namespace, name string) *unstructured.Unstructured {
	return instance("suboperator.zoscb.ibm.com/v1", "DataFile", namespace, name)
}

// specOf reads an object, and returns its spec.
func (r *rig) specOf(t *testing.T, object *unstructured.Unstructured) map[string]any {
	t.Helper()
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	spec, _, err := unstructured.NestedMap(object.Object, "spec")
	apiserver.Must(t, err)
	return spec
}

// reports writes a condition into the status of a resource, as its operator does.
func (r *rig) reports(t *testing.T, object *unstructured.Unstructured, condition, state, message string) {
	t.Helper()
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	var status map[string]any
	apiserver.Must(t, yaml.Unmarshal(fmt.Appendf(nil, "{observedGeneration: %d, conditions: [{type: %s, status: %q, reason: Said, message: %q, lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}",
		object.GetGeneration(), condition, state, message), &status))
	object.Object["status"] = status
	apiserver.Must(t, r.server.Client.Status().Update(t.Context(), object))
}
