package runner_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// jobDefaults are the defaults of one version of the gate's kind; "" means none. inner is that of member b of items.
type jobDefaults struct{ mode, gained, added, inner string }

var (
	defaultsOfV1 = jobDefaults{mode: "x", inner: "x"}
	defaultsOfV2 = jobDefaults{mode: "y", gained: "y", added: "y", inner: "y"}
)

// jobVersion is a version of the gate's kind, as render.CRDs and crd.Merge make it.
func jobVersion(name string, storage bool, d jobDefaults) apiextensionsv1.CustomResourceDefinitionVersion {
	text := func(byDefault string) apiextensionsv1.JSONSchemaProps {
		p := apiextensionsv1.JSONSchemaProps{Type: "string"}
		if byDefault != "" {
			p.Default = &apiextensionsv1.JSON{Raw: []byte(MustJSON(byDefault))}
		}
		return p
	}
	item := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": text(""), "b": text(d.inner)}}
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Name: name, Served: true, Storage: storage,
		Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"status": {Type: "object", XPreserveUnknownFields: ptr.To(true)},
				"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"zosendpoint": text(""), "title": text(""), "follows": text(""),
					"mode": text(d.mode), "gained": text(d.gained), "added": text(d.added),
					"items": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}},
				}},
			},
		}},
	}
}

// jobVariables are the variables of the same version in the gate's settings.
func jobVariables(d jobDefaults, names ...string) gate.KindSettings {
	variable := func(name, byDefault string) gate.Variable {
		v := gate.Variable{Name: name}
		if byDefault != "" {
			v.Default = json.RawMessage(MustJSON(byDefault))
		}
		return v
	}
	kind := gate.KindSettings{Plural: "jobs", Variables: []gate.Variable{
		{Name: "title"}, {Name: "follows", Reference: "jobs"}, variable("mode", d.mode), variable("gained", d.gained),
		{Name: "items", Fields: []gate.Variable{{Name: "a"}, variable("b", d.inner)}},
	}}
	for _, name := range names {
		kind.Variables = append(kind.Variables, variable(name, d.added))
	}
	return kind
}

// defaultsGroup is the group of the kind whose versions have different defaults. Each container of specs has one of its own.
var defaultsGroup string

func makeJobsV1(ctx context.Context) {
	GinkgoHelper()
	defaultsGroup = strings.ToLower(rand.Text()) + ".example.com"
	Create(ctx, JobCRD(defaultsGroup, jobVersion("v1", true, defaultsOfV1)))
	Eventually(ctx, func() error { return K8s.Create(ctx, aJob("v1", "default", "probe"), client.DryRunAll) }).Should(Succeed())
}

// upgradeJobs adds version v2, which is stored from then on, and waits until it is served.
func upgradeJobs(ctx context.Context, namespace string) {
	GinkgoHelper()
	crd := JobCRD(defaultsGroup)
	Get(ctx, Default, crd)
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{jobVersion("v2", true, defaultsOfV2), jobVersion("v1", false, defaultsOfV1)}
	Expect(K8s.Update(ctx, crd)).To(Succeed())
	Eventually(ctx, func(g Gomega) {
		probe := aJob("v2", namespace, "probe")
		g.Expect(K8s.Create(ctx, probe, client.DryRunAll)).To(Succeed())
		g.Expect(specText(probe)).To(ContainSubstring(`"mode":"y"`))
	}).Should(Succeed())
}

func aJob(version, namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": defaultsGroup + "/" + version, "kind": JobKind,
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec":     map[string]any{"zosendpoint": "lpar1", "title": "t", "items": []any{map[string]any{"a": "1"}}},
	}}
}

// applyJob applies the job on the server's side, as a GitOps tool does.
func applyJob(ctx context.Context, version, namespace, name string) *unstructured.Unstructured {
	GinkgoHelper()
	job := aJob(version, namespace, name)
	Expect(K8s.Patch(ctx, job, client.RawPatch(types.ApplyPatchType, []byte(MustJSON(job))), client.FieldOwner("flux"), client.ForceOwnership)).To(Succeed())
	return job
}

func specText(job *unstructured.Unstructured) string {
	spec, _ := job.Object["spec"].(map[string]any)
	delete(spec, "zosendpoint")
	delete(spec, "title")
	return MustJSON(spec)
}

