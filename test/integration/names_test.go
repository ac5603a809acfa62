package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
	"github.com/collection-operator/collection-operator/test/hostile"
)

var _ = Describe("A reserved domain", func() {
	It("is imported only in its namespace or with its key, and what is installed keeps running", attack.Label, func(ctx context.Context) {
		holder, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		signer := ecdsaSigner()
		mine := s.renamed("acme", s.name)
		squatter := newCollection(other, "before", newSample().renamed("acme", "squatted").pinned())
		Create(ctx, squatter)
		Eventually(ctx, Gone(ctx, deployment(other, "acme-squatted-operator"))).Should(BeFalse())
		makeAvailable(ctx, other, "acme-squatted-operator")
		ExpectReady(ctx, squatter)
		before := versions(installed(ctx, defaultSOC(squatter)))

		theManager.restart(ctx, append(slices.Clone(usualFlags),
			"--reserved-domains=acme=namespace:"+holder+",acme=key:"+signer.fingerprint, "--reserved-domains=acme/"+s.name+"-named=namespace:"+holder)...)

		By("reporting what was imported before, and leaving it alone")
		ExpectFailure(ctx, squatter, v2beta2.ReasonDomainReserved, fmt.Sprintf("namespace %q", holder), false)
		Expect(versions(installed(ctx, defaultSOC(squatter)))).To(Equal(before))

		By("refusing it in another namespace")
		oc := newCollection(other, "oc", mine.pinned())
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonDomainReserved, signer.fingerprint, false)
		Get(ctx, Default, oc)
		Expect(oc.Status.Artifact).To(BeNil())
		Expect(Gone(ctx, customResourceDefinition(s.crdName()))(Default)).To(BeTrue())
		attack.Repelled("Tenancy", "import a collection of a domain that is reserved for another namespace", "nothing is installed", seen(ctx, oc))

		By("refusing it with another key")
		content := mine.archive()
		forger := rsaSigner()
		Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: signatureSecret}, Data: forger.evidence(content)})
		changeSpec(ctx, oc, signed(content))
		ExpectFailure(ctx, oc, v2beta2.ReasonDomainReserved, forger.fingerprint, false)
		attack.Repelled("Tenancy", "sign an archive of a reserved domain with an own key", "nothing is installed", seen(ctx, oc))

		By("refusing a name that is reserved for others than its domain")
		named := newCollection(other, "named", newSample().renamed("acme", s.name+"-named").pinned())
		Create(ctx, named)
		ExpectFailure(ctx, named, v2beta2.ReasonDomainReserved, "collection acme/"+s.name+"-named is reserved", false)

		By("importing it with the key, and in the namespace")
		evidence := signer.evidence(content)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: signatureSecret}}
		Get(ctx, Default, secret)
		secret.Data = evidence
		Expect(K8s.Update(ctx, secret)).To(Succeed())
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		second := newSample()
		ofHolder := newCollection(holder, "oc", second.renamed("acme", second.name).pinned())
		Create(ctx, ofHolder)
		Eventually(ctx, Condition(ctx, ofHolder, v2beta2.ConditionImported)).Should(ConditionTrue())
		Expect(versions(installed(ctx, defaultSOC(squatter)))).To(Equal(before))
	})
})

