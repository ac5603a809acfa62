package integration

import (
	"context"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// writeSettings creates or replaces the manager's settings until the spec ends, when the manager uses none again.
func writeSettings(ctx context.Context, data map[string]string) *corev1.ConfigMap {
	GinkgoHelper()
	settings := configMap(ManagerNamespace, "collection-operator-settings")
	if K8s.Get(ctx, client.ObjectKeyFromObject(settings), settings) == nil {
		settings.Data = data
		Expect(K8s.Update(ctx, settings)).To(Succeed())
		return settings
	}
	settings.Data = data
	Create(ctx, settings)
	return settings
}

// settingsStatus is what the manager says about its settings.
func settingsStatus(ctx context.Context) func(Gomega) map[string]string {
	return func(g Gomega) map[string]string {
		status := configMap(ManagerNamespace, "collection-operator-settings-status")
		Get(ctx, g, status)
		return status.Data
	}
}

// expectSettings waits until the leader uses the settings as they are, or nothing if they do not exist, or uses the last good ones.
func expectSettings(ctx context.Context, settings *corev1.ConfigMap, valid string) {
	GinkgoHelper()
	version := ""
	if settings != nil {
		version = settings.ResourceVersion
	}
	Eventually(ctx, settingsStatus(ctx)).Should(And(HaveKeyWithValue("observedResourceVersion", version), HaveKeyWithValue("valid", valid)))
}

// removeSettings makes the manager that runs use none.
func removeSettings(ctx context.Context) {
	GinkgoHelper()
	Remove(ctx, configMap(ManagerNamespace, "collection-operator-settings"))
	expectSettings(ctx, nil, "true")
}

func newBroker(name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "zoscb.ibm.com/v2beta1", "kind": "ZosCloudBroker", "metadata": map[string]any{"namespace": ManagerNamespace, "name": name}, "spec": spec,
	}}
}

// expectBroker waits for the status of a ZosCloudBroker.
func expectBroker(ctx context.Context, broker *unstructured.Unstructured, phase string, ready types.GomegaMatcher, message string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, broker)
		status := &v2beta1.ZosCloudBroker{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(broker.Object, status)).To(Succeed())
		g.Expect(status.Status.ObservedGeneration).To(Equal(broker.GetGeneration()))
		g.Expect(status.Status.Phase).To(Equal(phase))
		g.Expect(meta.FindStatusCondition(status.Status.Conditions, v2beta2.ConditionReady)).To(And(ready, WithMessage(message)))
	}).Should(Succeed())
}

func isReady(m *managerProcess) bool {
	response, err := http.Get("http://" + m.healthAddress + "/readyz")
	return err == nil && response.Body.Close() == nil && response.StatusCode == http.StatusOK
}

