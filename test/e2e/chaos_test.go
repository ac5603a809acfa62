//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// Random kills while a collection is installed, upgraded and removed, and its resources are created, changed and deleted.
// CHAOS is the number of kills (10), CHAOS_SEED the seed, which is printed.
var _ = Describe("In a chaos of kills", Serial, Ordered, Label("chaos"), func() {
	c := &chaos{plays: newPlays("e2e-chaos")}

	BeforeAll(func(ctx context.Context) {
		c.begin(ctx)
		c.zos = c.connectTo(ctx, "zos1")
		c.before = c.objects(ctx)
	})
	AfterEach(c.explain)
	AfterAll(c.cleanUp)

	It("nothing is lost, doubled or left behind", c.run)
})

// chaos is an environment, what was asked of it, and what was killed in it.
type chaos struct {
	*plays
	zos    *system
	random *rand.Rand
	// before are the objects before the collection was installed.
	before []string
	// notes of the resources that should exist, and the names of those that were deleted.
	notes   map[string]string
	deleted []string
	// requests counts what was asked of the resources, kills what was killed.
	requests, kills map[string]int
	upgraded        bool
	// unsuccessful counts the runs of a resource, before the collection was deleted, that did not succeed.
	unsuccessful map[string]int
}

// setting is a number in the environment, or a default.
func setting(name string, otherwise int64) int64 {
	GinkgoHelper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	number, err := strconv.ParseInt(text, 10, 64)
	Expect(err).NotTo(HaveOccurred(), name)
	return number
}

func (c *chaos) run(ctx context.Context) {
	rounds, seed := setting("CHAOS", 10), setting("CHAOS_SEED", GinkgoRandomSeed())
	AddReportEntry("chaos", fmt.Sprintf("CHAOS=%d CHAOS_SEED=%d", rounds, seed), ReportEntryVisibilityAlways)
	c.random = rand.New(rand.NewPCG(uint64(seed), 0)) // The seed repeats the choices of a run.
	c.notes, c.requests, c.kills = map[string]string{}, map[string]int{}, map[string]int{}
	begin := time.Now()

	Create(ctx, c.collection("1.0.0"))
	for round := range rounds {
		c.pause(ctx, 2*time.Second)
		c.kill(ctx)
		if round > 0 {
			c.request(ctx, int(round))
		}
	}
	c.settle(ctx)
	settled := time.Since(begin)
	repeated := c.countPlays(ctx)

	Remove(ctx, c.collection("1.0.0"))
	c.pause(ctx, 2*time.Second)
	c.kill(ctx)
	c.expectRemoved(ctx)
	AddReportEntry("chaos counted", fmt.Sprintf("seed %d: %d kills %v; asked %v; %d resources stayed and %d were deleted, none lost; %d lines of playbooks, %d playbooks repeated after a run that was killed, 0 after one that succeeded; %d objects before and after; settled after %.0f s, removed after %.0f s",
		seed, sum(c.kills), c.kills, c.requests, len(c.notes), len(c.deleted), sum(c.zos.lines(ctx)), repeated, len(c.before),
		settled.Seconds(), time.Since(begin).Seconds()), ReportEntryVisibilityAlways)
}

// pause lets some time pass, so that the next kill hits at a random moment.
func (c *chaos) pause(ctx context.Context, limit time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(c.random.Int64N(int64(limit)))):
	}
}

// kill ends one of what takes part.
func (c *chaos) kill(ctx context.Context) {
	GinkgoHelper()
	switch victim := []string{"manager", "operator", "operator by force", "API server", "target"}[c.random.IntN(5)]; victim {
	case "manager":
		c.kills[victim]++
		killManager(ctx)
	case "operator", "operator by force":
		options := []client.DeleteAllOfOption{client.InNamespace(c.namespace), client.MatchingLabels{"operator-name": "zos-plays"}}
		if victim == "operator by force" {
			options = append(options, client.GracePeriodSeconds(0))
		}
		c.kills[victim]++
		Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, options...)).To(Succeed())
	case "API server":
		c.kills[victim]++
		withoutAPIServer(ctx, time.Duration(c.random.Int64N(int64(3*time.Second))))
	case "target":
		c.kills[victim]++
		c.zos.dropSessions(ctx)
	}
}

// dropSessions ends all SSH sessions and what they started. The SSH server is the first process of the container, and stays.
func (s *system) dropSessions(ctx context.Context) {
	GinkgoHelper()
	s.shell(ctx, s.endServers())
}

// useStored makes the stored version of the kind, which an upgrade changes, the one in which resources are read and written.
func (c *chaos) useStored(ctx context.Context, g Gomega) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	g.Expect(K8s.Get(ctx, client.ObjectKey{Name: "plays." + SharedGroup}, crd)).To(Succeed())
	for _, version := range crd.Spec.Versions {
		if version.Storage {
			c.version = version.Name
		}
	}
}