var _ = Describe("Labels and annotations that anybody can write", attack.Label, func() {
	ours := func(s *sample) map[string]string {
		return map[string]string{"operator-domain": domain, "operator-name": s.name, "operator-version": s.version, "managed-by": "ibm-zos-cloud-broker"}
	}

	It("reconcile no SubOperatorConfig that has not made the object", func(ctx context.Context) {
		victim, attacker, s := newNamespace(ctx), newNamespace(ctx), newSample()
		oc := installSample(ctx, victim, s)
		soc := defaultSOC(oc)
		forged := metav1.ObjectMeta{
			Namespace: attacker, Labels: ours(s),
			Annotations: map[string]string{"zoscb.ibm.com/suboperatorconfig": victim + "/" + soc.Name},
		}
		objects := []client.Object{
			&corev1.ConfigMap{ObjectMeta: forged}, &corev1.Secret{ObjectMeta: forged}, &corev1.ServiceAccount{ObjectMeta: forged},
			&rbacv1.Role{ObjectMeta: forged}, newSOC(attacker, "", "none", mapTo(victim)...),
		}
		objects[len(objects)-1].SetLabels(ours(s))
		expectRest(ctx)
		audit := OpenAuditLog(controlPlane.AuditLog)
		requests := func() []string {
			var found []string
			for _, event := range audit.Next() {
				if event.User.Username == managerUser && event.ObjectRef.Namespace == victim {
					found = append(found, event.Verb+" "+event.RequestURI)
				}
			}
			return found
		}
		for _, object := range objects {
			object.SetName(s.operator() + "-runtime")
			Create(ctx, object)
			for i := range 5 {
				Patch(ctx, object, fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, i))
			}
		}
		Consistently(ctx, requests).WithTimeout(3 * time.Second).Should(BeEmpty())
		attack.Repelled("Tenancy", "create objects with our labels that name another's SubOperatorConfig, and touch them again and again",
			"the manager sends no request about the other's objects", fmt.Sprintf("0 requests in namespace %s after %d changes", victim, 6*len(objects)))

		By("still noticing what happens to the objects that it has made")
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: victim, Name: s.operator() + "-runtime"}}
		Patch(ctx, config, `{"data":{"watches.yaml":"changed"}}`)
		Eventually(ctx, requests).Should(Not(BeEmpty()))

		By("deleting nothing of others")
		removeCollections(ctx, victim)
		for _, object := range objects[:4] {
			Get(ctx, Default, object)
			Expect(object.GetDeletionTimestamp()).To(BeNil())
		}
	})

	It("keep no CRDs of another's collection", func(ctx context.Context) {
		victim, attacker, s := newNamespace(ctx), newNamespace(ctx), newSample()
		installSample(ctx, victim, s)
		oc := newCollection(attacker, "forged", v2beta2.OperatorCollectionSpec{CollectionURL: "http://127.0.0.1:1/none.tar.gz", Digest: DigestOf(nil)})
		soc := newSOC(attacker, "forged", "none", mapTo(attacker)...)
		oc.Labels, soc.Labels = ours(s), ours(s)
		Create(ctx, oc, soc)
		ExpectFailure(ctx, soc, v2beta2.ReasonCollectionNotFound, "none", false)
		removeCollections(ctx, victim)
		Eventually(ctx, Gone(ctx, customResourceDefinition(s.crdName()))).Should(BeTrue())
		attack.Repelled("Tenancy", "keep another's kinds with an OperatorCollection and a SubOperatorConfig that have its labels",
			"its CRDs go with its last OperatorCollection", "CRD "+s.crdName()+" is gone")
	})

	It("keep no other SubOperatorConfig out of a namespace", func(ctx context.Context) {
		victim, attacker, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, attacker, victim)
		forged := newSOC(attacker, "forged", "none", mapTo(attacker)...)
		forged.Labels = ours(s)
		Create(ctx, forged)
		ExpectFailure(ctx, forged, v2beta2.ReasonCollectionNotFound, "none", false)
		Create(ctx, newSOC(victim, "soc", "oc", mapTo(attacker)...))
		oc := importSample(ctx, victim, s)
		Eventually(ctx, Gone(ctx, deployment(attacker, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, attacker, s.operator())
		ExpectReady(ctx, oc)
		attack.Repelled("Tenancy", "map a namespace first, with a SubOperatorConfig that has the labels of another's collection but not the collection",
			"the other's operator is installed", seen(ctx, oc))
	})
})

var _ = Describe("What a hostile host says", attack.Label, func() {
	It("is short and printable in status, events and logs", func(ctx context.Context) {
		namespace, started := newNamespace(ctx), time.Now()
		for i, server := range hostile.SSHServers() {
			endpoint := newEndpoint(namespace, fmt.Sprintf("lpar%d", i), startServer(server.Serve))
			Create(ctx, endpoint)
			Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).
				Should(And(ConditionFalse(), WithReason(v2beta2.ReasonHostUnreachable)), server.Name)
			Get(ctx, Default, endpoint)
			texts := []string{endpoint.Status.Message}
			for _, condition := range endpoint.Status.Conditions {
				texts = append(texts, condition.Message)
			}
			texts = append(texts, notes(ctx, endpoint, v2beta2.ReasonHostUnreachable)(Default)...)
			for _, text := range texts {
				Expect(len(text)).To(BeNumerically("<", 500), server.Name)
				Expect(strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })).To(BeFalse(), "%s: %q", server.Name, text)
			}
			attack.Repelled("Secrets and hosts", "as an SSH server, say "+server.Name+" with escape sequences, forged lines and a reversed direction of text",
				"at most 500 printable characters, in one line", seen(ctx, endpoint, v2beta2.ConditionReachable))
		}
		for _, line := range linesWith(theManager.logSince(started), "forged") {
			Expect(line).To(HavePrefix(`{"level"`))
			Expect(line).NotTo(ContainSubstring(`"msg":"forged"`), "a line of a host looks like one of the manager")
			Expect(len(line)).To(BeNumerically("<", 4000))
		}
	})
})
