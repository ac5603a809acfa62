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
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func personalSpecs() {
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
		Create(ctx, soc, second)
		printed, err := kubectlWait(ctx, "suboperatorconfig/"+soc.Name, "2m")
		Expect(err).NotTo(HaveOccurred(), printed)
		thing := instance("SecondThing", "thing", map[string]any{"zosendpoint": lpar2.name})
		Create(ctx, thing.DeepCopy())
		Eventually(Condition(ctx, thing, "Failure")).WithContext(ctx).Should(And(ConditionTrue(), WithMessage("PersonalCredentialsUnsupported")))
		attack.Repelled(secretsAndHosts, "run with a shared credential where personal ones are asked for", "the run fails before it reaches a host",
			Condition(ctx, thing, "Failure")(Default).Message)

		Remove(ctx, thing.DeepCopy())
		Eventually(Gone(ctx, thing)).WithContext(ctx).Should(BeTrue(), "the kind has no finalizer playbook")
		Remove(ctx, second)
		Eventually(Gone(ctx, second)).WithContext(ctx).Should(BeTrue())
		Eventually(Gone(ctx, soc)).WithContext(ctx).Should(BeTrue())
	}, NodeTimeout(6*time.Minute))
}
