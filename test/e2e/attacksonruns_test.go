//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// runsAndRecords is the group of attacks on the decision whether a playbook runs, and on its variables.
const runsAndRecords = "Runs and their records"

func (s *runSpecs) attacks() {
	It("get no field that only another version of the collection declares", attack.Label, s.foreignFields)
	It("run or not regardless of a forged record", attack.Label, s.forgedRecords)
	It("cannot be made to run all the time, or to tell much, by annotations", attack.Label, s.boundedAnnotations)
}

// foreignFields sets, in a namespace whose operator runs version 1.0.0, a field that version 1.1.0 declares. The endpoint has
// a variable of that name, on which its Python interpreter depends.
func (s *runSpecs) foreignFields(ctx context.Context) {
	newer := s.collection("1.1.0")
	newer.Name = "newer"
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: s.meta(newer.Name + "-soc"), Spec: v2beta2.SubOperatorConfigSpec{
		OperatorCollection: newer.Name, Mapping: []v2beta2.NamespaceMapping{{Namespace: s.neighbor.Name}},
	}}
	Create(ctx, soc, newer)
	Eventually(ctx, Condition(ctx, newer, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
	s.zos1.shell(ctx, "mkdir -p /tmp/evil/bin; printf '#!/bin/sh\\ntouch /tmp/evil/executed\\n' >/tmp/evil/bin/python3; chmod -R a+rwx /tmp/evil")
	// The task that fails is the one that needs Python.
	set := s.instance("v1minor1patch0", "Play", "evil-set", map[string]any{"zosendpoint": "zos1", "note": "set", "code": int64(3), "PYZ": "/tmp/evil"})
	defaulted := s.instance("v1minor1patch0", "Play", "evil-default", map[string]any{"zosendpoint": "zos1", "note": "default", "code": int64(3)})
	for _, object := range []*unstructured.Unstructured{set, defaulted} {
		Create(ctx, object.DeepCopy())
		spec, _, err := unstructured.NestedMap(Live(ctx, Default, object).Object, "spec")
		Expect(err).NotTo(HaveOccurred())
		Expect(spec).To(HaveKeyWithValue("PYZ", "/tmp/evil"), "the API server stores it")
		Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeFailed))
		run := lastRun(ctx, object)(Default)
		Expect(run.Failure).To(HaveValue(And(HaveField("Task", "Refuse"), HaveField("ReturnCode", HaveValue(Equal(3))))),
			"the endpoint's Python ran the module")
		Eventually(ctx, Condition(ctx, object, runstatus.ConditionFieldsIgnored)).Should(And(ConditionTrue(), WithMessage("PYZ")))
		attack.Repelled(runsAndRecords, "set a field that a newer version in another namespace declares, and on which the endpoint's Python depends: "+object.GetName(),
			"the field is ignored and named", Condition(ctx, object, runstatus.ConditionFieldsIgnored)(Default).Message)
	}
	Expect(s.zos1.shell(ctx, "ls /tmp/evil")).NotTo(ContainSubstring("executed"))
	for _, object := range []*unstructured.Unstructured{set, defaulted} {
		Remove(ctx, object.DeepCopy())
		Eventually(ctx, Gone(ctx, object)).Should(BeTrue())
	}
	Remove(ctx, newer)
	Eventually(ctx, Gone(ctx, newer)).Should(BeTrue())
}

// record is the signed record of a resource.
func record(ctx context.Context, g Gomega, object client.Object) string {
	return Live(ctx, g, object).GetAnnotations()[gate.AnnotationRecord]
}

func withRecord(record string, spec map[string]any) string {
	GinkgoHelper()
	changes := map[string]any{"metadata": map[string]any{"annotations": map[string]any{gate.AnnotationRecord: record}}}
	if spec != nil {
		changes["spec"] = spec
	}
	return MustJSON(changes)
}

