package integration

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// scraper reads metrics as Prometheus does.
type scraper struct {
	client *http.Client
	token  string
}

// newScraper trusts the manager's CA, and has the token of a ServiceAccount that may read metrics, or may not.
func newScraper(ctx context.Context, namespace, name string, allowed bool) *scraper {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	Create(ctx, account)
	if allowed {
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "collection-operator-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		}
		Create(ctx, binding)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, binding) })
	}
	request := &authenticationv1.TokenRequest{}
	Expect(K8s.SubResource("token").Create(ctx, account, request)).To(Succeed())
	SecretValues[fmt.Sprintf("token of a scraper (%d)", len(SecretValues))] = request.Status.Token
	s := &scraper{token: request.Status.Token}
	public := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: keeper.ConfigMap}}
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, public)
		s.client = trusting(public.Data[keeper.KeyBundle])
		s.scrape(ctx, g)
	}).Should(Succeed(), "once the manager has published the CA that it has now")
	return s
}

// scrape returns the status and the body of a response.
func (s *scraper) scrape(ctx context.Context, g Gomega) (status int, text string) {
	GinkgoHelper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+theManager.metricsAddress+"/metrics", nil)
	g.Expect(err).NotTo(HaveOccurred())
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := s.client.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, string(content)
}

// metrics returns the lines of a scrape.
func (s *scraper) metrics(ctx context.Context, g Gomega) []string {
	GinkgoHelper()
	status, text := s.scrape(ctx, g)
	g.Expect(status).To(Equal(http.StatusOK), text)
	return strings.Split(text, "\n")
}

// haveSeries matches metrics with a series. Its labels are given in alphabetical order, as name="value".
func haveSeries(name string, labels []string, value types.GomegaMatcher) types.GomegaMatcher {
	prefix := "collection_operator_" + name
	if len(labels) > 0 {
		prefix += "{" + strings.Join(labels, ",") + "}"
	}
	return WithTransform(func(lines []string) string {
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, prefix+" ") })
		if i < 0 {
			return "no series " + prefix
		}
		return strings.TrimPrefix(lines[i], prefix+" ")
	}, value)
}

func label(name, value string) string { return fmt.Sprintf("%s=%q", name, value) }

// conditionLabels are those of a count of objects by condition.
func conditionLabels(collection, condition, namespace, reason, status string) []string {
	labels := []string{label("condition", condition), label("object_namespace", namespace), label("reason", reason), label("status", status)}
	if collection == "-" {
		return labels
	}
	return append([]string{label("collection", collection)}, labels...)
}

