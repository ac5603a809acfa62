//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// Endpoints that refuse a credential, are away for a time, or for good. E2E_OUTAGE is how long one is away (default 30s).
var _ = Describe("Endpoints that are of no use", Label("story"), Ordered, ContinueOnFailure, func() {
	p := newPlaysOf("e2e-away", "away-lab", "Distant")
	refused, away := &refusedSpecs{plays: p}, &awaySpecs{plays: p}

	BeforeAll(func(ctx context.Context) {
		p.begin(ctx)
		refused.start(ctx)
		away.zos = p.system("zos3")
		away.zos.stoppable = true
		p.connect(ctx, away.zos, v2beta2.ZosEndpointSpec{})
		p.importing(ctx, "1.0.0", map[string]any{"maxConcurrentReconciles": int64(4), "maxRetries": int64(0)})
	})
	AfterEach(p.explain)
	AfterAll(func(ctx context.Context) {
		if away.zos != nil {
			away.zos.up(ctx)
		}
		p.cleanUp(ctx)
	})

	Context("because they refuse a credential", func() {
		It("get one logon, whatever changes, restarts or uses the same user registry", attack.Label, refused.once)
		It("get one more when somebody asks for it", refused.retried)
		It("are used again as soon as the credential is right", refused.corrected)
	})
	Context("because they are away", func() {
		It("cost one connection per probe, and what waits runs once when they are back", away.outage)
		It("let a resource go only if somebody who may change the endpoint abandons it", attack.Label, away.abandoned)
	})
})

// refusedSpecs are about two systems of one security domain that refuse the same credential.
type refusedSpecs struct {
	*plays
	zos1, zos2 *system
	// first and second use the two systems.
	first, second *unstructured.Unstructured
}

func (s *refusedSpecs) start(ctx context.Context) {
	GinkgoHelper()
	s.zos1, s.zos2 = s.system("zos1"), s.system("zos2")
	stranger, _ := newKey("")
	s.credential(ctx, "refused", map[string]string{"username": "ibmuser", "ssh-privatekey": stranger})
	for _, zos := range []*system{s.zos1, s.zos2} {
		zos.start(ctx)
		s.register(ctx, zos.name, zos, v2beta2.ZosEndpointSpec{CredentialName: "refused", SecurityDomain: "PLEX1"})
	}
	s.first, s.second = s.play("refused-first", "zos1", nil), s.play("refused-second", "zos2", nil)
}

// refusals counts the refused logons of both systems.
func (s *refusedSpecs) refusals(ctx context.Context) func() int {
	return func() int { return s.zos1.refusals(ctx) + s.zos2.refusals(ctx) }
}

// once edits a resource ten times after its logon was refused, and kills the pod twice.
func (s *refusedSpecs) once(ctx context.Context) {
	Create(ctx, s.first.DeepCopy())
	Eventually(ctx, waitsFor(ctx, s.first)).Should(Equal(endpoint.ReasonCredentialRefused))
	Expect(lastRun(ctx, s.first)(Default)).To(withOutcome(gate.OutcomeRefused))
	Expect(Condition(ctx, s.first, runstatus.ConditionFailure)(Default)).To(And(ConditionTrue(), WithMessage("AuthenticationFailed")))
	expectHealth(ctx, s.first, "Degraded", "Failed")
	Create(ctx, s.second.DeepCopy())
	Eventually(ctx, waitsFor(ctx, s.second)).Should(Equal(endpoint.ReasonCredentialRefused))
	Expect(lastRun(ctx, s.second)(Default)).To(BeZero(), "the other system was not asked")
	for _, zos := range []*system{s.zos1, s.zos2} {
		Eventually(ctx, Condition(ctx, &v2beta2.ZosEndpoint{ObjectMeta: s.meta(zos.name)}, "CredentialAccepted")).Should(ConditionFalse())
	}
	for edit := range 10 {
		Patch(ctx, s.first.DeepCopy(), fmt.Sprintf(`{"spec": {"note": "edit-%d"}}`, edit))
		if edit%5 != 4 {
			continue
		}
		old := s.pod(ctx, Default).UID
		s.killPod(ctx)
		Eventually(ctx, s.ready(ctx, old)).ShouldNot(BeZero())
		Eventually(ctx, s.asked(ctx, "refused")).
			Should(And(ContainElements("refused-first", "refused-second"), Not(ContainElement(HavePrefix("/proc")))), "all resources were looked at")
	}
	Expect(s.refusals(ctx)()).To(Equal(1), "repeated logons revoke a user ID")
	for _, object := range []*unstructured.Unstructured{s.first, s.second} {
		Expect(waitsFor(ctx, object)(Default)).To(Equal(endpoint.ReasonCredentialRefused))
	}
	attack.Repelled(secretsAndHosts, "have a user ID revoked by ten edits, two restarts, and another system of the same user registry", "one logon",
		fmt.Sprintf("%d logon: %s", s.refusals(ctx)(), Condition(ctx, s.second, runstatus.ConditionReady)(Default).Message))
}

