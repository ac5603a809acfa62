//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// evil would leave a mark in the operator's pod if anything evaluated it.
const evil = `{{ lookup('pipe', 'touch /tmp/evaluated; echo evaluated') }}`

// templateInjection is the group of these attacks.
const templateInjection = "Template injection"

func injectionSpecs() {
	It("keeps a template in a field as text", attack.Label, func(ctx context.Context) {
		name := `{{ lookup('pipe','id -un') }}.txt`
		templated := dataFile("templated", map[string]any{"zosendpoint": lpar1.name, "filename": name, "lines": []any{evil, "{{ 6 * 7 }}"}})
		Create(ctx, templated.DeepCopy())
		expectSuccess(ctx, templated)
		Expect(lpar1.files(ctx)).To(ContainElement(name))
		content := lpar1.content(ctx, name)
		Expect(content).To(HaveSuffix("\n" + evil + "\n{{ 6 * 7 }}\n"))
		attack.Repelled(templateInjection, "templates as a file's name and lines", "both are text on the system",
			name+" ends with "+content[strings.LastIndex(content, "{{"):])

		Remove(ctx, templated.DeepCopy())
		Eventually(ctx, Gone(ctx, templated)).Should(BeTrue())
		Expect(lpar1.files(ctx)).NotTo(ContainElement(name))
	})

	It("keeps templates as text on every other way into a playbook", attack.Label, func(ctx context.Context) {
		allowed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mirror", Labels: map[string]string{v2beta2.LabelRuntime: operator.Name}}}
		Create(ctx, allowed)
		DeferCleanup(Remove, allowed)
		mirror := instance("Mirror", "mirror", map[string]any{
			"zosendpoint": lpar1.name, "text": evil, "texts": []any{evil}, "reference": evil, "mirrorSecret": allowed.Name,
			"rows": []any{map[string]any{"inner": evil}},
			"nested": map[string]any{
				"inner": evil, "ansible_connection": "local", "ansible_host": lpar2.host(), "zoscb_playbook": "/tmp/evil.yml", "zosendpoint": lpar2.name,
			},
			// The schema does not know these.
			"ansible_connection": "local", "ansible_host": lpar2.host(), "zoscb_playbook": "/tmp/evil.yml",
		})
		mirror.SetAnnotations(map[string]string{"note": evil})
		Create(ctx, mirror.DeepCopy())
		expectSuccess(ctx, mirror)
		lines := strings.Split(strings.TrimSpace(lpar1.content(ctx, "mirror.mirror")), "\n")
		ways := []string{"text", "texts", "defaulted", "reference", "nested", "rows", "annotation", "spec"}
		Expect(lines).To(HaveLen(len(ways) + 10))
		for i, way := range ways {
			Expect(lines[i]).To(Equal(way + "=" + evil))
		}
		Expect(lines[len(ways):]).To(Equal([]string{
			"whole={}", "secret=mirror",
			"nested connection=local", "nested host=" + lpar2.host(), "nested playbook=/tmp/evil.yml", "nested endpoint=" + lpar2.name,
			"endpoint=" + lpar1.name, "connection=ssh", "host=" + lpar1.host(), "playbook=mirror.yml",
		}))
		for i, what := range []string{
			"a text", "a list", "a default of the collection", "the name of another resource", "a field of an object",
			"a field of an object in a list", "an annotation", "the copy of the whole spec",
		} {
			attack.Repelled(templateInjection, "a template in "+what, "is text for the playbook", lines[i])
		}
		attack.Repelled(templateInjection, "ansible_connection, ansible_host, zosendpoint and zoscb_playbook, in the spec and in an object",
			"unknown fields are dropped, those of an object are data; the playbook runs where it should", strings.Join(lines[len(lines)-4:], ", "))

		By("not starting with a template as the name of a Secret")
		Patch(ctx, mirror.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"mirrorSecret": evil}}))
		Eventually(ctx, Field(ctx, mirror, "status", "waiting", "reason")).Should(Equal(v2beta2.ReasonRuntimeObjectNotAllowed))
		attack.Repelled(templateInjection, "a template in the name of a Secret", "no run starts", fmt.Sprint(Field(ctx, mirror, "status", "waiting", "message")(Default)))
		Patch(ctx, mirror.DeepCopy(), `{"spec":{"mirrorSecret":"mirror"}}`)

		Remove(ctx, mirror.DeepCopy())
		Eventually(ctx, Gone(ctx, mirror)).Should(BeTrue())
		lpar1.shell(ctx, "rm "+lpar1.base()+"/mirror.mirror")
	})

	It("has templates refused where there cannot be text", attack.Label, func(ctx context.Context) {
		refused := func(what string, spec map[string]any, name string, labels map[string]string) {
			GinkgoHelper()
			object := instance("Mirror", name, map[string]any{"zosendpoint": lpar1.name})
			for key, value := range spec {
				object.Object["spec"].(map[string]any)[key] = value
			}
			object.SetLabels(labels)
			err := K8s.Create(ctx, object)
			Expect(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)).To(BeTrue(), "%s: %v", what, err)
			attack.Repelled(templateInjection, "a template as "+what, "the API server refuses the resource", fmt.Sprint(apierrors.ReasonForError(err)))
		}
		for _, field := range []string{"count", "ratio", "flag", "choice", "zosendpoint"} {
			refused("the field "+field, map[string]any{field: evil}, "typed", nil)
		}
		refused("a name", nil, evil, nil)
		refused("a label", nil, "labelled", map[string]string{"note": evil})
	})

	It("evaluated nothing in the operator's pod", func(ctx context.Context) {
		Expect(inOperator(ctx, "ls /tmp")).NotTo(ContainSubstring("evaluated"))
	})
}