var _ = Describe("The manager's metrics", func() {
	It("are served with its certificate, and only to those who may read them", func(ctx context.Context) {
		serveTLS(ctx)
		namespace := newNamespace(ctx)
		authorized, unauthorized := newScraper(ctx, namespace, "prometheus", true), newScraper(ctx, namespace, "nobody", false)
		g := Default
		Eventually(ctx, func(g Gomega) { authorized.metrics(ctx, g) }).Should(Succeed(), "once the API server knows the binding")
		status, text := unauthorized.scrape(ctx, g)
		Expect(status).To(Equal(http.StatusForbidden))
		Expect(text).NotTo(ContainSubstring("collection_operator_"))
		// controller-runtime's filter answers 500 to a token that the API server refuses.
		for token, want := range map[string]int{"": http.StatusUnauthorized, "forged": http.StatusInternalServerError} {
			unauthorized.token = token
			status, text = unauthorized.scrape(ctx, g)
			Expect(status).To(Equal(want))
			Expect(text).NotTo(ContainSubstring("collection_operator_"))
		}
		_, err := http.Get("https://" + theManager.metricsAddress + "/metrics")
		Expect(err).To(MatchError(ContainSubstring("certificate signed by unknown authority")), "it is the manager's own")
		Expect(authorized.metrics(ctx, g)).To(haveSeries("serving_certificate_expiry_timestamp_seconds", nil, Not(BeEmpty())))
	})

	It("say what objects are like, and what the manager did", func(ctx context.Context) {
		serveTLS(ctx)
		namespace, s := newNamespace(ctx), newSample()
		authorized := newScraper(ctx, namespace, "prometheus", true)
		server := startSSHServer()
		Create(ctx, newEndpoint(namespace, "lpar1", server))
		away := newEndpoint(namespace, "lpar2", server)
		away.Spec.Port, away.Spec.Hold = 1, "moved"
		Create(ctx, away)
		oc := installSample(ctx, namespace, s)
		missing := newCollection(namespace, "missing", v2beta2.OperatorCollectionSpec{CollectionURL: web.URL + "/missing.tar.gz", SkipSignatureVerification: true})
		Create(ctx, missing)
		ExpectFailure(ctx, missing, v2beta2.ReasonArchiveNotFound, "404", false)
		id := domain + "/" + s.name

		By("counting runs as operators report them, of what is installed")
		counts := &runcount.Counts{}
		counts.Run(s.kind, "lpar1", "Succeeded", 20*time.Second, 2*time.Second)
		counts.Run(s.kind, "made-up", "Failed", time.Minute, 0)
		counts.Run("MadeUp", "lpar1", "Succeeded", time.Second, 0)
		counts.Run(s.kind, "lpar1", "MadeUp", time.Second, 0)
		counts.Skip(s.kind, 12)
		Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: s.operator(),
			Labels: map[string]string{runcount.Label: "true"}, Annotations: map[string]string{runcount.Annotation: counts.Marshal(func(string) bool { return true })},
		}})
		ofKind := []string{label("collection", id), label("kind", s.kind), label("object_namespace", namespace)}
		run := func(outcome string) []string { return append(slices.Clone(ofKind), label("outcome", outcome)) }
		on := func(endpoint string) string { return label("zosendpoint", endpoint) }
		lpar := func(name string) []string {
			return []string{label("object_namespace", namespace), label("zosendpoint", name)}
		}
		Eventually(ctx, func(g Gomega) {
			lines := authorized.metrics(ctx, g)
			for _, series := range []types.GomegaMatcher{
				haveSeries("collections", conditionLabels(id, "Ready", namespace, "Succeeded", "True"), Equal("1")),
				haveSeries("collections", conditionLabels("", "Imported", namespace, "ArchiveNotFound", "False"), Equal("1")),
				haveSeries("suboperatorconfigs", conditionLabels(id, "Ready", namespace, "Succeeded", "True"), Equal("1")),
				haveSeries("installations", []string{label("collection", id), label("method", "Direct"), label("object_namespace", namespace), label("ready", "true"), label("reason", "")}, Equal("1")),
				haveSeries("endpoints", conditionLabels("-", "Reachable", namespace, "HostUnreachable", "False"), Equal("1")),
				haveSeries("endpoint_reachable", lpar("lpar1"), Equal("1")),
				haveSeries("endpoint_reachable", lpar("lpar2"), Equal("0")),
				haveSeries("endpoint_held", lpar("lpar2"), Equal("1")),
				haveSeries("endpoint_held", lpar("lpar1"), HavePrefix("no series")),
				haveSeries("endpoint_last_success_timestamp_seconds", lpar("lpar1"), Not(HavePrefix("no series"))),
				haveSeries("endpoint_last_success_timestamp_seconds", lpar("lpar2"), HavePrefix("no series")),
				haveSeries("endpoint_probe_duration_seconds", lpar("lpar1"), Not(HavePrefix("no series"))),
				haveSeries("endpoint_probes_total", []string{label("result", "HostUnreachable")}, Not(HavePrefix("no series"))),
				haveSeries("fetches_total", []string{label("result", "Succeeded")}, Not(HavePrefix("no series"))),
				haveSeries("fetches_total", []string{label("result", "ArchiveNotFound")}, Not(HavePrefix("no series"))),
				haveSeries("time_to_ready_seconds_count", []string{label("kind", "OperatorCollection")}, Not(HavePrefix("no series"))),
				haveSeries("budget_used", []string{label("budget", "stored_bytes")}, Not(Equal("0"))),
				haveSeries("budget_limit", []string{label("budget", "kinds")}, Equal("2000")),
				haveSeries("namespace_budget_used", []string{label("budget", "kinds"), label("object_namespace", namespace)}, Equal("1")),
				haveSeries("namespace_budget_used", []string{label("budget", "probed_endpoints"), label("object_namespace", namespace)}, Equal("2")),
				haveSeries("runs_total", run("Succeeded"), Equal("1")),
				haveSeries("runs_total", run("Failed"), Equal("1")),
				haveSeries("endpoint_runs_total", append(run("Succeeded"), on("lpar1")), Equal("1")),
				haveSeries("endpoint_runs_total", append(run("Failed"), on("made-up")), HavePrefix("no series")),
				haveSeries("run_duration_seconds_sum", ofKind, Equal("81")),
				haveSeries("run_wait_seconds_sum", ofKind, Equal("2")),
				haveSeries("skipped_runs_total", ofKind, Equal("12")),
			} {
				g.Expect(lines).To(series)
			}
			g.Expect(strings.Join(lines, "\n")).NotTo(ContainSubstring("MadeUp"))
		}).Should(Succeed())
		Expect(strings.Join(authorized.metrics(ctx, Default), "\n")).To(And(
			ContainSubstring(`controller_runtime_reconcile_total{controller="operatorcollection"`), ContainSubstring("workqueue_depth")))

		By("reading the Lease again when it has changed")
		counts.Run(s.kind, "lpar1", "Succeeded", time.Second, 0)
		Patch(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator()}},
			fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, runcount.Annotation, counts.Marshal(func(string) bool { return true })))
		Eventually(ctx, func(g Gomega) {
			g.Expect(authorized.metrics(ctx, g)).To(haveSeries("runs_total", run("Succeeded"), Equal("2")))
		}).Should(Succeed())

		By("forgetting what is deleted")
		Remove(ctx, oc)
		Remove(ctx, missing)
		Eventually(ctx, func(g Gomega) {
			g.Expect(authorized.metrics(ctx, g)).To(And(
				haveSeries("collections", conditionLabels("", "Imported", namespace, "ArchiveNotFound", "False"), HavePrefix("no series")),
				haveSeries("runs_total", run("Succeeded"), HavePrefix("no series"))))
		}).Should(Succeed())
	})
})