func (s *refusedSpecs) retried(ctx context.Context) {
	Patch(ctx, &v2beta2.ZosEndpoint{ObjectMeta: s.meta("zos2")}, withAnnotation(endpoint.AnnotationRetry, "the user ID was resumed"))
	Eventually(ctx, s.refusals(ctx)).Should(Equal(2))
	for _, object := range []*unstructured.Unstructured{s.first, s.second} {
		Eventually(ctx, waitsFor(ctx, object)).Should(Equal(endpoint.ReasonCredentialRefused))
	}
	Consistently(ctx, s.refusals(ctx)).Should(Equal(2))
}

func (s *refusedSpecs) corrected(ctx context.Context) {
	private, public := newKey("")
	s.zos1.authorize(ctx, "operator", public)
	s.zos2.authorize(ctx, "operator", public)
	Patch(ctx, &corev1.Secret{ObjectMeta: s.meta("refused")}, MustJSON(map[string]any{"stringData": map[string]string{"ssh-privatekey": private}}))
	for _, object := range []*unstructured.Unstructured{s.first, s.second} {
		Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeSucceeded))
		expectSuccess(ctx, object)
	}
	Expect(s.zos1.lines(ctx)).To(HaveKeyWithValue("end refused-first edit-9", 1))
	Expect(s.refusals(ctx)()).To(Equal(2))
	for _, zos := range []*system{s.zos1, s.zos2} {
		Eventually(ctx, Condition(ctx, &v2beta2.ZosEndpoint{ObjectMeta: s.meta(zos.name)}, "CredentialAccepted")).Should(ConditionTrue())
	}
}

// awaySpecs are about a system that goes away.
type awaySpecs struct {
	*plays
	zos *system
}

// outageLength is how long the system is away.
func outageLength() time.Duration {
	GinkgoHelper()
	text := os.Getenv("E2E_OUTAGE")
	if text == "" {
		return 30 * time.Second
	}
	length, err := time.ParseDuration(text)
	Expect(err).NotTo(HaveOccurred(), "E2E_OUTAGE")
	return length
}

const (
	// awayProbe is how often a system that is away is probed, and awayRun how often a run may try nevertheless.
	awayProbe = 10 * time.Second
	awayRun   = 5 * time.Minute
)