// readJob returns what the API server says of the spec in a version, without what is the same in all, and who owns fields in it.
func readJob(ctx context.Context, version string, job *unstructured.Unstructured) (spec string, owners []string) {
	GinkgoHelper()
	live := aJob(version, job.GetNamespace(), job.GetName())
	Get(ctx, Default, live)
	for _, entry := range live.GetManagedFields() {
		var fields struct {
			Spec map[string]any `json:"f:spec"`
		}
		Expect(json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields)).To(Succeed())
		for field := range fields.Spec {
			if name := strings.TrimPrefix(field, "f:"); name != "." && name != "title" && name != "zosendpoint" {
				owners = append(owners, entry.Manager+":"+name)
			}
		}
	}
	return specText(live), owners
}

var _ = Describe("What the API server does with the defaults of a new version", Ordered, func() {
	const stored, shown = `{"items":[{"a":"1","b":"x"}],"mode":"x"}`, `{"added":"y","gained":"y","items":[{"a":"1","b":"x"}],"mode":"x"}`
	var namespace string
	var created, applied, patched, erased, replaced, again *unstructured.Unstructured
	BeforeAll(func(ctx context.Context) {
		makeJobsV1(ctx)
		namespace = newNamespace(ctx)
		for name, job := range map[string]**unstructured.Unstructured{"created": &created, "patched": &patched, "erased": &erased, "replaced": &replaced, "again": &again} {
			*job = aJob("v1", namespace, name)
			Expect(K8s.Create(ctx, *job, client.FieldOwner("creator"))).To(Succeed())
		}
		applied = applyJob(ctx, "v1", namespace, "applied")
		upgradeJobs(ctx, namespace)
	})
	change := func(ctx context.Context, job *unstructured.Unstructured, manager, patch string) {
		GinkgoHelper()
		target := aJob("v2", namespace, job.GetName())
		if strings.Contains(patch, "status") {
			Expect(K8s.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager))).To(Succeed())
			return
		}
		Expect(K8s.Patch(ctx, target, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager))).To(Succeed())
	}
	expect := func(ctx context.Context, job *unstructured.Unstructured, want string, owners ...any) {
		GinkgoHelper()
		spec, owned := readJob(ctx, "v2", job)
		Expect(spec).To(Equal(want))
		Expect(owned).To(ConsistOf(owners...))
	}

	It("stores defaults at creation, in the name of who creates, but not in the name of who applies", func(ctx context.Context) {
		expect(ctx, created, stored, "creator:mode", "creator:items")
		expect(ctx, applied, stored, "flux:items")
	})

	It("shows new defaults after a status write, in nobody's name", func(ctx context.Context) {
		change(ctx, created, "status-writer", `{"status":{"phase":"a"}}`)
		expect(ctx, created, shown, "creator:mode", "creator:items")
		change(ctx, created, "annotator", `{"metadata":{"annotations":{"a":"b"}}}`)
		expect(ctx, created, shown, "creator:mode", "creator:items")
	})

	It("stores new defaults with any other write, in the name of who writes", func(ctx context.Context) {
		change(ctx, patched, "annotator", `{"metadata":{"annotations":{"a":"b"}}}`)
		expect(ctx, patched, shown, "creator:mode", "creator:items", "annotator:added", "annotator:gained")
	})

	It("gives the present default to a field that is removed or left out", func(ctx context.Context) {
		change(ctx, erased, "eraser", `{"spec":{"mode":null}}`)
		expect(ctx, erased, strings.Replace(shown, `"mode":"x"`, `"mode":"y"`, 1), "creator:items", "eraser:mode", "eraser:added", "eraser:gained")
		whole := aJob("v2", namespace, "replaced")
		live := aJob("v2", namespace, "replaced")
		Get(ctx, Default, live)
		whole.SetResourceVersion(live.GetResourceVersion())
		Expect(K8s.Update(ctx, whole, client.FieldOwner("replacer"))).To(Succeed())
		expect(ctx, replaced, strings.ReplaceAll(shown, `"x"`, `"y"`), "replacer:mode", "replacer:items", "replacer:added", "replacer:gained")
	})

	It("changes lists that are applied again without a change, and nothing else", func(ctx context.Context) {
		applyJob(ctx, "v2", namespace, "applied")
		expect(ctx, applied, strings.Replace(shown, `"b":"x"`, `"b":"y"`, 1), "flux:items")
		Expect(Live(ctx, Default, applied).GetGeneration()).To(BeEquivalentTo(2))
		change(ctx, again, "kubectl-client-side-apply", `{"spec":{"items":[{"a":"1"}]}}`)
		expect(ctx, again, strings.Replace(shown, `"b":"x"`, `"b":"y"`, 1), "creator:mode",
			"kubectl-client-side-apply:items", "kubectl-client-side-apply:added", "kubectl-client-side-apply:gained")
	})
})