const failedTask = `report '{"ended": "failed", "host": "lpar1", "tasks": {"ok": 1, "changed": 0, "failed": 1, "unreachable": 0, "skipped": 0}, "failures": [{"message": "no space", "task": "copy"}]}'`

var _ = Describe("The manager's metrics of runs", Ordered, func() {
	BeforeAll(MakeJobKind)

	It("are what the gate has counted", func(ctx context.Context) {
		serveTLS(ctx)
		namespace, s := newNamespace(ctx), newSample()
		s.kind = JobKind
		installSample(ctx, namespace, s)
		authorized := newScraper(ctx, namespace, "prometheus", true)
		pod := NewPodOfOperator(ctx, namespace, s.operator(), "operator-1")
		pod.AddEndpoint(ctx, LocalEndpoint(namespace, "lpar1"))
		run := func(name, runner string) *unstructured.Unstructured {
			GinkgoHelper()
			job := NewJob(ctx, namespace, name, map[string]any{"zosendpoint": "lpar1"})
			pod.RealRunner(runner)
			pod.Reconcile(ctx, job)
			return job
		}
		pod.Reconcile(ctx, run("one", WellDone))
		run("two", failedTask)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator()}}
		Get(ctx, Default, lease)
		Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(pod.PodName+"_"+pod.PodUID)), "the lock is as it was")
		ofKind := []string{label("collection", domain+"/"+s.name), label("kind", JobKind), label("object_namespace", namespace)}
		outcome := func(name string) []string {
			return append(slices.Clone(ofKind), label("outcome", name))
		}
		Eventually(ctx, func(g Gomega) {
			g.Expect(authorized.metrics(ctx, g)).To(And(
				haveSeries("runs_total", outcome("Succeeded"), Equal("1")),
				haveSeries("runs_total", outcome("Failed"), Equal("1")),
				haveSeries("run_duration_seconds_count", ofKind, Equal("2")),
				haveSeries("skipped_runs_total", ofKind, Equal("1"))))
		}).Should(Succeed())
		recordDashboard(ctx, authorized, namespace, run)
	})
})

// recordDashboard writes metrics of half a minute to the file METRICS_OUTPUT, from which the dashboard of docs is drawn, in which
// things happen: runs succeed and fail, a system goes away and comes back, and archives cannot be fetched.
func recordDashboard(ctx context.Context, s *scraper, namespace string, run func(name, runner string) *unstructured.Unstructured) {
	GinkgoHelper()
	path := os.Getenv("METRICS_OUTPUT")
	if path == "" {
		return
	}
	server := startSSHServer()
	Create(ctx, newEndpoint(namespace, "prod1", server), newEndpoint(namespace, "prod2", startSSHServer()))
	var recorded strings.Builder
	for second := range 30 {
		switch {
		case second%3 == 0:
			run(fmt.Sprintf("job-%d", second), "sleep 0.5\n"+WellDone)
		case second%7 == 0:
			run(fmt.Sprintf("job-%d", second), failedTask)
		case second == 10:
			server.down()
			other := newSample()
			Create(ctx, newCollection(namespace, "other", other.pinned()),
				newCollection(namespace, "missing", v2beta2.OperatorCollectionSpec{CollectionURL: web.URL + "/missing.tar.gz", SkipSignatureVerification: true}))
		case second == 22:
			server.up()
		}
		fmt.Fprintf(&recorded, "# scraped at %d\n", time.Now().UnixMilli())
		for _, line := range s.metrics(ctx, Default) {
			if strings.HasPrefix(line, "collection_operator_") || strings.HasPrefix(line, "workqueue_depth") || strings.HasPrefix(line, "controller_runtime_reconcile_errors_total") {
				recorded.WriteString(line + "\n")
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	Expect(os.WriteFile(path, []byte(recorded.String()), 0o644)).To(Succeed())
}
