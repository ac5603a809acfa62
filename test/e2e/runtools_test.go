//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// toolSpecs use kubectl collection on runs.
func (s *runSpecs) toolSpecs() {
	It("shows what they did", func(ctx context.Context) {
		printed, err := s.collectionTool(ctx, "status")
		Expect(err).NotTo(HaveOccurred(), printed)
		for _, text := range []string{s.name(), "zos1", "calm-14", "failing-00", "Succeeded", "Failed"} {
			Expect(printed).To(ContainSubstring(text))
		}
		printed, err = s.collectionTool(ctx, "status", "-o", "json")
		Expect(err).NotTo(HaveOccurred(), printed)
		Expect(json.Valid([]byte(printed))).To(BeTrue(), printed)
	})

	It("prints the output of a run", func(ctx context.Context) {
		printed, err := s.collectionTool(ctx, "logs", "play/calm-12")
		Expect(err).NotTo(HaveOccurred(), printed)
		Expect(printed).To(ContainSubstring("PLAY RECAP"))
		Expect(printed).NotTo(ContainSubstring(`"line"`), "what was printed, not how it was transported")
	})

	It("finds the runs that failed, and gathers the logs of the manager and of the operator", func(ctx context.Context) {
		Eventually(ctx, func(g Gomega) {
			printed, err := s.collectionTool(ctx, "doctor")
			g.Expect(err).To(HaveOccurred(), printed)
			g.Expect(printed).To(And(
				MatchRegexp(`(?m)^error play/failing-00 in %s: Failed$`, s.namespace), ContainSubstring("kubectl collection logs play/failing-00 -n "+s.namespace)))
			g.Expect(printed).NotTo(ContainSubstring("not looked at"))
		}).Should(Succeed(), "once no attempt is running")

		archive := filepath.Join(GinkgoT().TempDir(), "gathered.tar.gz")
		printed, err := s.collectionTool(ctx, "must-gather", "-o", archive)
		Expect(err).NotTo(HaveOccurred(), printed)
		listed := Run(ctx, "tar", "-tzf", archive)
		Expect(listed).To(And(MatchRegexp(`/logs/[^/]+/operator\.log\n`), MatchRegexp(`/logs/[^/]+/manager\.log\n`)))
		Expect(Run(ctx, "tar", "-xzOf", archive, "--wildcards", "*/operator.log")).To(ContainSubstring("PLAY RECAP"))
		keys := Run(ctx, "tar", "-xzOf", archive)
		Expect(keys).NotTo(MatchRegexp(`PRIVATE KEY-----\n?[A-Za-z0-9+/]{16}`))
	})

	It("asks for a run and follows it", func(ctx context.Context) {
		object := s.play("calm-14", "zos1", nil)
		printed, err := s.collectionTool(ctx, "rerun", "play/calm-14")
		Expect(err).NotTo(HaveOccurred(), printed)
		run := lastRun(ctx, object)(Default)
		Expect(run).To(And(withOutcome(gate.OutcomeSucceeded), HaveField("Reason", gate.ReasonAsked)))
		Expect(s.zos1.lines(ctx)).To(HaveKeyWithValue("end calm-14 first", 2))
		Expect(kubectl(ctx, "get", "events", "-n", s.namespace, "--field-selector", "reason=RunRequested,involvedObject.name=calm-14")).
			To(ContainSubstring("calm-14"))

		_, err = s.collectionTool(ctx, "rerun", "play/failing-01")
		Expect(err).To(HaveOccurred(), "the run fails")
		// It is tried again after 10 s.
		Expect(statusOf(Default, Live(ctx, Default, s.failing()[1])).History).
			To(ContainElement(And(withOutcome(gate.OutcomeFailed), HaveField("Reason", gate.ReasonAsked))))
	})

	It("cancels a run", func(ctx context.Context) {
		object := s.play("cancelled", "zos2", map[string]any{"hold": "never"})
		Create(ctx, object.DeepCopy())
		Eventually(ctx, s.zos2.waits(ctx, "in-cancelled")).ShouldNot(BeEmpty())
		Expect(lastRun(ctx, object)(Default)).To(HaveField("Finished", BeNil()))
		Expect(Condition(ctx, object, runstatus.ConditionRunning)(Default)).To(ConditionTrue())
		Eventually(ctx, lastRun(ctx, object)).Should(HaveField("CurrentTask", HaveValue(HaveField("Name", "Wait in the middle"))))
		printed, err := s.collectionTool(ctx, "cancel", "play/cancelled")
		Expect(err).NotTo(HaveOccurred(), printed)
		Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeCancelled))
		Expect(Condition(ctx, object, runstatus.ConditionStalled)(Default)).To(ConditionTrue())
		Eventually(ctx, func() string {
			return s.inOperator(ctx, s.deployment(), `grep -lzE '[a]nsible-playbook' /proc/[0-9]*/cmdline 2>/dev/null || true`)
		}).Should(BeEmpty())
		Expect(strings.Join(strings.Fields(printed), " ")).NotTo(BeEmpty())
		Remove(ctx, object.DeepCopy())
		Eventually(ctx, Gone(ctx, object)).Should(BeTrue())
		Expect(s.zos2.lines(ctx)).NotTo(HaveKey("end cancelled first"))
	})
}
