package integration

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/internal/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// costRounds is how often each of the two ways is measured, in turns: COST_ROUNDS, or once.
func costRounds() int {
	GinkgoHelper()
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("COST_ROUNDS"), "1"))
	Expect(err).NotTo(HaveOccurred(), "COST_ROUNDS")
	return rounds
}

// jobPlaybook waits most of the time, as a playbook that runs against a remote system.
const jobPlaybook = `- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.command: sleep 1
      changed_when: false
      loop: [1, 2, 3, 4, 5, 6]
`

var _ = Describe("A run", Ordered, func() {
	BeforeAll(makeGateKind)

	It("takes little longer than ansible-playbook alone", Slow, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, job := newOperatorPod(ctx, namespace), newJob(ctx, namespace, "one", map[string]any{"zosendpoint": "here"})
		engine := filepath.Join(projectDir(), "internal/engine")
		pod.playbook = filepath.Join(pod.dir, "job.yml")
		pod.write("job.yml", jobPlaybook)
		pod.addEndpoint(ctx, localEndpoint(namespace, "here"))
		ansible := fmt.Sprintf(`export PYTHONPATH=%[1]s/python ANSIBLE_VARS_PLUGINS=%[1]s/vars_plugins ANSIBLE_CALLBACK_PLUGINS=%[1]s/callback_plugins ANSIBLE_LOCALHOST_WARNING=False HOME=$DIR LC_ALL=C.UTF-8
mkdir -p "$2/inventory" && cp %[1]s/inventory "$2/inventory/hosts"
`, engine)
		pod.realRunner(ansible + fmt.Sprintf(`ansible-runner run "$2" -p %s/entry.yml -i "$6"`, engine))
		pod.write("bin/alone", fmt.Sprintf("#!/bin/sh\nset -eu\nDIR=%s\n%sexec ansible-playbook -i \"$2/inventory/hosts\" -e @\"$2/env/extravars\" %s/entry.yml\n", pod.dir, ansible, engine))

		var alone, gated []time.Duration
		rounds := costRounds()
		for round := range rounds {
			Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, gate.AnnotationRequestedAt, round))
			r := pod.start(Live(ctx, NewWithT(GinkgoT()), job))
			Expect(r.answer(ctx)).To(Equal("5m0s"), pod.read("output"))
			gated = append(gated, r.took)

			command := exec.CommandContext(ctx, filepath.Join(pod.dir, "bin/alone"), "run", filepath.Join(pod.dir, pod.folder("one")))
			command.Env = pod.environment()
			started := time.Now()
			output, err := command.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(output))
			alone = append(alone, time.Since(started))
		}
		Expect(pod.plays()).To(Equal(rounds))
		Expect(Field(ctx, job, "status", "lastRun", "outcome")(NewWithT(GinkgoT()))).To(Equal("Succeeded"))
		slices.Sort(alone)
		slices.Sort(gated)
		AddReportEntry("a run, and ansible-playbook alone", strings.Join([]string{
			gated[rounds/2].Round(time.Millisecond).String(), alone[rounds/2].Round(time.Millisecond).String(),
			fmt.Sprintf("ratio %.2f", float64(gated[rounds/2])/float64(alone[rounds/2])),
		}, ", "), ReportEntryVisibilityAlways)
	}, NodeTimeout(3*time.Minute))
})
