//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("An upgrade under living custom resources", Label("story"), Ordered, func() {
	upgradeUnderResources(newPlaysOf("e2e-upgrade", "upgrade-lab", "Upgrade"), v2beta2.InstallDirect)
})

var _ = Describe("An upgrade under living custom resources, by OLM", Label("olm"), Ordered, func() {
	upgradeUnderResources(newPlaysOf("e2e-upgrade-olm", "upgrade-olm-lab", "UpgradeOLM"), v2beta2.InstallOLM)
})

// levelVariable is a field with options.
func levelVariable(options string) string {
	return "\n      - name: level\n        displayName: Level\n        type: string\n        options: [" + options + "]\n        default: low\n"
}

// upgradeUnderResources upgrades a collection to a version that one custom resource does not fit, lets that fit, and goes back.
// UPGRADE_RESOURCES is the number of custom resources.
func upgradeUnderResources(p *plays, method v2beta2.InstallMethod) {
	const (
		older, newer = "1.0.0", "2.0.0"
		limit        = 5 * time.Minute
	)
	var (
		zos       *system
		audit     *resourceAudit
		resources int
		oc        = &v2beta2.OperatorCollection{ObjectMeta: p.meta(p.name())}
		soc       = &v2beta2.SubOperatorConfig{ObjectMeta: p.meta(p.name() + "-soc")}
		crd       = &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(p.kinds) + "plays." + SharedGroup}}
		odd       = p.play("living-odd", "zos1", map[string]any{"level": "extreme"})
	)
	// runs are the last run of each resource, and the lines that all runs left.
	runs := func(ctx context.Context) string {
		GinkgoHelper()
		var text []string
		for _, object := range p.live(ctx, Default, "living") {
			status := statusOf(Default, &object)
			Expect(status.LastRun).NotTo(BeNil(), object.GetName())
			text = append(text, fmt.Sprintf("%s %s %s", object.GetName(), object.GetUID(), status.LastRun.ID))
		}
		slices.Sort(text)
		return strings.Join(text, "\n") + fmt.Sprint(zos.lines(ctx))
	}
	asks := func(ctx context.Context, spec map[string]any) {
		GinkgoHelper()
		Patch(ctx, oc.DeepCopy(), MustJSON(map[string]any{"spec": spec}))
	}
	running := func(ctx context.Context, version string, before types.UID) types.UID {
		GinkgoHelper()
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(limit).Should(And(ConditionTrue(), WithMessage(version)))
		pod := p.pod(ctx, Default)
		Expect(pod).NotTo(BeNil())
		Expect(pod.UID).NotTo(Equal(before))
		Expect(Field(ctx, soc, "status", "version")(Default)).To(Equal(version))
		return pod.UID
	}
	var pod types.UID

	BeforeAll(func(ctx context.Context) {
		resources = int(setting("UPGRADE_RESOURCES", 6))
		p.archives = archivesOf(map[string]fs.FS{
			older + ".tar.gz": p.folder(older, levelVariable("low, high, extreme")), newer + ".tar.gz": p.folder(newer, levelVariable("low, high")),
		})
		p.start(ctx, p.archives)
		letInstall(ctx, method, p.namespace)
		zos = p.connectTo(ctx, "zos1")
		p.importing(ctx, older, map[string]any{"maxConcurrentReconciles": int64(4)})
		expectInstalledBy(ctx, soc, method)
		audit = auditResources(p.namespace)
		Create(ctx, odd.DeepCopy())
		for _, object := range p.playsNamed("living", resources-1, "zos1", nil) {
			Create(ctx, object)
		}
		Eventually(ctx, p.phases(ctx, "living")).WithTimeout(2*time.Minute + time.Duration(resources)*10*time.Second).
			Should(Equal(map[runstatus.Phase]int{runstatus.PhaseSucceeded: resources}))
		pod = p.pod(ctx, Default).UID
	})
	AfterEach(p.explain)
	AfterAll(p.cleanUp)

	It("is blocked while one of them does not fit, and everything stays as it is", func(ctx context.Context) {
		before, definition := runs(ctx), Live(ctx, Default, crd).GetResourceVersion()
		spec := p.collection(newer).Spec
		asks(ctx, map[string]any{"collectionURL": spec.CollectionURL, "digest": spec.Digest})
		for _, object := range []client.Object{oc, soc} {
			Eventually(ctx, Condition(ctx, object, v2beta2.ConditionUpgradeBlocked)).
				Should(And(ConditionTrue(), WithReason(v2beta2.ReasonUpgradeBlocked), WithMessage("living-odd"), WithMessage("level")))
		}
		Expect(Condition(ctx, oc, v2beta2.ConditionReady)(Default)).To(And(ConditionFalse(), WithReason(v2beta2.ReasonUpgradeBlocked)))
		Expect(Condition(ctx, soc, v2beta2.ConditionReady)(Default)).To(ConditionTrue(), "the installed version runs on")
		Consistently(ctx, func(g Gomega) types.UID { return p.pod(ctx, g).UID }).Should(Equal(pod))
		Expect(runs(ctx)).To(Equal(before))
		Expect(Live(ctx, Default, crd).GetResourceVersion()).To(Equal(definition))
	})

	It("goes ahead once that fits, and starts no playbook", func(ctx context.Context) {
		// From now on it is judged again after a minute: by then the older version has run the resource that is changed.
		asks(ctx, map[string]any{"upgrade": map[string]any{"policy": v2beta2.UpgradeSafe}})
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionUpgradeBlocked)).Should(ConditionTrue())
		Patch(ctx, odd.DeepCopy(), `{"spec":{"level":"high"}}`)
		Eventually(ctx, func() int { return zos.lines(ctx)["end living-odd first"] }).Should(Equal(2))
		Eventually(ctx, p.phases(ctx, "living")).Should(HaveKeyWithValue(runstatus.PhaseSucceeded, resources))
		before := runs(ctx)
		pod = running(ctx, newer, pod)
		Eventually(ctx, p.phases(ctx, "living")).Should(Equal(map[runstatus.Phase]int{runstatus.PhaseOutdated: resources}))
		Expect(runs(ctx)).To(Equal(before))
		Expect(Condition(ctx, oc, v2beta2.ConditionUpgradeBlocked)(Default)).NotTo(ConditionTrue())
		Expect(Condition(ctx, soc, v2beta2.ConditionUpgradeBlocked)(Default)).NotTo(ConditionTrue())
	})

	It("goes back to a version in its history by its digest alone, and starts no playbook", func(ctx context.Context) {
		before := runs(ctx)
		asks(ctx, map[string]any{"digest": p.collection(older).Spec.Digest})
		pod = running(ctx, older, pod)
		Eventually(ctx, p.phases(ctx, "living")).Should(Equal(map[runstatus.Phase]int{runstatus.PhaseSucceeded: resources}))
		Expect(runs(ctx)).To(Equal(before))
		var kept v2beta2.OperatorCollection
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(oc), &kept)).To(Succeed())
		var versions []string
		for _, entry := range kept.Status.History {
			versions = append(versions, entry.Version)
		}
		Expect(versions).To(Equal([]string{older, newer, older}))
		ask(ctx, odd)
		Eventually(ctx, func() int { return zos.lines(ctx)["end living-odd first"] }).Should(Equal(3))
		for line, count := range zos.lines(ctx) {
			if !strings.Contains(line, "living-odd") {
				Expect(count).To(Equal(1), line)
			}
		}
		expectInstalledBy(ctx, soc, method)
		want := map[string][]string{}
		for _, object := range p.live(ctx, Default, "living") {
			want[p.namespace+"/"+object.GetName()] = []string{older}
		}
		want[p.namespace+"/"+odd.GetName()] = []string{older, older, older} // New, changed, and asked for.
		Expect(want).To(HaveLen(resources))
		audit.expect(ctx, want)
	})
}