var _ = Describe("The manager's settings", func() {
	elsewhere := map[string]string{"allowed-source-prefixes": "https://archives.example.com/"}

	// expectForbidden creates an OperatorCollection that may not be fetched with the settings elsewhere.
	expectForbidden := func(ctx context.Context) *v2beta2.OperatorCollection {
		GinkgoHelper()
		oc := newCollection(newNamespace(ctx), "oc", newSample().pinned())
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonSourceForbidden)))
		return oc
	}
	// expectStillForbidden asks for another archive, which may not be fetched with these settings either.
	expectStillForbidden := func(ctx context.Context, oc *v2beta2.OperatorCollection) {
		GinkgoHelper()
		changeSpec(ctx, oc, newSample().pinned())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonSourceForbidden)))
	}

	It("are those of the ConfigMap, in the same process, and wrong ones leave the last good ones", func(ctx context.Context) {
		DeferCleanup(removeSettings)
		serveTLS(ctx)
		process := theManager.command.Process.Pid
		authorized := newScraper(ctx, newNamespace(ctx), "prometheus", true)

		By("using a setting that is new")
		settings := writeSettings(ctx, map[string]string{"allowed-source-prefixes": elsewhere["allowed-source-prefixes"], "GOMEMLIMIT": "1GiB"})
		Eventually(ctx, Gone(ctx, configMap(ManagerNamespace, "collection-operator-settings-status"))).Should(BeFalse())
		Run(ctx, findKubectl(), "wait", "configmap/collection-operator-settings-status", "-n", ManagerNamespace, "--timeout=1m",
			"--for=jsonpath={.data.observedResourceVersion}="+settings.ResourceVersion)
		expectSettings(ctx, settings, "true")
		Expect(settingsStatus(ctx)(Default)).To(And(
			HaveKeyWithValue("inUse", `{"GOMEMLIMIT":"1GiB","allowed-source-prefixes":"https://archives.example.com/"}`),
			HaveKeyWithValue("warnings", ContainSubstring("key GOMEMLIMIT has no effect")), HaveKeyWithValue("waiting", "false")))
		oc := expectForbidden(ctx)
		Expect(authorized.metrics(ctx, Default)).To(haveSeries("settings_valid", nil, Equal("1")))

		By("reporting all that is wrong")
		settings = writeSettings(ctx, map[string]string{"fetch-timeuot": "1s", "allowed-source-prefixes": "everything", "max-kinds-per-namespace": "9000", "storage-dir": "/tmp"})
		expectSettings(ctx, settings, "false")
		all := And(
			ContainSubstring("key fetch-timeuot: there is no such setting"), ContainSubstring(`key allowed-source-prefixes: invalid argument "everything"`),
			ContainSubstring("--max-kinds-per-namespace must be at least 1, and --max-kinds at least that"),
			ContainSubstring("key storage-dir: it cannot be changed while the manager runs"))
		Expect(settingsStatus(ctx)(Default)).To(And(
			HaveKeyWithValue("message", all), HaveKeyWithValue("inUse", ContainSubstring("archives.example.com"))))
		Eventually(ctx, notes(ctx, settings, v2beta2.ReasonSettingsInvalid)).Should(ConsistOf(And(HavePrefix("the last good settings are used: "), all)))
		Expect(authorized.metrics(ctx, Default)).To(haveSeries("settings_valid", nil, Equal("0")))
		expectStillForbidden(ctx, oc)
		Expect(theManager.exited).NotTo(BeClosed())
		Expect(theManager.command.Process.Pid).To(Equal(process))

		By("keeping the last good ones when the manager starts meanwhile")
		theManager.stop()
		theManager.start(ctx)
		process = theManager.command.Process.Pid
		expectStillForbidden(ctx, oc)
		expectSettings(ctx, settings, "false")

		By("going back if the manager does not start with new ones")
		settings = writeSettings(ctx, map[string]string{"metrics-bind-address": "192.0.2.1:8444"})
		expectSettings(ctx, settings, "false")
		Expect(settingsStatus(ctx)(Default)).To(HaveKeyWithValue("message", ContainSubstring("the manager did not start with these settings")))
		expectStillForbidden(ctx, oc)

		By("using them when they are correct")
		settings = writeSettings(ctx, map[string]string{"fetch-timeout": "2s"})
		expectSettings(ctx, settings, "true")
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Expect(theManager.exited).NotTo(BeClosed())
		Expect(theManager.command.Process.Pid).To(Equal(process))
	})

	It("that are wrong from the first start on are waited for", func(ctx context.Context) {
		theManager.stop()
		DeferCleanup(removeSettings)
		status := configMap(ManagerNamespace, "collection-operator-settings-status")
		Remove(ctx, status)
		status.ResourceVersion, status.Data = "", map[string]string{"inUse": "{"} // What cannot be read counts as nothing.
		Expect(K8s.Create(ctx, status)).To(Succeed())
		settings := writeSettings(ctx, map[string]string{"allowed-source-prefixes": "everything"})
		started := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(started)
			theManager.start(ctx)
		}()
		expectSettings(ctx, settings, "false")
		probe := func(path string) func() (int, error) {
			return func() (int, error) {
				response, err := http.Get("http://" + theManager.healthAddress + path)
				if err != nil {
					return 0, err
				}
				return response.StatusCode, response.Body.Close()
			}
		}
		Eventually(ctx, probe("/healthz")).Should(Equal(http.StatusOK))
		Expect(settingsStatus(ctx)(Default)).To(HaveKeyWithValue("waiting", "true"))
		Expect(probe("/readyz")()).To(Equal(http.StatusServiceUnavailable))
		Eventually(ctx, notes(ctx, settings, v2beta2.ReasonSettingsInvalid)).Should(ContainElement(HavePrefix("the manager waits for correct settings")))
		settings = writeSettings(ctx, elsewhere)
		Eventually(ctx, started).Should(BeClosed())
		expectSettings(ctx, settings, "true")
		expectForbidden(ctx)
	})

	It("may be those of a ZosCloudBroker", func(ctx context.Context) {
		broker := newBroker("broker", map[string]any{
			"license": map[string]any{"accept": true}, "logLevel": "DEBUG", "galaxyConfig": map[string]any{"enabled": true, "galaxyURL": "https://hub.example.com"},
			"storage": map[string]any{"size": "1Gi"}, "another": "field",
		})
		Create(ctx, broker)
		DeferCleanup(func(ctx context.Context) {
			Remove(ctx, broker)
			Eventually(ctx, settingsStatus(ctx)).Should(HaveKeyWithValue("inUse", "{}"))
		})
		expectBroker(ctx, broker, "Successful", ConditionTrue(), "the settings are used; without effect: spec.storage, which the workload of the manager has")
		Expect(settingsStatus(ctx)(Default)).To(HaveKeyWithValue("inUse", `{"galaxy-url":"https://hub.example.com","zap-log-level":"debug"}`))

		By("reporting what is wrong, and keeping the phase that clients need")
		Patch(ctx, broker, `{"spec":{"galaxyConfig":{"galaxyURL":"ftp://hub.example.com"}}}`)
		expectBroker(ctx, broker, "Successful", ConditionFalse(), "the last good settings are used: --galaxy-url must be an http or https address")
		Expect(settingsStatus(ctx)(Default)).To(And(HaveKeyWithValue("valid", "false"), HaveKeyWithValue("inUse", ContainSubstring("debug"))))
		Eventually(ctx, notes(ctx, broker, v2beta2.ReasonSettingsInvalid)).Should(HaveLen(1))

		By("using only the oldest")
		second := newBroker("second", map[string]any{})
		Create(ctx, second)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, second) })
		expectBroker(ctx, second, "Failed", ConditionFalse(), `ZosCloudBroker "broker" is older`)
		Patch(ctx, broker, `{"spec":{"logLevel":"loud","galaxyConfig":null}}`)
		expectBroker(ctx, broker, "Successful", ConditionTrue(), "the settings are used; without effect: spec.logLevel, which is none of trace, debug, info, warn and error; spec.storage")
	})

	It("reach two managers one after the other", func(ctx context.Context) {
		DeferCleanup(removeSettings) // When the usual manager runs again.
		pair := startPair(ctx)
		settings := writeSettings(ctx, elsewhere)
		Eventually(ctx, func(g Gomega) {
			// The first may have become ready, and the second have ended after that, between two questions.
			if !isReady(pair.managers[0]) && !isReady(pair.managers[1]) && !isReady(pair.managers[0]) {
				StopTrying("no manager is ready").Now()
			}
			g.Expect(settingsStatus(ctx)(g)).To(HaveKeyWithValue("observedResourceVersion", settings.ResourceVersion))
		}).Should(Succeed())
		expectSettings(ctx, settings, "true")
		expectForbidden(ctx)
		for _, m := range pair.managers {
			Expect(strings.Count(m.log(), "starting again with new settings")).To(Equal(1))
			Expect(m.exited).NotTo(BeClosed())
		}
	})
})