// outage edits ten resources and deletes another one while their system is away.
func (s *awaySpecs) outage(ctx context.Context) {
	waiting, leaving := s.playsNamed("waiting", 10, "zos3", nil), s.play("leaving", "zos3", nil)
	broken := s.play("broken", "zos3", map[string]any{"code": int64(8)})
	for _, object := range append(waiting, leaving, broken) {
		Create(ctx, object.DeepCopy())
	}
	for _, object := range append(waiting, leaving) {
		Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeSucceeded))
	}
	Eventually(ctx, Condition(ctx, broken, runstatus.ConditionStalled)).Should(ConditionTrue())
	before, brokenRun := s.lastRuns(ctx, waiting), lastRun(ctx, broken)(Default).ID

	s.zos.down(ctx)
	down := time.Now()
	s.edit(ctx, waiting[:1])
	zep := &v2beta2.ZosEndpoint{ObjectMeta: s.meta("zos3")}
	Eventually(ctx, Condition(ctx, zep, v2beta2.ConditionReachable)).Should(ConditionFalse())
	seen := time.Since(down)
	// The first run tries even if a probe has noticed the outage before. The others come when it has.
	Eventually(ctx, lastRun(ctx, waiting[0])).Should(withOutcome(gate.OutcomeUnreachable))
	s.edit(ctx, waiting[1:])
	Remove(ctx, leaving.DeepCopy())
	for _, object := range append(waiting, leaving) {
		Eventually(ctx, waitsFor(ctx, object)).Should(Equal(endpoint.ReasonUnreachable))
	}
	Consistently(ctx, Condition(ctx, zep, v2beta2.ConditionReachable)).WithTimeout(outageLength()).Should(ConditionFalse())
	Expect(lastRun(ctx, waiting[0])(Default)).To(withOutcome(gate.OutcomeUnreachable))
	tried := 0
	for name, id := range s.lastRuns(ctx, waiting) {
		if id != before[name] {
			tried++
		}
	}
	length := time.Since(down)
	attempts := s.zos.attempts(ctx)
	Expect(tried).To(BeNumerically("<=", 1+int(length/awayRun)), "runs that tried")
	Expect(attempts).To(BeNumerically("<=", 3+int(length/(awayProbe-awayProbe/5))), "connections in %s", length)

	s.zos.up(ctx)
	up := time.Now()
	Eventually(ctx, Condition(ctx, zep, v2beta2.ConditionReachable)).Should(ConditionTrue())
	probed := Condition(ctx, zep, v2beta2.ConditionReachable)(Default).LastTransitionTime.Time
	var first, last time.Time
	for _, object := range waiting {
		Eventually(ctx, lastRun(ctx, object)).Should(And(withOutcome(gate.OutcomeSucceeded), HaveField("Started.Time", BeTemporally(">=", up.Truncate(time.Second)))))
		run := lastRun(ctx, object)(Default)
		if first.IsZero() || run.Started.Time.Before(first) {
			first = run.Started.Time
		}
		if run.Finished.After(last) {
			last = run.Finished.Time
		}
	}
	Eventually(ctx, Gone(ctx, leaving)).Should(BeTrue())
	s.expectOnce(ctx, waiting)
	Expect(lastRun(ctx, broken)(Default).ID).To(Equal(brokenRun), "it did not fail because of the system")
	AddReportEntry("outage", fmt.Sprintf("%.0f s with 10 changed resources and a deletion: shown at the endpoint after %.1f s; %d connections, %d runs; probed %.0f s after the end of the outage; recovered: the first run started %.0f s, and the last one ended %.0f s after the first successful probe",
		length.Seconds(), seen.Seconds(), attempts, tried, probed.Sub(up).Seconds(), first.Sub(probed).Seconds(), last.Sub(probed).Seconds()), ReportEntryVisibilityAlways)
}

func (s *awaySpecs) edit(ctx context.Context, objects []*unstructured.Unstructured) {
	GinkgoHelper()
	for _, object := range objects {
		Patch(ctx, object.DeepCopy(), `{"spec": {"note": "second"}}`)
	}
}

// lastRuns are the IDs of the last runs by name.
func (s *awaySpecs) lastRuns(ctx context.Context, objects []*unstructured.Unstructured) map[string]string {
	GinkgoHelper()
	ids := map[string]string{}
	for _, object := range objects {
		ids[object.GetName()] = lastRun(ctx, object)(Default).ID
	}
	return ids
}

// expectOnce expects that each playbook of the outage ran once.
func (s *awaySpecs) expectOnce(ctx context.Context, waiting []*unstructured.Unstructured) {
	GinkgoHelper()
	lines := s.zos.lines(ctx)
	for _, object := range waiting {
		Expect(lines).To(And(HaveKeyWithValue("begin "+object.GetName()+" second", 1), HaveKeyWithValue("end "+object.GetName()+" second", 1)))
	}
	Expect(lines).To(And(HaveKeyWithValue("begin-removal leaving", 1), HaveKeyWithValue("end-removal leaving", 1), HaveKeyWithValue("begin broken first", 1)))
}

const (
	developer     = "a-developer"
	administrator = "an-endpoint-administrator"
)

