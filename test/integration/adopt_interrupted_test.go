package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/collection/render"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// failingAPI stands between a command and the API server. It passes on a number of requests that change something, and refuses what
// would be written after them.
type failingAPI struct {
	mutex sync.Mutex
	left  int
	// changes are the requests that changed something since the last call of allow.
	changes []string
}

// sentVersion is a header with the resourceVersion that a request has.
const sentVersion = "X-Sent-Version"

// startFailingAPI returns it, and a kubeconfig.
func startFailingAPI(folder string) (*failingAPI, string) {
	GinkgoHelper()
	target, err := url.Parse(RestConfig.Host)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(RestConfig)
	Expect(err).NotTo(HaveOccurred())
	api := &failingAPI{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1, ModifyResponse: api.count,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			proxy.ServeHTTP(w, r)
			return
		}
		if api.isSpent() {
			http.Error(w, "refused", http.StatusInternalServerError)
			return
		}
		content, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(content))
		r.Header.Set(sentVersion, resourceVersionOf(content))
		proxy.ServeHTTP(w, r)
	}))
	DeferCleanup(server.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: server.URL}
	config.Contexts["cluster"] = &clientcmdapi.Context{Cluster: "cluster"}
	config.CurrentContext = "cluster"
	kubeconfig := filepath.Join(folder, "failing")
	Expect(clientcmd.WriteToFile(*config, kubeconfig)).To(Succeed())
	return api, kubeconfig
}

func resourceVersionOf(content []byte) string {
	var object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(content, &object)
	return object.Metadata.ResourceVersion
}

func (a *failingAPI) allow(changes int) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.left, a.changes = changes, nil
}

func (a *failingAPI) isSpent() bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.left == 0
}

func (a *failingAPI) changed() []string {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.changes
}

// count counts a request whose object has another resourceVersion by now.
func (a *failingAPI) count(response *http.Response) error {
	request := response.Request
	if request.Method == http.MethodGet || response.StatusCode >= http.StatusBadRequest {
		return nil
	}
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(content))
	if request.Method == http.MethodPut && resourceVersionOf(content) == request.Header.Get(sentVersion) {
		return nil
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.left--
	a.changes = append(a.changes, request.Method+" "+request.URL.Path)
	return nil
}

// interrupt runs adopt again and again, and lets each attempt change one thing, until one has nothing more to change. It returns all
// changes.
func (p *product) interrupt(ctx context.Context, api *failingAPI, kubeconfig string, more ...string) (changes []string) {
	GinkgoHelper()
	args := append([]string{"adopt", "--kubeconfig", kubeconfig, "--archives", p.folder}, p.backup(more...)...)
	for {
		api.allow(1)
		session := startTool(toolBinary(), args...)
		Eventually(ctx, session.Exited).Should(BeClosed())
		changes = append(changes, api.changed()...)
		if session.ExitCode() == 0 {
			return changes
		}
		output := string(session.Out.Contents()) + string(session.Err.Contents())
		Expect(output).To(And(ContainSubstring("is not complete, and can be repeated"), ContainSubstring("refused")))
		Expect(api.changed()).To(HaveLen(1), "an attempt goes on where the one before ended: %s\n%s", strings.Join(changes, "\n"), output)
	}
}

// installByOLM lets the operator of a sample be one that the Operator Lifecycle Manager installed.
func (p *product) installByOLM(ctx context.Context, s *sample) {
	GinkgoHelper()
	installOLM(ctx)
	p.byOLM = s
	subscription, version := p.packages(s)
	Create(ctx, subscription, version)
	Patch(ctx, deployment(p.namespace, s.operator()), `{"metadata":{"labels":{"olm.owner":"`+version.GetName()+`"}}}`)
}

