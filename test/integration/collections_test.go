package integration

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing/fstest"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/galaxy"
)

// domain of every collection of the stories.
const domain = "it"

// sharedGroup is the API group of generated kinds.
const sharedGroup = "suboperator.zoscb.ibm.com"

// sample is a small collection with one kind. No two samples share name or kind unless a story wants them to.
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
		name: fmt.Sprintf("thing%d", samples), kind: fmt.Sprintf("Thing%d", samples), version: "1.0.0",
		variables: "{name: size, displayName: Size, type: integer, default: 3}",
	}
}

func (s *sample) plural() string   { return strings.ToLower(s.kind) + "s" }
func (s *sample) crdName() string  { return s.plural() + "." + sharedGroup }
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
	files := map[string]string{
		"galaxy.yml":          fmt.Sprintf("{namespace: %s, name: %s, version: %s, readme: README.md, authors: [tests]}", domain, s.name, s.version),
		"README.md":           "# " + s.name + "\n",
		"operator-config.yml": s.operatorConfig(),
		"play.yml":            "- {name: Nothing, hosts: all, gather_facts: false, tasks: [ansible.builtin.raw: 'true']}\n",
	}
	for name, content := range s.files {
		files[name] = content
	}
	folder := fstest.MapFS{}
	for name, content := range files {
		if content != "" {
			folder[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
		}
	}
	var archive bytes.Buffer
	Expect(galaxy.Build(folder, &archive)).To(Succeed())
	return archive.Bytes()
}

// pinned is the spec of an OperatorCollection whose digest is right, with the archive on the web server.
func (s *sample) pinned() v2beta2.OperatorCollectionSpec {
	GinkgoHelper()
	return pinned(s.archive())
}

func pinned(content []byte) v2beta2.OperatorCollectionSpec {
	return v2beta2.OperatorCollectionSpec{CollectionURL: web.serve(content), Digest: digestOf(content)}
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }

// instance is a custom resource of the sample's kind.
func (s *sample) instance(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": sharedGroup + "/" + s.apiVersion(),
		"kind":       s.kind,
		"metadata":   map[string]any{"name": name, "namespace": namespace},
		"spec":       map[string]any{"zosendpoint": "lpar1"},
	}}
}

func newCollection(namespace, name string, spec v2beta2.OperatorCollectionSpec) *v2beta2.OperatorCollection {
	return &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
}

// importSample creates an OperatorCollection named oc and waits until it is imported.
func importSample(ctx context.Context, namespace string, s *sample) *v2beta2.OperatorCollection {
	GinkgoHelper()
	oc := newCollection(namespace, "oc", s.pinned())
	create(ctx, oc)
	Eventually(conditionOf(ctx, oc, v2beta2.ConditionImported)).WithContext(ctx).Should(beTrue())
	return oc
}

// installSample also makes the operator's Deployment available and waits until all is Ready.
func installSample(ctx context.Context, namespace string, s *sample) *v2beta2.OperatorCollection {
	GinkgoHelper()
	oc := importSample(ctx, namespace, s)
	makeAvailable(ctx, namespace, s.operator())
	Eventually(conditionOf(ctx, oc, v2beta2.ConditionReady)).WithContext(ctx).Should(beTrue())
	return oc
}

// defaultSOC is the SubOperatorConfig that the manager makes for an OperatorCollection.
func defaultSOC(oc client.Object) *v2beta2.SubOperatorConfig {
	return &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: oc.GetNamespace(), Name: oc.GetName() + "-soc"}}
}

// tarball is a tar.gz of files with one line each.
func tarball(names ...string) []byte {
	GinkgoHelper()
	var archive bytes.Buffer
	zipped := gzip.NewWriter(&archive)
	writer := tar.NewWriter(zipped)
	for _, name := range names {
		Expect(writer.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 5})).To(Succeed())
		_, err := writer.Write([]byte("line\n"))
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(writer.Close()).To(Succeed())
	Expect(zipped.Close()).To(Succeed())
	return archive.Bytes()
}

// webServer serves archives over HTTP, well and badly.
type webServer struct {
	server *httptest.Server
	mu     sync.Mutex
	paths  map[string]http.HandlerFunc
}

func startWebServer() *webServer {
	w := &webServer{paths: map[string]http.HandlerFunc{}}
	w.server = httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		w.mu.Lock()
		handle := w.paths[request.URL.Path]
		w.mu.Unlock()
		if handle == nil {
			http.NotFound(response, request)
			return
		}
		handle(response, request)
	}))
	return w
}

func (w *webServer) close() {
	w.server.CloseClientConnections()
	w.server.Close()
}

// serve returns a new URL at which the content lies.
func (w *webServer) serve(content []byte) string {
	return w.handle(func(response http.ResponseWriter, _ *http.Request) { _, _ = response.Write(content) })
}

// handle returns a new URL that the handler answers for.
func (w *webServer) handle(handler http.HandlerFunc) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	path := fmt.Sprintf("/%d.tar.gz", len(w.paths))
	w.paths[path] = handler
	return w.server.URL + path
}

// replace changes what a URL of serve or handle answers.
func (w *webServer) replace(url string, handler http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paths[strings.TrimPrefix(url, w.server.URL)] = handler
}
