package integration

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// stored reads what etcd has of a custom resource, without the API server, which would set defaults.
func stored(ctx context.Context, s *sample, namespace, name string) map[string]any {
	GinkgoHelper()
	dir := filepath.Dir(controlPlane.Kubeconfig)
	content, err := os.ReadFile(filepath.Join(dir, "run", "etcd.json"))
	Expect(err).NotTo(HaveOccurred())
	var process struct {
		PID int `json:"pid"`
	}
	Expect(json.Unmarshal(content, &process)).To(Succeed())
	content, err = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", process.PID))
	Expect(err).NotTo(HaveOccurred())
	_, address, found := strings.Cut(string(content), "--advertise-client-urls=")
	Expect(found).To(BeTrue())
	address, _, _ = strings.Cut(address, "\x00")
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki", "apiserver-etcd.crt"), filepath.Join(dir, "pki", "apiserver-etcd.key"))
	Expect(err).NotTo(HaveOccurred())
	authority, err := os.ReadFile(filepath.Join(dir, "pki", "ca.crt"))
	Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	Expect(roots.AppendCertsFromPEM(authority)).To(BeTrue())
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}}}
	defer web.CloseIdleConnections()
	key := base64.StdEncoding.EncodeToString([]byte("/registry/" + SharedGroup + "/" + s.plural() + "/" + namespace + "/" + name))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/v3/kv/range", strings.NewReader(fmt.Sprintf(`{"key":%q}`, key)))
	Expect(err).NotTo(HaveOccurred())
	response, err := web.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	var answer struct {
		Kvs []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
	Expect(answer.Kvs).To(HaveLen(1))
	object := map[string]any{}
	Expect(json.Unmarshal(answer.Kvs[0].Value, &object)).To(Succeed())
	return object
}

// importMinors imports the versions 1.<first>.0 to 1.<last>.0 one after the other.
func importMinors(ctx context.Context, oc *v2beta2.OperatorCollection, s *sample, first, last int) {
	GinkgoHelper()
	for minor := first; minor <= last; minor++ {
		s.version = fmt.Sprintf("1.%d.0", minor)
		changeSpec(ctx, oc, s.pinned())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionTrue(), WithMessage("version "+s.version+" ")))
	}
}

// importOnly imports a sample that no operator is installed for.
func importOnly(ctx context.Context, namespace string, s *sample) *v2beta2.OperatorCollection {
	GinkgoHelper()
	Create(ctx, mapsNothing(namespace, "oc"))
	return importSample(ctx, namespace, s)
}

// mapsNothing is a SubOperatorConfig that installs no operator.
func mapsNothing(namespace, collection string) *v2beta2.SubOperatorConfig {
	soc := newSOC(namespace, "none-of-"+collection, collection)
	soc.Spec.Mapping = []v2beta2.NamespaceMapping{}
	return soc
}

// versionStage is the stage of a version of a sample now.
func versionStage(ctx context.Context, s *sample, minor int) func(Gomega) string {
	return func(g Gomega) string {
		definition := customResourceDefinition(s.crdName())
		Get(ctx, g, definition)
		return stageOf(definition, minor)
	}
}

// stageOf says what the API server does with a version: "served", "deprecated", "not served" or "removed".
func stageOf(definition *apiextensionsv1.CustomResourceDefinition, minor int) string {
	for _, version := range definition.Spec.Versions {
		switch {
		case version.Name != fmt.Sprintf("v1minor%dpatch0", minor):
		case !version.Served:
			return "not served"
		case version.Deprecated:
			return "deprecated"
		default:
			return "served"
		}
	}
	return "removed"
}

func storedVersions(ctx context.Context, s *sample) func(Gomega) []string {
	return func(g Gomega) []string {
		definition := customResourceDefinition(s.crdName())
		Get(ctx, g, definition)
		return definition.Status.StoredVersions
	}
}

// warnings are those that the API server sends.
type warnings struct {
	sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.Lock()
	defer w.Unlock()
	w.texts = append(w.texts, text)
}

func (w *warnings) all() []string {
	w.Lock()
	defer w.Unlock()
	return slices.Clone(w.texts)
}

// listening returns a client, and what the API server warns it of.
func listening() (*warnings, client.Client) {
	GinkgoHelper()
	config, heard := rest.CopyConfig(RestConfig), &warnings{}
	config.WarningHandler = heard
	c, err := client.New(config, client.Options{})
	Expect(err).NotTo(HaveOccurred())
	return heard, c
}

// warningsFor reads an object, and returns the warnings of the API server, which follows a changed CustomResourceDefinition a moment later.
func warningsFor(ctx context.Context, object *unstructured.Unstructured) func(Gomega) []string {
	return func(g Gomega) []string {
		heard, c := listening()
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopy())).To(Succeed())
		return heard.all()
	}
}

