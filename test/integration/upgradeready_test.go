package integration

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// history has every state of the OperatorCollections, SubOperatorConfigs and Deployments of a namespace, from when it began to watch.
type history struct {
	*States
	// digests of the archives that pods run, by the hash in their template.
	digests map[string]string
}

// has reports whether the watch has seen the present state of an object.
func (h *history) has(object client.Object) bool {
	return slices.ContainsFunc(h.All(), func(state client.Object) bool {
		return state.GetUID() == object.GetUID() && state.GetResourceVersion() == object.GetResourceVersion()
	})
}

// claimsReady is true if somebody who waits for the object would go on.
func claimsReady(object client.Object, observed int64, conditions []metav1.Condition) bool {
	ready := meta.FindStatusCondition(conditions, v2beta2.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == object.GetGeneration() && observed == object.GetGeneration()
}

// early lists the states that were Ready before their time: of an OperatorCollection before its SubOperatorConfig had installed its
// archive, of a SubOperatorConfig before the Deployment was that of the OperatorCollection's version.
func (h *history) early() []string {
	var found []string
	oc, soc, operator := &v2beta2.OperatorCollection{}, &v2beta2.SubOperatorConfig{}, &appsv1.Deployment{}
	for _, state := range h.All() {
		switch object := state.(type) {
		case *v2beta2.OperatorCollection:
			oc = object
		case *v2beta2.SubOperatorConfig:
			soc = object
		case *appsv1.Deployment:
			operator = object
		}
		if oc.Status.Artifact == nil {
			continue
		}
		version, digest := oc.Status.Collection.Version, oc.Status.Artifact.Digest
		if claimsReady(oc, oc.Status.ObservedGeneration, oc.Status.Conditions) && (soc.Status.Version != version || soc.Status.Digest != digest) {
			found = append(found, fmt.Sprintf("revision %s: OperatorCollection %s %s, SubOperatorConfig %s %s", state.GetResourceVersion(), version, digest, soc.Status.Version, soc.Status.Digest))
		}
		runs := h.digests[operator.Spec.Template.Annotations[render.RuntimeHashAnnotation]]
		written, isSOC := state.(*v2beta2.SubOperatorConfig)
		if isSOC && claimsReady(written, soc.Status.ObservedGeneration, soc.Status.Conditions) && runs != digest {
			found = append(found, fmt.Sprintf("revision %s: SubOperatorConfig is Ready, its pod runs %s, the OperatorCollection has %s", state.GetResourceVersion(), runs, digest))
		}
		if claimsReady(soc, soc.Status.ObservedGeneration, soc.Status.Conditions) && runs != soc.Status.Digest {
			found = append(found, fmt.Sprintf("revision %s: SubOperatorConfig is Ready with %s, its pod runs %s", state.GetResourceVersion(), soc.Status.Digest, runs))
		}
	}
	return found
}

// upgraded is an OperatorCollection that is told by turns to run two archives.
type upgraded struct {
	*history
	oc       *v2beta2.OperatorCollection
	sample   *sample
	archives [2][]byte
	ask      func(archive []byte)
}

// follow waits until the pods are to run an archive, makes them available, and waits for Ready.
func (u *upgraded) follow(ctx context.Context, archive []byte) {
	GinkgoHelper()
	digest, soc := DigestOf(archive), defaultSOC(u.oc)
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, soc)
		g.Expect(soc.Status.Installations).To(ConsistOf(HaveField("Digest", digest)))
	}).Should(Succeed())
	operator := deployment(u.oc.Namespace, u.sample.operator())
	makeAvailable(ctx, u.oc.Namespace, operator.Name)
	ExpectReady(ctx, u.oc)
	if u.history != nil {
		Get(ctx, Default, operator)
		u.digests[operator.Spec.Template.Annotations[render.RuntimeHashAnnotation]] = digest
	}
}

// expectNeverEarly checks the history up to the present state.
func (u *upgraded) expectNeverEarly(ctx context.Context) {
	GinkgoHelper()
	for _, object := range []client.Object{u.oc, defaultSOC(u.oc), deployment(u.oc.Namespace, u.sample.operator())} {
		Get(ctx, Default, object)
		Eventually(ctx, func() bool { return u.has(object) }).Should(BeTrue())
	}
	Expect(u.early()).To(BeEmpty())
}

// newUpgraded has two archives. It does not create its OperatorCollection.
func newUpgraded(ctx context.Context, nextVersion string) *upgraded {
	u := &upgraded{sample: newSample(), oc: newCollection(newNamespace(ctx), "oc", skipping)}
	u.archives[0] = u.sample.archive()
	next := *u.sample
	next.version, next.files = nextVersion, map[string]string{"README.md": "# Next\n"}
	u.archives[1] = next.archive()
	u.ask = func(archive []byte) { changeSpec(ctx, u.oc, pinned(archive)) }
	return u
}

// start installs the first archive and begins to record.
func (u *upgraded) start(ctx context.Context) {
	GinkgoHelper()
	Create(ctx, u.oc)
	u.ask(u.archives[0])
	u.follow(ctx, u.archives[0])
	u.history = &history{digests: map[string]string{}, States: WatchStates(ctx, u.oc.Namespace,
		&v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}, &appsv1.DeploymentList{})}
	u.follow(ctx, u.archives[0])
}

var _ = Describe("An upgrade", func() {
	It("is never Ready early where the manager learns late that SubOperatorConfigs have changed", func(ctx context.Context) {
		api := startLaggingAPI()
		theManager.restartWith(ctx, api)
		u := newUpgraded(ctx, "1.1.0")
		u.start(ctx)
		for _, late := range []string{"suboperatorconfigs", "operatorcollections"} {
			api.late.Store(&late)
			for i := range 4 {
				u.ask(u.archives[(i+1)%2])
				u.follow(ctx, u.archives[(i+1)%2])
			}
		}
		u.expectNeverEarly(ctx)
	})

	It("is never Ready before the new version runs, 50 times in a row", Label("soak"), func(ctx context.Context) {
		serveTLS(ctx)
		bySpec, byUpload := newUpgraded(ctx, "1.1.0"), newUpgraded(ctx, "1.0.0")
		token := uploaderToken(ctx, byUpload.oc.Namespace)
		// The generation stays.
		byUpload.ask = func(archive []byte) { push(ctx, byUpload.oc.Namespace, token, archive) }
		both := []*upgraded{bySpec, byUpload}
		for _, u := range both {
			u.start(ctx)
		}
		for i := range 25 { // Two upgrades each.
			for _, u := range both {
				u.ask(u.archives[(i+1)%2])
			}
			for _, u := range both {
				u.follow(ctx, u.archives[(i+1)%2])
			}
		}
		for _, u := range both {
			u.expectNeverEarly(ctx)
			Expect(len(u.All())).To(BeNumerically(">", 25*3), "it has seen the upgrades")
		}
	})
})
