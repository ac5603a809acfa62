//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
)

func personalStories() {
	It("never uses a shared credential where personal ones are asked for", attack.Label, func(ctx context.Context) {
		second := operatorCollection("second.example.1.0.0", pinned("second.tar.gz"))
		soc := &v2beta2.SubOperatorConfig{
			ObjectMeta: metav1.ObjectMeta{Name: second.Name + "-soc", Namespace: namespace},
			Spec: v2beta2.SubOperatorConfigSpec{
				OperatorCollection: second.Name,
				CredentialType:     v2beta2.CredentialPersonal,
				Mapping:            []v2beta2.NamespaceMapping{{Namespace: namespace}},
			},
		}
		create(ctx, soc, second)
		printed, err := kubectlWait(ctx, "suboperatorconfig/"+soc.Name, "2m")
		Expect(err).NotTo(HaveOccurred(), printed)
		thing := instance("SecondThing", "thing", map[string]any{"zosendpoint": lpar2.name})
		create(ctx, thing.DeepCopy())
		Eventually(condition(ctx, thing, "Failure")).WithContext(ctx).Should(And(beTrue(), saying("PersonalCredentialsUnsupported")))
		attack.Repelled(secretsAndHosts, "run with a shared credential where personal ones are asked for", "the run fails before it reaches a host",
			condition(ctx, thing, "Failure")(Default).Message)

		remove(ctx, thing.DeepCopy())
		Eventually(gone(ctx, thing)).WithContext(ctx).Should(BeTrue(), "the kind has no finalizer playbook")
		remove(ctx, second)
		Eventually(gone(ctx, second)).WithContext(ctx).Should(BeTrue())
		Eventually(gone(ctx, soc)).WithContext(ctx).Should(BeTrue())
	}, NodeTimeout(6*time.Minute))
}
