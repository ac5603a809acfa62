package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
	"github.com/collection-operator/collection-operator/internal/install/preflight"
	. "github.com/collection-operator/collection-operator/test/fixture"
	"github.com/collection-operator/collection-operator/test/schemachanges"
)

// changedKind is a line of the table of schema changes on the API server: the kind Thing of a collection of its own.
type changedKind struct {
	schemachanges.Change
	was, is *model.Collection
	// planned is nil for a kind that the new version does not have.
	live, planned *apiextensionsv1.CustomResourceDefinition
	evaluator     *upgrade.Evaluator
	problems      map[string][]upgrade.Problem
}

// thingOf returns the CRD of the kind Thing, or nil.
func thingOf(c *model.Collection) *apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	definitions, err := render.CRDs(c, c.Group(true))
	Expect(err).NotTo(HaveOccurred())
	for _, definition := range definitions {
		if definition.Spec.Names.Kind == "Thing" {
			return definition
		}
	}
	return nil
}

func (k *changedKind) group() string { return k.was.Group(true) }

func (k *changedKind) instance(c *model.Collection, namespace, name string, spec schemachanges.Spec) *unstructured.Unstructured {
	full := map[string]any{render.EndpointField: "zos1"}
	for field, value := range spec {
		full[field] = value
	}
	object := Instance(c.APIVersion(), "Thing", namespace, name, full)
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: k.group(), Version: c.APIVersion(), Kind: "Thing"})
	return object
}

func (k *changedKind) resources() map[string]schemachanges.Spec {
	resources := map[string]schemachanges.Spec{}
	if k.Valid != nil {
		resources["valid"] = k.Valid
	}
	if k.Broken != nil {
		resources["broken"] = k.Broken
	}
	return resources
}

// serve waits until the API server serves a version of a CRD, which it does a moment after it says that the CRD is established.
func serve(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, version string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, definition)
		g.Expect(apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established)).To(BeTrue())
	}).Should(Succeed())
	Eventually(ctx, func() error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: definition.Spec.Group, Version: version, Kind: definition.Spec.Names.ListKind})
		return K8s.List(ctx, list)
	}).Should(Succeed())
}

// judgeResources asks the judge what the new version means for the resources that exist.
func (k *changedKind) judgeResources(ctx context.Context, namespace string) {
	GinkgoHelper()
	planned := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, definition := range mustRender(k.is) {
		planned[definition.Spec.Names.Kind] = definition
	}
	if k.planned != nil {
		planned["Thing"] = k.planned
	}
	var err error
	k.evaluator, err = upgrade.NewEvaluator(k.was, k.is, planned)
	Expect(err).NotTo(HaveOccurred())
	report, err := preflight.Check(ctx, K8s, k.evaluator, preflight.Kinds([]apiextensionsv1.CustomResourceDefinition{*k.live}), []string{namespace})
	Expect(err).NotTo(HaveOccurred())
	Expect(report.Resources).To(Equal(len(k.resources())))
	k.problems = map[string][]upgrade.Problem{}
	for _, p := range slices.Concat(report.Problems, report.Warnings) {
		k.problems[p.Name] = append(k.problems[p.Name], p)
	}
}

func mustRender(c *model.Collection) []*apiextensionsv1.CustomResourceDefinition {
	GinkgoHelper()
	definitions, err := render.CRDs(c, c.Group(true))
	Expect(err).NotTo(HaveOccurred())
	return definitions
}

// expectRefusal compares what the API server says with what the judge foresaw.
func expectRefusal(err error, foreseen []upgrade.Problem, refused func(upgrade.Problem) bool) {
	GinkgoHelper()
	if !slices.ContainsFunc(foreseen, refused) {
		Expect(err).NotTo(HaveOccurred(), "foreseen: %v", foreseen)
		return
	}
	Expect(err).To(Satisfy(apierrors.IsInvalid), "foreseen: %v", foreseen)
	for _, p := range foreseen {
		if refused(p) {
			Expect(err.Error()).To(ContainSubstring(p.Field))
		}
	}
}