// packages are the Subscription and the ClusterServiceVersion of a sample.
func (p *product) packages(s *sample) (subscription, version *unstructured.Unstructured) {
	GinkgoHelper()
	name := s.operator() + ".v" + s.version
	subscription, version = &unstructured.Unstructured{}, &unstructured.Unstructured{}
	Expect(subscription.UnmarshalJSON([]byte(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"Subscription","metadata":{"namespace":"` + p.namespace + `","name":"` + s.operator() +
		`"},"spec":{"name":"` + s.operator() + `","source":"a","sourceNamespace":"b","startingCSV":"` + name + `"}}`))).To(Succeed())
	Expect(version.UnmarshalJSON([]byte(`{"apiVersion":"operators.coreos.com/v1alpha1","kind":"ClusterServiceVersion","metadata":{"namespace":"` + p.namespace + `","name":"` + name +
		`"},"spec":{"displayName":"a","install":{"strategy":"deployment","spec":{"deployments":[]}}}}`))).To(Succeed())
	return subscription, version
}

var _ = Describe("An adoption that is interrupted", func() {
	It("goes on after each of its writes, and so does the way back", Slow, Label("soak"), func(ctx context.Context) {
		p := newProduct(ctx, 1, 1)
		p.installByOLM(ctx, p.samples[0])
		p.stopManagers(ctx)
		Expect(os.WriteFile(filepath.Join(p.folder, "uploaded.tar.gz"), p.samples[0].archive(), 0o600)).To(Succeed())
		original := p.content(ctx)
		api, kubeconfig := startFailingAPI(p.folder)

		By("adopting")
		changes := p.interrupt(ctx, api, kubeconfig)
		AddReportEntry("changes", strings.Join(changes, "\n"))
		Expect(changes).To(ContainElements(HaveSuffix("/subscriptions/"+p.samples[0].operator()), HaveSuffix("/deployments/"+p.samples[0].operator()),
			HaveSuffix("/customresourcedefinitions/operatorcollections.zoscb.ibm.com/status")))
		resource := p.resources(ctx)[0]
		Expect(resource.GetFinalizers()).To(Equal([]string{render.Finalizer}))
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(p.deployment(p.samples[0].operator(), nil)), &appsv1.Deployment{})).NotTo(Succeed())
		Expect(p.run(ctx, 0, p.backup()...)).To(ContainSubstring("there is nothing to adopt"))

		By("going back")
		p.interrupt(ctx, api, kubeconfig, "--back")
		Expect(p.content(ctx)).To(Equal(original))

		By("adopting a part, and going back from there")
		p.saved = "second"
		operator := p.deployment(p.samples[0].operator(), map[string]string{"operator-name": p.samples[0].name})
		operator.Spec.Template.Spec.ServiceAccountName = operator.Name
		_, version := p.packages(p.samples[0])
		Create(ctx, operator, version) // What OLM does.
		api.allow(8)
		runTool(ctx, 2, toolBinary(), append([]string{"adopt", "--kubeconfig", kubeconfig, "--archives", p.folder}, p.backup()...)...)
		p.saved = "another"
		Expect(p.run(ctx, 1, p.backup()...)).To(ContainSubstring("name that folder with --backup"))
		p.saved = "second"
		Expect(p.run(ctx, 0, p.backup("--back")...)).To(ContainSubstring("The cluster is as before"))
		Expect(p.content(ctx)).To(Equal(original))

		By("going back after a collection was removed, and OLM")
		p.saved = "third"
		Expect(p.run(ctx, 0, p.backup()...)).To(ContainSubstring("Adopted."))
		Patch(ctx, p.resources(ctx)[0], `{"metadata":{"finalizers":null}}`)
		for _, crd := range append(olmCRDs(), customResourceDefinition(p.samples[0].crdName())) {
			Remove(ctx, crd)
			Eventually(ctx, Gone(ctx, crd)).Should(BeTrue())
		}
		Expect(p.run(ctx, 0, p.backup("--back")...)).To(And(ContainSubstring(resource.GetName()+" was deleted since then"),
			ContainSubstring("Subscription zoscb/"+p.samples[0].operator()+" is not made again"), ContainSubstring("The cluster is as before")))
	})
})
