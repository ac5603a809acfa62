//go:build e2e

package e2e

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// evil would leave a mark in the operator's pod if anything evaluated it.
const evil = `{{ lookup('pipe', 'touch /tmp/evaluated; echo evaluated') }}`

func injectionStories() {
	It("keeps a template in a field as text", func(ctx context.Context) {
		name := `{{ lookup('pipe','id -un') }}.txt`
		templated := dataFile("templated", map[string]any{"zosendpoint": lpar1.name, "filename": name, "lines": []any{evil, "{{ 6 * 7 }}"}})
		create(ctx, templated.DeepCopy())
		expectSuccess(ctx, templated)
		Expect(lpar1.files(ctx)).To(ContainElement(name))
		Expect(lpar1.content(ctx, name)).To(HaveSuffix("\n" + evil + "\n{{ 6 * 7 }}\n"))

		remove(ctx, templated.DeepCopy())
		Eventually(gone(ctx, templated)).WithContext(ctx).Should(BeTrue())
		Expect(lpar1.files(ctx)).NotTo(ContainElement(name))
	}, NodeTimeout(4*time.Minute))

	It("keeps templates as text on every other way into a playbook", func(ctx context.Context) {
		mirror := instance("Mirror", "mirror", map[string]any{"zosendpoint": lpar1.name, "text": evil, "nested": map[string]any{"inner": evil}})
		mirror.SetAnnotations(map[string]string{"note": evil})
		create(ctx, mirror.DeepCopy())
		expectSuccess(ctx, mirror)
		lines := strings.Split(strings.TrimSpace(lpar1.content(ctx, "mirror.mirror")), "\n")
		Expect(lines).To(Equal([]string{"text=" + evil, "nested=" + evil, "annotation=" + evil, "spec=" + evil, "whole={}"}))

		remove(ctx, mirror.DeepCopy())
		Eventually(gone(ctx, mirror)).WithContext(ctx).Should(BeTrue())
		lpar1.shell(ctx, "rm "+lpar1.base()+"/mirror.mirror")
	}, NodeTimeout(3*time.Minute))

	It("evaluated nothing in the operator's pod", func(ctx context.Context) {
		Expect(inOperator(ctx, "ls /tmp")).NotTo(ContainSubstring("evaluated"))
	}, NodeTimeout(time.Minute))
}