var _ = Describe("A default that a new version has changed", Ordered, func() {
	BeforeAll(makeJobsV1)

	It("reaches a playbook only if it is accepted, and starts none", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		pod.RealRunner(`cp "$2/env/extravars" "$DIR/"; ` + WellDone)
		pod.Settings.Group, pod.Settings.Kinds[JobKind] = defaultsGroup, jobVariables(defaultsOfV1)
		pod.WriteSettings()
		job := applyJob(ctx, "v1", namespace, "one")
		follower := aJob("v1", namespace, "two")
		Expect(unstructured.SetNestedField(follower.Object, "one", "spec", "follows")).To(Succeed())
		Create(ctx, follower)
		pod.Reconcile(ctx, job)
		pod.Reconcile(ctx, follower)
		Expect(pod.Plays()).To(Equal(2))

		By("upgrading, and applying the same manifest again")
		upgradeJobs(ctx, namespace)
		pod.Settings.Version, pod.Settings.Digest, pod.Settings.APIVersion = "1.1.0", "sha256:2", "v2"
		pod.Settings.Kinds[JobKind] = jobVariables(defaultsOfV2, "added")
		pod.WriteSettings()
		job.SetAPIVersion(defaultsGroup + "/v2")
		follower.SetAPIVersion(defaultsGroup + "/v2")
		expect := func(plays int, phase, conditions string) {
			GinkgoHelper()
			pod.Reconcile(ctx, job)
			pod.Reconcile(ctx, follower)
			Expect(pod.Plays()).To(Equal(plays))
			Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal(phase))
			Expect(defaultsConditions(ctx, job)).To(Equal(conditions))
		}
		const added = "DefaultsNew: the next run gets defaults of version 1.1.0 of the collection that the last run did not get: added (\"y\"), gained (\"y\")\n"
		expect(2, "Outdated", added)
		ExpectHealth(ctx, "resource-outdated", job)
		applyJob(ctx, "v2", namespace, "one")
		spec, _ := readJob(ctx, "v2", job)
		Expect(spec).To(ContainSubstring(`"b":"y"`), "the API server has changed it")
		const kept = "DefaultsKept: playbooks get the defaults that the resource ran with, not those of version 1.1.0 of the collection: " +
			"items.b (\"x\" instead of \"y\"); to take the new ones, set the fields, or annotation zoscb.ibm.com/accept-defaults: \"1.1.0\"\n"
		expect(2, "Outdated", kept+added)
		before := Live(ctx, Default, job).GetResourceVersion()
		expect(2, "Outdated", kept+added)
		Expect(Live(ctx, Default, job).GetResourceVersion()).To(Equal(before), "it is written once")

		By("running it for another reason")
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, gate.AnnotationRequestedAt))
		pod.Reconcile(ctx, job)
		Expect(pod.given()).To(And(ContainSubstring(`"mode":"x"`), ContainSubstring(`"b":"x"`), ContainSubstring(`"added":"y"`)))
		Patch(ctx, follower, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, gate.AnnotationRequestedAt))
		expect(4, "Succeeded", kept)
		spec, _ = readJob(ctx, "v2", job)
		Expect(spec).To(ContainSubstring(`"b":"y"`), "nobody writes the spec")

		By("accepting the defaults of another version, and then of this one")
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1.2.0"}}}`, gate.AnnotationAcceptDefaults))
		expect(4, "Succeeded", kept)
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"1.1.0"}}}`, gate.AnnotationAcceptDefaults))
		pod.Reconcile(ctx, job)
		Expect(Field(ctx, job, "status", "lastRun", "reason")(Default)).To(Equal("Changed"))
		Expect(pod.given()).To(And(ContainSubstring(`"mode":"x"`), ContainSubstring(`"b":"y"`)), "mode is in the spec")
		expect(6, "Succeeded", "")
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, gate.AnnotationAcceptDefaults))
		expect(6, "Succeeded", "")
	})
})

// given returns the extra vars of the last run, without marks of text.
func (p *operatorPod) given() string {
	return regexp.MustCompile(`\{"__ansible_unsafe":("[^"]*")\}`).ReplaceAllString(p.Read("extravars"), "$1")
}

// defaultsConditions returns the conditions about defaults, one in each line.
func defaultsConditions(ctx context.Context, job *unstructured.Unstructured) string {
	GinkgoHelper()
	conditions, _, err := unstructured.NestedSlice(Live(ctx, Default, job).Object, "status", "conditions")
	Expect(err).NotTo(HaveOccurred())
	var lines []string
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		if name := fmt.Sprint(c["type"]); strings.HasPrefix(name, "Defaults") {
			lines = append(lines, fmt.Sprintf("%s: %s\n", name, c["message"]))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
