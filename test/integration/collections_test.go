package integration

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// domain of every collection of the specs.
const domain = "it"

// sample is a small collection with one kind. No two samples share name or kind unless a spec wants them to;
// names and kinds sort in the order in which they were made.
type sample struct {
	name, kind, version string
	// variables and permissions are added to operator-config as they are.
	variables, permissions string
	// files replace those of the collection, or remove them if they are empty.
	files map[string]string
}

var samples int

func newSample() *sample {
	samples++
	return &sample{
		name: fmt.Sprintf("thing%04d", samples), kind: fmt.Sprintf("Thing%04d", samples), version: "1.0.0",
		variables: "{name: size, displayName: Size, type: integer, default: 3}",
	}
}

func (s *sample) plural() string   { return strings.ToLower(s.kind) + "s" }
func (s *sample) crdName() string  { return s.plural() + "." + SharedGroup }
func (s *sample) operator() string { return domain + "-" + s.name + "-operator" }
func (s *sample) clusterRole(namespace string) string {
	return "zoscb:" + namespace + ":" + s.operator()
}

// apiVersion is the name of the sample's version: v1minor0patch0.
func (s *sample) apiVersion() string {
	parts := strings.Split(s.version, ".")
	return "v" + parts[0] + "minor" + parts[1] + "patch" + parts[2]
}

// operatorConfig is the sample's operator-config.yml.
func (s *sample) operatorConfig() string {
	return strings.Join([]string{
		"domain: " + domain,
		"name: " + s.name,
		"version: " + s.version,
		"displayName: " + s.kind,
		"resources:",
		"  - kind: " + s.kind,
		"    playbook: play.yml",
		"    finalizer: play.yml",
		"    vars:",
		"      - " + s.variables,
		s.permissions,
	}, "\n")
}

func (s *sample) archive() []byte {
	GinkgoHelper()
	return Build(Minimal(domain, s.name, s.version, s.operatorConfig(), s.files))
}

// pinned is the spec of an OperatorCollection whose digest is right, with the archive on the web server.
func (s *sample) pinned() v2beta2.OperatorCollectionSpec {
	GinkgoHelper()
	return pinned(s.archive())
}

func pinned(content []byte) v2beta2.OperatorCollectionSpec {
	return v2beta2.OperatorCollectionSpec{CollectionURL: web.Serve(content), Digest: DigestOf(content)}
}

// instance is a custom resource of the sample's kind.
func (s *sample) instance(namespace, name string) *unstructured.Unstructured {
	return Instance(s.apiVersion(), s.kind, namespace, name, map[string]any{"zosendpoint": "lpar1"})
}

func newCollection(namespace, name string, spec v2beta2.OperatorCollectionSpec) *v2beta2.OperatorCollection {
	return &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

// importSample creates an OperatorCollection named oc and waits until it is imported.
func importSample(ctx context.Context, namespace string, s *sample) *v2beta2.OperatorCollection {
	GinkgoHelper()
	oc := newCollection(namespace, "oc", s.pinned())
	Create(ctx, oc)
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
	return oc
}

// installSample also makes the operator's Deployment available and waits until all is Ready.
func installSample(ctx context.Context, namespace string, s *sample) *v2beta2.OperatorCollection {
	GinkgoHelper()
	oc := importSample(ctx, namespace, s)
	makeAvailable(ctx, namespace, s.operator())
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(ConditionTrue())
	return oc
}

// defaultSOC is the SubOperatorConfig that the manager makes for an OperatorCollection.
func defaultSOC(oc client.Object) *v2beta2.SubOperatorConfig {
	return &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: oc.GetNamespace(), Name: oc.GetName() + "-soc"}}
}
