package integration

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// watchLag is how late events come: much later than it takes to reconcile.
const watchLag = 2 * time.Second

// laggingAPI stands between the manager and the API server. Events of one resource come late through it.
type laggingAPI struct {
	url, certificate string
	// late is the resource.
	late atomic.Pointer[string]
	// refused is a resource that this API server does not serve now.
	refused atomic.Pointer[refusal]
}

// refusal is the answer to all requests for a resource. With 404, the API server does not know it yet.
type refusal struct {
	resource string
	code     int
}

func (a *laggingAPI) refuse(resource string, code int) { a.refused.Store(&refusal{resource, code}) }

// laggingWatch is the body of a watch.
type laggingWatch struct {
	io.ReadCloser
	resource string
	api      *laggingAPI
}

func (w laggingWatch) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if late := w.api.late.Load(); late != nil && *late == w.resource {
		<-time.After(watchLag)
	}
	return n, err
}

func startLaggingAPI() *laggingAPI {
	GinkgoHelper()
	api := &laggingAPI{}
	target, err := url.Parse(RestConfig.Host)
	Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(RestConfig))
	Expect(err).NotTo(HaveOccurred())
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     transport,
		FlushInterval: -1, // At once.
		ModifyResponse: func(response *http.Response) error {
			if asked := response.Request.URL; asked.Query().Get("watch") == "true" {
				response.Body = laggingWatch{response.Body, path.Base(asked.Path), api}
			}
			return nil
		},
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refused := api.refused.Load(); refused != nil && slices.Contains(strings.Split(r.URL.Path, "/"), refused.resource) {
			http.Error(w, "no", refused.code)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	server.StartTLS()
	DeferCleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	api.url, api.certificate = server.URL, encode(server.Certificate())
	return api
}

// restartWith starts the manager, with flags beside the usual ones, so that it reaches the API server through this one until the spec
// ends.
func (m *managerProcess) restartWith(ctx context.Context, api *laggingAPI, flags ...string) {
	GinkgoHelper()
	usual := m.kubeconfig
	config, err := clientcmd.LoadFromFile(usual)
	Expect(err).NotTo(HaveOccurred())
	config.Clusters["cluster"] = &clientcmdapi.Cluster{Server: api.url, CertificateAuthorityData: []byte(api.certificate)}
	m.kubeconfig = usual + "-lagging"
	Expect(clientcmd.WriteToFile(*config, m.kubeconfig)).To(Succeed())
	m.restart(ctx, slices.Concat(usualFlags, flags)...)
	DeferCleanup(func() { m.kubeconfig = usual })
}

var _ = Describe("A manager that learns late of what it wrote itself", func() {
	It("lets the last word stand", func(ctx context.Context) {
		namespace, s, api := newNamespace(ctx), newSample(), startLaggingAPI()
		theManager.restartWith(ctx, api)
		local := newEndpoint(namespace, "pod", nil)
		local.Spec.EndpointType = v2beta2.EndpointLocal
		Create(ctx, local)
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		// lag makes a resource late once everybody knows that all is well.
		lag := func(resource string, objects ...client.Object) {
			GinkgoHelper()
			for _, object := range objects {
				ExpectReady(ctx, object)
				Consistently(ctx, Condition(ctx, object, v2beta2.ConditionReady)).Should(ConditionTrue())
			}
			api.late.Store(&resource)
		}

		By("an OperatorCollection whose SubOperatorConfig is being installed, and is installed")
		lag("operatorcollections", soc, oc)
		Patch(ctx, soc, `{"spec":{"runtime":{"networkPolicy":{"egress":"Restricted","allowTo":[{"cidr":"192.0.2.1/32"}]}}}}`)
		ExpectReady(ctx, soc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(soon).Should(ConditionTrue())

		By("a ZosEndpoint that another SubOperatorConfig uses, and does not use any more")
		users := func(g Gomega) []v2beta2.SubOperatorConfigReference {
			Get(ctx, g, local)
			return local.Status.SubOperatorConfigs
		}
		Eventually(ctx, users).Should(HaveLen(1))
		lag("zosendpoints", soc, oc, local)
		other := newSOC(namespace, "other", "absent")
		Create(ctx, other)
		Eventually(ctx, users).Should(HaveLen(2))
		Remove(ctx, other)
		Eventually(ctx, users).WithTimeout(soon).Should(HaveLen(1))
	})
})

var _ = Describe("An API server that does not serve a kind yet", func() {
	It("makes nobody believe that there are no custom resources", func(ctx context.Context) {
		namespace, s, api := newNamespace(ctx), newSample(), startLaggingAPI()
		theManager.restartWith(ctx, api)
		oc := installSample(ctx, namespace, s)
		soc, thing := defaultSOC(oc), s.instance(namespace, "one")
		Create(ctx, thing)
		before := versions(installed(ctx, soc))
		api.refuse(s.plural(), http.StatusNotFound)
		Remove(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonProgressing, "custom resources of "+s.crdName()+": the API server does not serve it", false)
		Consistently(ctx, func(g Gomega) {
			g.Expect(versions(installed(ctx, soc))).To(Equal(before))
			g.Expect(Live(ctx, g, thing).GetDeletionTimestamp()).To(BeNil())
			g.Expect(Live(ctx, g, customResourceDefinition(s.crdName())).GetDeletionTimestamp()).To(BeNil())
		}).Should(Succeed())

		By("waiting for them when it serves the kind")
		api.refused.Store(nil)
		ExpectFailure(ctx, oc, v2beta2.ReasonInstancesExist, s.kind+" "+namespace+"/one", false)
		Remove(ctx, thing)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
	})
})
