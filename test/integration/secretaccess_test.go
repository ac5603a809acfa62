package integration

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Secrets that living resources name", func() {
	It("are kept once by a manager that begins to ask for the label, except the product's own", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.variables = strings.Join([]string{
			"{name: logon, displayName: Logon, type: password}", "{name: note, displayName: Note, type: string}",
			"{name: rows, displayName: Rows, type: object, array: true, objectVariables: [{name: token, displayName: Token, type: password}]}",
		}, "\n      - ")
		oc := installSample(ctx, namespace, s)
		endpoints := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-endpoints"}}
		kept := func(g Gomega) string {
			Get(ctx, g, endpoints)
			return string(endpoints.Data[gate.KeptSecretsFile])
		}
		for _, name := range []string{"db", "other", "unused"} {
			UserSecret(ctx, namespace, name, "", "password")
		}
		Create(ctx, TokenSecret(NamedIn(namespace, "token", "")))
		create := func(name string, spec map[string]any) {
			thing := s.instance(namespace, name)
			for key, value := range spec {
				thing.Object["spec"].(map[string]any)[key] = value
			}
			Create(ctx, thing)
		}
		create("one", map[string]any{"logon": "db", "note": "unused"})
		create("two", map[string]any{"logon": endpoints.Name, "rows": []any{map[string]any{"token": "other"}, map[string]any{"token": "missing"}, map[string]any{"token": "token"}, map[string]any{"token": "x/../db"}}})
		Expect(kept(Default)).To(Equal("[]"), "a new installation keeps none")

		By("looking for them where an earlier manager has left none")
		Patch(ctx, endpoints, fmt.Sprintf(`{"data":{%q:null}}`, gate.KeptSecretsFile))
		theManager.restart(ctx)
		Eventually(ctx, kept).Should(Equal(`["db","other"]`))

		By("not adding others later, nor after a restart")
		create("three", map[string]any{"logon": "unused"})
		theManager.restart(ctx)
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Orphan"}}`)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, oc)
			g.Expect(oc.Status.ObservedGeneration).To(Equal(oc.Generation))
		}).Should(Succeed())
		Expect(kept(Default)).To(Equal(`["db","other"]`))
		attack.Repelled("Secrets and hosts", "have a Secret kept that no resource named at the upgrade", "only names of that time are kept", kept(Default))
	})
})
