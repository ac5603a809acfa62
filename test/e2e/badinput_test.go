//go:build e2e

package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func operatorCollection(name string, spec v2beta2.OperatorCollectionSpec) *v2beta2.OperatorCollection {
	return &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: spec}
}

// pinned is the spec of an OperatorCollection whose digest is right.
func pinned(archive string) v2beta2.OperatorCollectionSpec {
	return v2beta2.OperatorCollectionSpec{CollectionURL: archiveURL(archive), Digest: digest(archive)}
}

func badInputSpecs() {
	DescribeTable("refuses it with a reason of its own, and installs nothing",
		func(ctx context.Context, name, reason, message string, spec func() v2beta2.OperatorCollectionSpec) {
			oc := operatorCollection(name, spec())
			Create(ctx, oc)
			DeferCleanup(func(ctx context.Context) {
				Remove(ctx, oc)
				Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
			})

			Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).
				Should(And(ConditionFalse(), WithReason(reason), WithMessage(message)))
			Eventually(ctx, func(g Gomega) {
				g.Expect(Field(ctx, oc, "status", "phase")(g)).To(Equal(string(v2beta2.PhaseFailed)))
				reconciling := Condition(ctx, oc, v2beta2.ConditionReconciling)(g)
				stalled := Condition(ctx, oc, v2beta2.ConditionStalled)(g)
				g.Expect(reconciling.Status == metav1.ConditionTrue).NotTo(Equal(stalled.Status == metav1.ConditionTrue),
					"either it is tried again or only its author can help")
			}).Should(Succeed())

			var crds apiextensionsv1.CustomResourceDefinitionList
			Expect(K8s.List(ctx, &crds, client.MatchingLabels{"operator-domain": domain})).To(Succeed())
			Expect(crds.Items).To(BeEmpty())
			var socs v2beta2.SubOperatorConfigList
			Expect(K8s.List(ctx, &socs, client.InNamespace(namespace))).To(Succeed())
			Expect(socs.Items).To(BeEmpty())
		},
		Entry("a server that is not there", "bad-server", v2beta2.ReasonSourceUnreachable, "nobody.e2e", func() v2beta2.OperatorCollectionSpec {
			return v2beta2.OperatorCollectionSpec{CollectionURL: "http://nobody.e2e.svc.cluster.local/x.tar.gz", SkipSignatureVerification: true}
		}),
		Entry("an archive that is not there", "bad-path", v2beta2.ReasonArchiveNotFound, "404", func() v2beta2.OperatorCollectionSpec {
			return v2beta2.OperatorCollectionSpec{CollectionURL: archiveURL("absent.tar.gz"), SkipSignatureVerification: true}
		}),
		Entry("an archive that nothing vouches for", "bad-unverified", v2beta2.ReasonNotVerified, "digest", func() v2beta2.OperatorCollectionSpec {
			return v2beta2.OperatorCollectionSpec{CollectionURL: archiveURL("good.tar.gz")}
		}),
		Entry("another archive than the one pinned", "bad-digest", v2beta2.ReasonDigestMismatch, "sha256:", func() v2beta2.OperatorCollectionSpec {
			return v2beta2.OperatorCollectionSpec{CollectionURL: archiveURL("good.tar.gz"), Digest: "sha256:" + strings.Repeat("0", 64)}
		}),
		Entry("a file that is no archive", "bad-gzip", v2beta2.ReasonArchiveNotGzip, "gzip", func() v2beta2.OperatorCollectionSpec { return pinned("text.tar.gz") }),
		Entry("half an archive", "bad-half", v2beta2.ReasonArchiveTruncated, "", func() v2beta2.OperatorCollectionSpec { return pinned("truncated.tar.gz") }),
		Entry("an archive that leaves its folder", "bad-escape", v2beta2.ReasonArchiveUnsafe, "outside.txt", func() v2beta2.OperatorCollectionSpec { return pinned("escape.tar.gz") }),
		Entry("no operator-config", "bad-no-config", v2beta2.ReasonOperatorConfigMissing, "operator-config", func() v2beta2.OperatorCollectionSpec { return pinned("no-config.tar.gz") }),
		Entry("two operator-configs", "bad-two-configs", v2beta2.ReasonOperatorConfigAmbiguous, "operator-config.yaml", func() v2beta2.OperatorCollectionSpec { return pinned("two-configs.tar.gz") }),
		Entry("an operator-config that is no YAML", "bad-yaml", v2beta2.ReasonInvalidYAML, "operator-config.yml:1", func() v2beta2.OperatorCollectionSpec { return pinned("bad-yaml.tar.gz") }),
		Entry("a kind that is no kind", "bad-kind", v2beta2.ReasonInvalidCollection, "resources[0].kind", func() v2beta2.OperatorCollectionSpec { return pinned("bad-kind.tar.gz") }),
		Entry("a playbook that is not there", "bad-no-playbook", v2beta2.ReasonPlaybookMissing, "play.yml", func() v2beta2.OperatorCollectionSpec { return pinned("no-playbook.tar.gz") }),
	)

	DescribeTable("says why it does not reach an endpoint, which it accepts all the same",
		func(ctx context.Context, name, reason string, spec func() v2beta2.ZosEndpointSpec) {
			endpoint := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: spec()}
			Create(ctx, endpoint)
			DeferCleanup(Remove, endpoint)
			Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).Should(And(ConditionFalse(), WithReason(reason)))
			Expect(Condition(ctx, endpoint, v2beta2.ConditionReady)(Default)).To(ConditionTrue())
		},
		Entry("no such host", "bad-host", v2beta2.ReasonHostUnreachable, func() v2beta2.ZosEndpointSpec {
			return v2beta2.ZosEndpointSpec{Host: "nobody.e2e.svc.cluster.local"}
		}),
		Entry("a server that does not speak SSH", "bad-protocol", v2beta2.ReasonHostUnreachable, func() v2beta2.ZosEndpointSpec {
			return v2beta2.ZosEndpointSpec{Host: "archives.e2e.svc.cluster.local", Port: 80}
		}),
		Entry("another host key than the one expected", "bad-key", v2beta2.ReasonHostKeyMismatch, func() v2beta2.ZosEndpointSpec {
			_, other := newKey("")
			return v2beta2.ZosEndpointSpec{Host: lpar1.host(), HostKeys: []string{strings.TrimSpace(other)}}
		}),
	)

	It("says what is wrong with an endpoint, and kubectl wait sees it", func(ctx context.Context) {
		endpoint := &v2beta2.ZosEndpoint{
			ObjectMeta: metav1.ObjectMeta{Name: "bad-variables", Namespace: namespace},
			Spec:       v2beta2.ZosEndpointSpec{Host: lpar1.host(), Variables: Variables(`17`)},
		}
		Create(ctx, endpoint)
		DeferCleanup(Remove, endpoint)
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonInvalidVariables)))
		expectHealth(ctx, endpoint, "Degraded", "Failed")
		printed, err := kubectlWait(ctx, "zosendpoint/bad-variables", "3s")
		Expect(err).To(HaveOccurred())
		Expect(printed).To(ContainSubstring("timed out"))
	})
}
