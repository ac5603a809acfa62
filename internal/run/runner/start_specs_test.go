package runner_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// beforeStatus calls a function during each request that writes the status of a job in a namespace, before it is written.
func beforeStatus(ctx context.Context, namespace string, do func()) {
	GinkgoHelper()
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(request.Body).Decode(review); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if !ptr.Deref(review.Request.DryRun, false) {
			do()
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review)
	}))
	DeferCleanup(webhook.Close)
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-status"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "status.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &webhook.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{JobGroup}, APIVersions: []string{"*"}, Resources: []string{"jobs/status"}},
			}},
		}},
	}
	Create(ctx, configuration)
	DeferCleanup(func(ctx context.Context) { Remove(ctx, configuration) })
}

// withoutStatus lets the pod not write the status of resources, until the function returned is called.
func (p *operatorPod) withoutStatus(ctx context.Context) (restore func()) {
	GinkgoHelper()
	meta, kubeconfig := metav1.ObjectMeta{Namespace: p.Namespace, Name: "without-status"}, filepath.Join(p.Dir, "kubeconfig")
	Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"*"}, Verbs: []string{"*"}, Resources: []string{"jobs", "leases", "pods", "secrets", "zosendpoints", "events"},
	}}}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "pod-in-" + p.Namespace}},
	})
	p.API.WriteKubeconfig(kubeconfig, "pod-in-"+p.Namespace)
	return func() { p.API.WriteKubeconfig(kubeconfig, "") }
}

var _ = Describe("The start of a run", func() {
	It("is not lost when somebody labels the resource between its writes", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1", "title": "0"})
		pod.RealRunner(WellDone)
		var conflicts atomic.Int32
		beforeStatus(ctx, namespace, func() {
			if n := conflicts.Add(1); n%2 == 1 {
				_ = K8s.Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"by-somebody":"%d"}}}`, n)))
			}
		})
		Eventually(ctx, func() int32 {
			_ = K8s.Status().Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{}}`)))
			return conflicts.Load()
		}).ShouldNot(BeZero())
		for i := range 3 {
			Patch(ctx, job, fmt.Sprintf(`{"spec":{"title":"%d"}}`, i+1))
			before := conflicts.Load()
			pod.expectRun(ctx, job)
			Expect(conflicts.Load()-before).To(BeNumerically(">", 2), "the start and the end met a conflict")
			Expect(gateRecord(ctx, job).Outcome).To(BeEquivalentTo("Succeeded"))
			Expect(Field(ctx, job, "status", "lastRun", "outcome")(Default)).To(Equal("Succeeded"))
		}
		history, _, err := unstructured.NestedSlice(Live(ctx, Default, job).Object, "status", "history")
		Expect(err).NotTo(HaveOccurred())
		Expect(history).To(And(HaveLen(3), HaveEach(HaveKeyWithValue("outcome", "Succeeded"))))
	})

	It("does not take place when another pod, another run or a deletion has come between its writes", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		pod.RealRunner(WellDone)
		other := NewPod(ctx, namespace, "operator-2")
		var between atomic.Pointer[func()]
		between.Store(ptr.To(func() {}))
		var calls atomic.Int32
		beforeStatus(ctx, namespace, func() { calls.Add(1); (*between.Swap(ptr.To(func() {})))() })
		probe := NewJob(ctx, namespace, "probe", map[string]any{"zosendpoint": "lpar1"})
		Eventually(ctx, func() int32 {
			_ = K8s.Status().Patch(ctx, probe.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{}}`)))
			return calls.Load()
		}).ShouldNot(BeZero())
		label := func(job *unstructured.Unstructured) {
			_ = K8s.Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"by-somebody":"1"}}}`)))
		}
		for name, do := range map[string]func(*unstructured.Unstructured){
			"run": func(job *unstructured.Unstructured) {
				record := recordKey.Sign(gateIdentity(job), gate.Record{RunID: "another", Outcome: gate.OutcomeInterrupted, Finished: time.Now().Add(time.Minute)})
				_ = K8s.Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType,
					[]byte(MustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{gate.AnnotationRecord: record}}}))))
			},
			"deletion": func(job *unstructured.Unstructured) { _ = K8s.Delete(ctx, job.DeepCopy()) },
			"pod": func(job *unstructured.Unstructured) {
				lease := gateLease(namespace)
				_ = K8s.Patch(ctx, lease, client.RawPatch(types.MergePatchType,
					[]byte(fmt.Sprintf(`{"spec":{"holderIdentity":"%s_%s"}}`, other.Name, other.UID))))
				label(job)
			},
		} {
			job := NewJob(ctx, namespace, name, map[string]any{"zosendpoint": "lpar1"})
			Patch(ctx, job, `{"metadata":{"finalizers":["example.com/spec"]}}`)
			DeferCleanup(func(ctx context.Context) { Patch(ctx, job, `{"metadata":{"finalizers":null}}`) })
			lease := gateLease(namespace)
			Expect(K8s.Patch(ctx, lease, client.RawPatch(types.MergePatchType,
				[]byte(fmt.Sprintf(`{"spec":{"holderIdentity":"%s_%s"}}`, pod.PodName, pod.PodUID))))).To(Succeed())
			between.Store(ptr.To(func() { do(job) }))
			Expect(pod.Reconcile(ctx, job)).To(Equal("10s"), name)
			Expect(pod.Plays()).To(BeZero(), name)
		}
	})

	It("is tried again when status could not be written, and says so", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), NewJob(ctx, namespace, "one", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		restore := pod.withoutStatus(ctx)
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
		Expect(pod.Plays()).To(BeZero())
		Expect(gateRecord(ctx, job).Outcome).To(BeEquivalentTo("Interrupted"))
		restore()
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(BeZero(), "before the retry is due")
		Expect(Field(ctx, job, "status", "lastRun", "outcome")(Default)).To(Equal("Interrupted"))
		Expect(Field(ctx, job, "status", "lastRun", "failure", "message")(Default)).To(HavePrefix("the run did not start: write status: "))
		pass(ctx, job)
		pod.expectRun(ctx, job)
	})
})