// shortLives are flags with which versions end within seconds.
func shortLives(retention, deprecation time.Duration) []string {
	return []string{"--version-retention=" + retention.String(), "--version-deprecation-period=" + deprecation.String()}
}

var _ = Describe("A version that nothing uses", func() {
	It("is deprecated, then not served, then removed, and no resource changes", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := importOnly(ctx, namespace, s)
		one := s.instance(namespace, "one")
		Create(ctx, one)
		before := stored(ctx, s, namespace, "one")
		Expect(before).To(HaveKeyWithValue("apiVersion", SharedGroup+"/v1minor0patch0"))
		By("importing eleven newer versions, of which the last has another field with a default")
		first := *s
		importMinors(ctx, oc, s, 1, 10)
		imported := newCollection(namespace, "imported", func() v2beta2.OperatorCollectionSpec { second := *s; second.version = "1.1.0"; return second.pinned() }())
		Create(ctx, mapsNothing(namespace, "imported"), imported)
		Eventually(ctx, Condition(ctx, imported, v2beta2.ConditionImported)).Should(ConditionTrue())
		s.variables += "\n      - {name: colour, displayName: Colour, type: string, default: red}"
		importMinors(ctx, oc, s, 11, 12)
		Expect(stored(ctx, s, namespace, "one")).To(Equal(before))
		Expect(warningsFor(ctx, first.instance(namespace, "one"))(Default)).To(BeEmpty())
		Patch(ctx, oc, `{"metadata":{"annotations":{"noise":"1"}}}`)
		Expect(K8s.Status().Patch(ctx, oc, client.RawPatch("application/merge-patch+json", []byte(MustJSON(map[string]any{"status": map[string]any{
			"history": []map[string]any{{"version": "1.2.0", "digest": "sha256:" + strings.Repeat("0", 64), "time": "2026-01-01T00:00:00Z", "outcome": "Replaced"}},
		}}))))).To(Succeed())

		By("warning those that use it")
		withFlags(ctx, shortLives(time.Second, time.Hour)...)
		Eventually(ctx, versionStage(ctx, s, 0)).Should(Equal("deprecated"))
		Eventually(ctx, warningsFor(ctx, first.instance(namespace, "one"))).Should(
			ConsistOf(ContainSubstring("version v1minor0patch0 of " + s.kind + " is deprecated and ends on")))

		By("rewriting the resource before the version is not served any more")
		definitions := WatchStates(ctx, "", &apiextensionsv1.CustomResourceDefinitionList{})
		withFlags(ctx, shortLives(time.Second, time.Second)...)
		Eventually(ctx, storedVersions(ctx, s)).Should(Equal([]string{"v1minor12patch0"}))
		after := stored(ctx, s, namespace, "one")
		Expect(after).To(HaveKeyWithValue("apiVersion", SharedGroup+"/v1minor12patch0"))
		Expect(after["spec"]).To(Equal(before["spec"]), "no default is stored")
		metadata := strings.ReplaceAll(MustJSON(before["metadata"]), SharedGroup+"/v1minor0patch0", SharedGroup+"/v1minor12patch0")
		Expect(MustJSON(after["metadata"])).To(Equal(metadata), "neither its generation nor the owners of its fields change")
		Eventually(ctx, func() error {
			return K8s.Get(ctx, client.ObjectKeyFromObject(one), first.instance(namespace, "one"))
		}).Should(MatchError(ContainSubstring("could not find the requested resource")))

		By("removing it")
		Eventually(ctx, versionStage(ctx, s, 0)).Should(Equal("removed"))
		Eventually(ctx, func() []string { // The watch comes later.
			var stages []string
			for _, state := range definitions.All() {
				if definition := state.(*apiextensionsv1.CustomResourceDefinition); definition.Name == s.crdName() {
					stage := stageOf(definition, 0)
					stages = append(stages, stage)
					Expect(stage == "not served" && len(definition.Status.StoredVersions) > 1).To(BeFalse(), "its resources were rewritten before")
				}
			}
			return slices.Compact(stages)
		}).Should(HaveExactElements("deprecated", "not served", "removed"))
		Expect(stored(ctx, s, namespace, "one")["spec"]).To(Equal(before["spec"]))
		live := Live(ctx, Default, s.instance(namespace, "one"))
		Expect(live.GetGeneration()).To(Equal(int64(1)))
		Expect(live.Object["spec"]).To(Equal(map[string]any{"zosendpoint": "lpar1", "size": int64(3), "colour": "red"}), "shown as after any write")

		By("keeping those that are imported, or in a history, and the newest ten")
		for minor := 1; minor <= 12; minor++ {
			Expect(versionStage(ctx, s, minor)(Default)).To(Equal("served"), fmt.Sprint(minor))
		}
		By("serving it again when it is imported again")
		changeSpec(ctx, imported, first.pinned())
		Eventually(ctx, versionStage(ctx, s, 0)).Should(Equal("served"))
		Eventually(ctx, Condition(ctx, imported, v2beta2.ConditionImported)).Should(ConditionTrue(), "the API server follows the CRD")
		Patch(ctx, first.instance(namespace, "one"), `{"spec":{"size":4}}`)
		expectRest(ctx)
	})

	It("ends also after 15 upgrades, so that the CRD does not grow", Label("soak"), func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		withFlags(ctx, shortLives(time.Second, time.Second)...)
		oc := importOnly(ctx, namespace, s)
		one := s.instance(namespace, "one")
		Create(ctx, one)
		begun := time.Now()
		importMinors(ctx, oc, s, 1, 15)
		AddReportEntry("time for 15 imports", time.Since(begun).String())
		definition := customResourceDefinition(s.crdName())
		Eventually(ctx, func(g Gomega) []string {
			definition = customResourceDefinition(s.crdName())
			Get(ctx, g, definition)
			g.Expect(definition.Annotations).To(HaveLen(2*crd.NewestKept+2), "nothing is left of what was removed")
			var names []string
			for _, version := range definition.Spec.Versions {
				names = append(names, version.Name)
			}
			return names
		}).Should(And(HaveLen(crd.NewestKept), HaveEach(MatchRegexp("^v1minor([6-9]|1[0-5])patch0$"))),
			func() string { return fmt.Sprint(definition.Annotations, definition.Status.StoredVersions) })
		live := Live(ctx, Default, s.instance(namespace, "one"))
		Expect(live.GetGeneration()).To(Equal(int64(1)))
		Expect(live.Object["spec"]).To(Equal(one.Object["spec"]))
	})

	It("ends only after all resources were rewritten, also if the manager is killed meanwhile", Label("soak"), func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := importOnly(ctx, namespace, s)
		const number = 320
		managers := map[string]any{}
		for i := range number {
			resource := s.instance(namespace, fmt.Sprintf("r%03d", i))
			Create(ctx, resource)
			managers[resource.GetName()] = resource.Object["metadata"].(map[string]any)["managedFields"]
		}
		importMinors(ctx, oc, s, 1, 10)
		states := WatchStates(ctx, namespace, &v2beta2.OperatorCollectionList{})
		withFlags(ctx, shortLives(time.Second, time.Second)...)
		recorded := func(g Gomega) crd.Rewriting {
			definition := customResourceDefinition(s.crdName())
			Get(ctx, g, definition)
			if of := crd.RewritingOf(definition); of != nil {
				return *of
			}
			return crd.Rewriting{}
		}
		mark := markAudit()
		Eventually(ctx, recorded).WithPolling(10 * time.Millisecond).Should(HaveField("Done", BeNumerically(">=", 50)))
		theManager.kill()
		at := recorded(Default)
		Expect(at.Done).To(BeNumerically("<", number))
		Expect(at.Total).To(Equal(number))
		Expect(versionStage(ctx, s, 0)(Default)).To(Equal("deprecated"))
		theManager.start(ctx)
		Eventually(ctx, versionStage(ctx, s, 0)).Should(Equal("removed"))

		By("having written each, once but for the page that the manager was killed in")
		rewritten := 0
		for _, write := range mark.writesAbout(namespace)() {
			if strings.Contains(write, "/"+s.plural()+"/") {
				rewritten++
			}
		}
		Expect(rewritten).To(And(BeNumerically(">=", number), BeNumerically("<=", number+50)))
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(s.instance(namespace, "x").GroupVersionKind())
		Expect(K8s.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(list.Items).To(HaveLen(number))
		for _, item := range list.Items {
			Expect(item.GetGeneration()).To(Equal(int64(1)), item.GetName())
			Expect(item.Object["spec"]).To(Equal(map[string]any{"zosendpoint": "lpar1", "size": int64(3)}), item.GetName())
			owners := strings.ReplaceAll(MustJSON(managers[item.GetName()]), SharedGroup+"/v1minor0patch0", SharedGroup+"/v1minor10patch0")
			Expect(MustJSON(item.Object["metadata"].(map[string]any)["managedFields"])).To(Equal(owners), item.GetName())
		}
		By("having said so while it went on, and nothing any more")
		var warnings []string
		for _, state := range states.All() {
			warnings = append(warnings, state.(*v2beta2.OperatorCollection).Status.Warnings...)
		}
		Expect(warnings).To(ContainElement(And(
			HavePrefix("custom resources are being rewritten, so that old versions of their CRDs can end: "+s.crdName()),
			HaveSuffix(fmt.Sprintf(" of %d", number)))))
		Eventually(ctx, func(g Gomega) []string {
			Get(ctx, g, oc)
			return oc.Status.Warnings
		}).ShouldNot(ContainElement(ContainSubstring("rewritten")))
		expectRest(ctx)
	})
})