// forgedRecords copies the record of a resource to others, and edits one.
func (s *runSpecs) forgedRecords(ctx context.Context) {
	model, unchanged, changed := s.play("calm-10", "zos1", nil), s.play("calm-11", "zos1", nil), s.play("calm-12", "zos1", nil)
	stolen := record(ctx, Default, model)
	Expect(stolen).NotTo(BeEmpty())
	lines, own := s.zos1.lines(ctx), record(ctx, Default, unchanged)

	By("an unchanged resource with another's record")
	Patch(ctx, unchanged.DeepCopy(), withRecord(stolen, nil))
	Eventually(ctx, func(g Gomega) string { return record(ctx, g, unchanged) }).ShouldNot(Equal(stolen), "it is replaced")
	Expect(s.zos1.lines(ctx)).To(Equal(lines))

	By("a changed resource with the record of a resource that has succeeded")
	Patch(ctx, changed.DeepCopy(), withRecord(stolen, map[string]any{"note": "forged"}))
	Eventually(ctx, func() int { return s.zos1.lines(ctx)["end calm-12 forged"] }).Should(Equal(1))

	By("a new resource with the record of an equal one")
	fresh := s.play("fresh", "zos1", nil)
	fresh.SetAnnotations(map[string]string{gate.AnnotationRecord: stolen})
	Create(ctx, fresh.DeepCopy())
	Eventually(ctx, lastRun(ctx, fresh)).Should(withOutcome(gate.OutcomeSucceeded))

	By("a resource that rests after failures, with an edited record")
	resting := s.failing()[0]
	edited := record(ctx, Default, resting)
	Expect(edited).NotTo(BeEmpty())
	edited = strings.Map(func(r rune) rune {
		if r == 'A' {
			return 'B'
		}
		return r
	}, strings.ReplaceAll(edited, string(gate.OutcomeFailed), string(gate.OutcomeSucceeded)))
	Patch(ctx, resting.DeepCopy(), withRecord(edited, nil))
	Eventually(ctx, func(g Gomega) string { return record(ctx, g, resting) }).ShouldNot(Equal(edited))
	Expect(Condition(ctx, resting, runstatus.ConditionReady)(Default)).NotTo(ConditionTrue())

	after := s.zos1.lines(ctx)
	maps.DeleteFunc(after, func(line string, _ int) bool { return lines[line] > 0 })
	Expect(after).To(Equal(map[string]int{"begin calm-12 forged": 1, "end calm-12 forged": 1, "begin fresh first": 1, "end fresh first": 1}))
	attack.Repelled(runsAndRecords, "copy the record of one resource to another, or edit one", "worth nothing: unchanged resources do not run, all others do",
		fmt.Sprintf("the copied record was replaced by one of %d characters (its own had %d)", len(record(ctx, Default, unchanged)), len(own)))
	Remove(ctx, fresh)
	Eventually(ctx, Gone(ctx, fresh)).Should(BeTrue())
}

// boundedAnnotations sets ansible-operator's annotations to values out of bounds.
func (s *runSpecs) boundedAnnotations(ctx context.Context) {
	object := s.play("calm-13", "zos1", nil)
	for name, value := range map[string]string{
		"ansible.sdk.operatorframework.io/verbosity": "4",
		gate.AnnotationMaxArtifacts:                  "21",
		gate.AnnotationReconcilePeriod:               "1ms",
	} {
		changes := MustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}})
		err := TryPatch(ctx, object.DeepCopy(), changes)
		Expect(apierrors.IsInvalid(err) || apierrors.IsForbidden(err)).To(BeTrue(), "%s=%s: %v", name, value, err)
		attack.Repelled(runsAndRecords, "set "+name+" to "+value, "the API server refuses it", err.Error())
	}
	err := TryPatch(ctx, object.DeepCopy(), MustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{gate.AnnotationReconcilePeriod: "often"}}}))
	Expect(apierrors.IsInvalid(err) || apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
	Patch(ctx, object.DeepCopy(), MustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{gate.AnnotationMaxArtifacts: "20"}}}))
}