// request asks for something at random.
func (c *chaos) request(ctx context.Context, round int) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		c.useStored(ctx, g)
		c.live(ctx, g, "") // The API server follows a changed CustomResourceDefinition a moment later.
	}).WithTimeout(4*time.Minute).Should(Succeed(), "there is a kind")
	names := slices.Sorted(maps.Keys(c.notes))
	what := []string{"create", "create", "change", "change", "delete", "upgrade"}[c.random.IntN(6)]
	switch {
	case what == "upgrade" && !c.upgraded:
		c.upgraded = true
		Patch(ctx, c.collection("1.0.0"), MustJSON(map[string]any{"spec": c.spec("1.1.0.tar.gz", c.archives["1.1.0.tar.gz"])}))
	case what == "change" && len(names) > 0:
		name := names[c.random.IntN(len(names))]
		c.notes[name] = fmt.Sprintf("note-%d", round)
		Patch(ctx, c.play(name, "zos1", nil), MustJSON(map[string]any{"spec": map[string]any{"note": c.notes[name]}}))
	case what == "delete" && len(names) > 0:
		name := names[c.random.IntN(len(names))]
		object := c.play(name, "zos1", nil)
		if !slices.Contains(Live(ctx, Default, object).GetFinalizers(), InstanceFinalizer) {
			return // Its operator has not seen it yet.
		}
		Remove(ctx, object)
		delete(c.notes, name)
		c.deleted = append(c.deleted, name)
	default:
		what = "create"
		name := fmt.Sprintf("play-%d", round)
		c.notes[name] = "first"
		Eventually(ctx, func() error { return K8s.Create(ctx, c.play(name, "zos1", nil)) }).Should(Succeed(), "the kind is served")
	}
	c.requests[what]++
}

// settle waits until all that was asked for is done.
func (c *chaos) settle(ctx context.Context) {
	GinkgoHelper()
	oc := c.collection("1.0.0")
	// A pod that is told to end in its first moments may not hear it, and is killed after its grace period of five minutes.
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(7 * time.Minute).Should(ConditionTrue())
	for _, name := range slices.Sorted(maps.Keys(c.notes)) {
		Eventually(ctx, func(g Gomega) {
			c.useStored(ctx, g)
			status := statusOf(g, Live(ctx, g, c.play(name, "zos1", nil)))
			g.Expect(status.LastRun).NotTo(BeNil(), name)
			g.Expect(status.Phase).To(BeElementOf(runstatus.PhaseSucceeded, runstatus.PhaseOutdated), name)
			g.Expect(status.LastRun.Outcome).To(Equal(gate.OutcomeSucceeded), name)
			g.Expect(c.zos.lines(ctx)).To(HaveKey("end "+name+" "+c.notes[name]), "lost")
		}).WithTimeout(4 * time.Minute).Should(Succeed())
	}
	for _, name := range c.deleted {
		Eventually(ctx, Gone(ctx, c.play(name, "zos1", nil))).WithTimeout(4*time.Minute).Should(BeTrue(), name)
	}
	Eventually(ctx, func(g Gomega) { c.pod(ctx, g) }).Should(Succeed(), "one pod")
	c.unsuccessful = map[string]int{}
	for _, object := range c.live(ctx, Default, "") {
		c.unsuccessful[object.GetName()] = 0
		for _, run := range statusOf(Default, &object).History {
			if !run.Outcome.Succeeded() {
				c.unsuccessful[object.GetName()]++
			}
		}
	}
	Expect(c.unsuccessful).To(HaveLen(len(c.notes)), "no resources but those that should exist")
}

// countPlays expects that no playbook ran again after it had succeeded, and returns how many ran again after a run that was
// killed.
func (c *chaos) countPlays(ctx context.Context) int {
	GinkgoHelper()
	lines, repeated := c.zos.lines(ctx), 0
	violent := c.kills["operator by force"] + c.kills["target"]
	for line, count := range lines {
		words := strings.Fields(line)
		if !strings.HasPrefix(words[0], "end") || count == 1 {
			continue
		}
		repeated += count - 1
		allowed, ok := c.unsuccessful[words[1]]
		if !ok || words[0] == "end-removal" {
			allowed = violent // It is gone, and with it what its runs did.
		}
		Expect(count-1).To(BeNumerically("<=", allowed), "%s: doubled", line)
	}
	Expect(repeated).To(BeNumerically("<=", violent))
	return repeated
}

// expectRemoved waits until the collection is gone, and expects that nothing of it is left.
func (c *chaos) expectRemoved(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, Gone(ctx, c.collection("1.0.0"))).WithTimeout(7 * time.Minute).Should(BeTrue())
	Eventually(ctx, func(g Gomega) {
		after := c.objects(ctx)
		g.Expect(slices.DeleteFunc(slices.Clone(after), in(c.before))).To(BeEmpty(), "left behind")
		g.Expect(slices.DeleteFunc(slices.Clone(c.before), in(after))).To(BeEmpty(), "gone too")
		// The operator's Lease may stay, as that of ansible-operator's leader election does: listObjects leaves out Leases.
		var leases coordinationv1.LeaseList
		g.Expect(K8s.List(ctx, &leases, client.InNamespace(c.namespace))).To(Succeed())
		g.Expect(leases.Items).To(Or(BeEmpty(), HaveEach(HaveField("Name", c.deployment()))))
	}).Should(Succeed())
	lines := c.zos.lines(ctx)
	for _, name := range append(slices.Sorted(maps.Keys(c.notes)), c.deleted...) {
		Expect(lines["end-removal "+name]).To(BeNumerically(">=", 1), "%s: removed without its playbook", name)
	}
	c.countPlays(ctx)
}

// objects lists the objects in the namespace, and those of the collection.
func (c *chaos) objects(ctx context.Context) []string {
	GinkgoHelper()
	return slices.DeleteFunc(listObjects(ctx, c.namespace), func(object string) bool {
		resource, name, _ := strings.Cut(object, " ")
		return resource == "pods" || !strings.HasPrefix(name, c.namespace+"/") && !strings.Contains(name, c.domain) && !strings.Contains(name, "plays.")
	})
}