// letUsers gives two users the role edit, and one of them the right to change the endpoint.
func (s *awaySpecs) letUsers(ctx context.Context) {
	GinkgoHelper()
	bind := func(kind, role string, users ...string) {
		binding := &rbacv1.RoleBinding{ObjectMeta: s.meta(role), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}}
		for _, user := range users {
			binding.Subjects = append(binding.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
		}
		Create(ctx, binding)
	}
	Create(ctx, &rbacv1.Role{ObjectMeta: s.meta("zos3-administrator"), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v2beta2.GroupVersion.Group}, Resources: []string{"zosendpoints"}, ResourceNames: []string{"zos3"}, Verbs: []string{"update"}},
	}})
	bind("ClusterRole", "edit", developer, administrator)
	bind("Role", "zos3-administrator", administrator)
}

func patchAs(ctx context.Context, user string, object client.Object, changes string) error {
	GinkgoHelper()
	return As(user).Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(changes)))
}

// abandoned deletes two resources of a system that does not come back.
func (s *awaySpecs) abandoned(ctx context.Context) {
	s.letUsers(ctx)
	stuck, forgotten := s.play("stuck", "zos3", nil), s.play("forgotten", "zos3", nil)
	for _, object := range []*unstructured.Unstructured{stuck, forgotten} {
		Create(ctx, object.DeepCopy())
		Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeSucceeded))
	}
	s.zos.down(ctx)
	Remove(ctx, stuck.DeepCopy())
	Eventually(ctx, waitsFor(ctx, stuck)).Should(Equal(endpoint.ReasonUnreachable))

	By("a user who may change the resource, and not the endpoint")
	Eventually(ctx, func() error { return patchAs(ctx, developer, stuck, withAnnotation("colour", "green")) }).Should(Succeed())
	for _, try := range []struct{ attack, changes string }{
		{"abandon a resource that is being deleted", withAnnotation(gate.AnnotationAbandon, "true")},
		{"remove the finalizer of a resource that is being deleted", `{"metadata": {"finalizers": null}}`},
		{"let a run start outside the windows of its endpoint", withAnnotation(endpoint.AnnotationRunNow, rfc3339Now())},
	} {
		err := patchAs(ctx, developer, stuck, try.changes)
		Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%s: %v", try.attack, err)
		attack.Repelled(runsAndRecords, try.attack+", with the role edit", "the API server refuses it", err.Error())
	}
	Expect(Live(ctx, Default, stuck).GetFinalizers()).To(ContainElement(InstanceFinalizer))

	By("a user who may change both")
	Eventually(ctx, func() error {
		return patchAs(ctx, administrator, stuck, withAnnotation(gate.AnnotationAbandon, "true"))
	}).Should(Succeed())
	Eventually(ctx, Gone(ctx, stuck)).Should(BeTrue())
	printed, err := s.collectionTool(ctx, "abandon", "distantplay/forgotten", "--yes")
	Expect(err).NotTo(HaveOccurred(), printed)
	Eventually(ctx, Gone(ctx, forgotten)).Should(BeTrue())
	AddReportEntry("kubectl collection abandon", printed, ReportEntryVisibilityAlways)
	s.expectReported(ctx, stuck, forgotten)
}

// expectReported expects that what may be left on the system is said where administrators look.
func (s *awaySpecs) expectReported(ctx context.Context, objects ...*unstructured.Unstructured) {
	GinkgoHelper()
	soc := func() string {
		return kubectl(ctx, "get", "suboperatorconfig", s.name()+"-soc", "-n", s.namespace, "-o", "yaml")
	}
	for _, object := range objects {
		name := object.GetName()
		Eventually(ctx, func(g Gomega) []v2beta2.AbandonedResource {
			zep := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "zos3", Namespace: s.namespace}}
			Get(ctx, g, zep)
			return zep.Status.Abandoned
		}).Should(ContainElement(And(HaveField("Group", Not(BeEmpty())), HaveField("Kind", "DistantPlay"), HaveField("Namespace", s.namespace), HaveField("Name", name))))
		Eventually(ctx, soc).Should(ContainSubstring(name))
		Eventually(ctx, func() string {
			return kubectl(ctx, "get", "events", "-n", s.namespace, "--field-selector", "reason=Abandoned,type=Warning,involvedObject.name="+name)
		}).Should(ContainSubstring(name))
		Expect(s.zos.lines(ctx)).NotTo(HaveKey("begin-removal " + name))
	}
}