// expectVerdicts compares the judge's verdict with what the API server does with the new version.
func (k *changedKind) expectVerdicts(ctx context.Context, namespace string) {
	GinkgoHelper()
	for name, spec := range k.resources() {
		foreseen := k.problems[name]
		Expect(slices.ContainsFunc(foreseen, upgrade.Problem.Blocks)).To(Equal(name == "broken"), "%v", foreseen)
		if k.planned == nil {
			Expect(K8s.Create(ctx, k.instance(k.is, namespace, name+"-again", spec))).NotTo(Succeed())
			continue
		}

		live := k.instance(k.was, namespace, name, nil)
		Get(ctx, Default, live)
		again := live.DeepCopy()
		again.Object["metadata"] = map[string]any{"namespace": namespace, "name": name + "-again"}
		again.SetGroupVersionKind(schema.GroupVersionKind{Group: k.group(), Version: k.is.APIVersion(), Kind: "Thing"})
		expectRefusal(K8s.Create(ctx, again), foreseen, func(p upgrade.Problem) bool { return p.Refused })

		edited := k.instance(k.is, namespace, name, nil)
		Get(ctx, Default, edited)
		for field := range spec {
			Expect(edited.Object["spec"]).To(HaveKey(field), "a field is lost")
		}
		Expect(unstructured.SetNestedField(edited.Object, "zos2", "spec", render.EndpointField)).To(Succeed())
		expectRefusal(K8s.Update(ctx, edited), foreseen, func(p upgrade.Problem) bool { return p.RefusedUntouched })
	}
}

// pagedChange is the one of expectPages.
const pagedChange = "option removed"

// expectPages judges 501 resources, which are read in two pages.
func expectPages(ctx context.Context, kinds []*changedKind) {
	GinkgoHelper()
	const number = 501
	namespace := newNamespace(ctx)
	k := kinds[slices.IndexFunc(kinds, func(k *changedKind) bool { return k.Name == pagedChange })]
	var creating errgroup.Group
	creating.SetLimit(20)
	for i := range number {
		creating.Go(func() error {
			return K8s.Create(ctx, k.instance(k.was, namespace, fmt.Sprintf("broken%d", i), k.Broken))
		})
	}
	Expect(creating.Wait()).To(Succeed())
	kind := []schema.GroupVersionKind{{Group: k.group(), Version: k.was.APIVersion(), Kind: "Thing"}}
	report, err := preflight.Check(ctx, K8s, k.evaluator, kind, []string{namespace})
	Expect(err).NotTo(HaveOccurred())
	Expect(report).To(And(HaveField("Resources", number), HaveField("Blocked", number), HaveField("Problems", HaveLen(50))))
	Expect(report.Err()).To(MatchError(And(ContainSubstring("does not fit 501 of 501 custom resources"), ContainSubstring("; and 496 more. "))))
}

// A third of the changes, which the random seed chooses, or all with SCHEMA_CHANGES=all.
var _ = Describe("The judge of an upgrade", func() {
	It("foresees what the API server does with living resources", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		var kinds []*changedKind
		every := 3
		if os.Getenv("SCHEMA_CHANGES") == "all" {
			every = 1
		}
		for i, change := range schemachanges.All() {
			if every > 1 && i%every != int(GinkgoRandomSeed())%every && change.Name != pagedChange {
				continue
			}
			k := &changedKind{Change: change}
			k.was, k.is = change.Versions(fmt.Sprintf("change%d", i))
			k.live = thingOf(k.was)
			if wanted := thingOf(k.is); wanted != nil {
				var err error
				k.planned, err = crd.Merge(k.live, []crd.Contribution{{Version: k.is.Version, CRD: wanted}})
				var conflict *crd.Error
				Expect(errors.As(err, &conflict)).To(Equal(change.None == schemachanges.Conflict), "%s: %v", change.Name, err)
				if err != nil {
					continue
				}
			}
			kinds = append(kinds, k)
			Create(ctx, k.live)
			DeferCleanup(func(ctx context.Context) { Remove(ctx, k.live) })
		}
		By("creating resources of the first versions")
		for _, k := range kinds {
			serve(ctx, k.live, k.was.APIVersion())
			for name, spec := range k.resources() {
				Create(ctx, k.instance(k.was, namespace, name, spec))
			}
		}
		By("judging, and writing the second versions")
		for _, k := range kinds {
			By(k.Name)
			k.judgeResources(ctx, namespace)
			if k.planned != nil {
				k.planned.ObjectMeta = *k.live.ObjectMeta.DeepCopy()
				Expect(K8s.Update(ctx, k.planned, client.FieldOwner("spec"))).To(Succeed())
			}
		}
		By("using the second versions")
		for _, k := range kinds {
			By(k.Name)
			if k.planned != nil {
				serve(ctx, k.planned, k.is.APIVersion())
			}
			k.expectVerdicts(ctx, namespace)
		}
		By("reading more than a page")
		expectPages(ctx, kinds)
	})
})
