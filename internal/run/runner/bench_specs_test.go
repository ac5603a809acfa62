package runner_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// rounds is how often each of the two ways is measured, in turns.
const rounds = 3

// jobPlaybook waits most of the time, as a playbook that runs against a remote system.
const jobPlaybook = `- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.command: sleep 1
      changed_when: false
      loop: [1, 2, 3, 4, 5, 6]
`

var _ = Describe("The time", Ordered, Label(benchLabel), func() {
	var pod *operatorPod
	BeforeAll(func(ctx context.Context) {
		dir := GinkgoT().TempDir()
		Run(ctx, "go", "build", "-C", "../../..", "-trimpath", "-o", dir, "./cmd/engine")
		DeferCleanup(func(binary string) { EngineBinary = binary }, EngineBinary)
		EngineBinary = filepath.Join(dir, "engine")
		pod = newOperatorPod(ctx, newNamespace(ctx))
	})

	It("of a call that runs nothing", func(ctx context.Context) {
		job := NewJob(ctx, pod.Namespace, "skipped", map[string]any{"zosendpoint": "lpar1"})
		pod.RealRunner(WellDone)
		pod.Reconcile(ctx, job)
		live := Live(ctx, Default, job)
		var times, processor []time.Duration
		for range 20 {
			c := pod.Start(live)
			Expect(c.Answer(ctx)).To(Equal("5m0s"))
			times = append(times, c.Took)
			processor = append(processor, c.Command.ProcessState.UserTime()+c.Command.ProcessState.SystemTime())
		}
		Expect(pod.Plays()).To(Equal(1))
		slices.Sort(times)
		slices.Sort(processor)
		fmt.Printf("a call that runs nothing: median %s, longest %s; processor %s\n", times[10], times[19], processor[10])
	})

	It("of a run is little longer than that of ansible-playbook alone", func(ctx context.Context) {
		job := NewJob(ctx, pod.Namespace, "one", map[string]any{"zosendpoint": "here"})
		engine, err := filepath.Abs("../engine")
		Expect(err).NotTo(HaveOccurred())
		pod.Playbook = filepath.Join(pod.Dir, "job.yml")
		pod.Write("job.yml", jobPlaybook)
		pod.AddEndpoint(ctx, LocalEndpoint(pod.Namespace, "here"))
		ansible := fmt.Sprintf(`export PYTHONPATH=%[1]s/python ANSIBLE_VARS_PLUGINS=%[1]s/vars_plugins ANSIBLE_CALLBACK_PLUGINS=%[1]s/callback_plugins ANSIBLE_LOCALHOST_WARNING=False HOME=$DIR LC_ALL=C.UTF-8
mkdir -p "$2/inventory" && cp %[1]s/inventory "$2/inventory/hosts"
`, engine)
		pod.RealRunner(ansible + fmt.Sprintf(`ansible-runner run "$2" -p %s/entry.yml -i "$6"`, engine))
		pod.Write("bin/alone", fmt.Sprintf("#!/bin/sh\nset -eu\nDIR=%s\n%sexec ansible-playbook -i \"$2/inventory/hosts\" -e @\"$2/env/extravars\" %s/entry.yml\n", pod.Dir, ansible, engine))

		var alone, gated []time.Duration
		for round := range rounds {
			Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, gate.AnnotationRequestedAt, round))
			r := pod.Start(Live(ctx, Default, job))
			Expect(r.Answer(ctx)).To(Equal("5m0s"), pod.Read("output"))
			gated = append(gated, r.Took)

			command := exec.CommandContext(ctx, filepath.Join(pod.Dir, "bin/alone"), "run", filepath.Join(pod.Dir, pod.Folder("one")))
			command.Env = pod.Environment()
			started := time.Now()
			output, err := command.CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), string(output))
			alone = append(alone, time.Since(started))
		}
		Expect(Field(ctx, job, "status", "lastRun", "outcome")(Default)).To(Equal("Succeeded"))
		slices.Sort(alone)
		slices.Sort(gated)
		fmt.Printf("a run: %s; ansible-playbook alone: %s\n", gated[rounds/2].Round(time.Millisecond), alone[rounds/2].Round(time.Millisecond))
		Expect(gated[rounds/2]).To(BeNumerically("<", alone[rounds/2]*5/4))
	})
})
