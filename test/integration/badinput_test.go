package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// badInput is one way to get an OperatorCollection wrong.
type badInput struct {
	reason, message string
	// group is that of the attack table.
	group string
	// stalled says that only the author can help.
	stalled bool
	// spec makes the OperatorCollection's spec, and whatever it needs in the namespace.
	spec func(ctx context.Context, namespace string) v2beta2.OperatorCollectionSpec
}

// unverified is the spec of an OperatorCollection that asks for no proof.
func unverified(url string) v2beta2.OperatorCollectionSpec {
	return v2beta2.OperatorCollectionSpec{CollectionURL: url, SkipSignatureVerification: true}
}

// fromBytes makes the spec of a badInput that needs nothing else.
func fromBytes(content func() []byte) func(context.Context, string) v2beta2.OperatorCollectionSpec {
	return func(context.Context, string) v2beta2.OperatorCollectionSpec { return unverified(web.Serve(content())) }
}

var _ = Describe("Bad input", func() {
	DescribeTable("is refused with a reason of its own, and installs nothing", attack.Label,
		func(ctx context.Context, bad badInput) {
			namespace := newNamespace(ctx)
			oc := newCollection(namespace, "oc", bad.spec(ctx, namespace))
			secrets := madeIn(ctx, namespace)
			crds := listObjects(ctx, &apiextensionsv1.CustomResourceDefinitionList{})
			Create(ctx, oc)

			ExpectFailure(ctx, oc, bad.reason, bad.message, bad.stalled)
			Expect(Condition(ctx, oc, v2beta2.ConditionImported)(Default)).To(And(ConditionFalse(), WithReason(bad.reason)))
			Get(ctx, Default, oc)
			Expect(oc.Status.Phase).To(Equal(v2beta2.PhaseFailed))
			Expect(oc.Status.Artifact).To(BeNil())
			Expect(oc.Status.Message).To(ContainSubstring(bad.message))
			Eventually(ctx, func() []string { return eventReasons(ctx, oc) }).Should(ContainElement(bad.reason))

			Expect(madeIn(ctx, namespace)).To(Equal(secrets))
			Expect(namesOf(listObjects(ctx, &apiextensionsv1.CustomResourceDefinitionList{}))).To(HaveEach(BeElementOf(namesOf(crds))))
			attack.Repelled(bad.group, "import "+CurrentSpecReport().LeafNodeText, "it is refused, and nothing is made", seen(ctx, oc))
		},
		Entry("a server that never ends", badInput{
			group: "Fetching", reason: v2beta2.ReasonFetchTimeout, message: "http://", spec: func(context.Context, string) v2beta2.OperatorCollectionSpec {
				return unverified(web.Handle(func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(http.StatusOK)
					w.(http.Flusher).Flush()
					<-r.Context().Done()
				}))
			},
		}),
		Entry("an archive that is too large, and says so", badInput{
			group: "Fetching", reason: v2beta2.ReasonArchiveTooLarge, message: "1048576", stalled: true,
			spec: fromBytes(func() []byte { return make([]byte, fetchMaxBytes+1) }),
		}),
		Entry("an archive that leads out of itself", badInput{
			group: "Hostile archives", reason: v2beta2.ReasonArchiveUnsafe, message: "../outside", stalled: true,
			spec: fromBytes(func() []byte { return Tarball("MANIFEST.json", "../outside") }),
		}),
		Entry("a kind that the API server could not store", badInput{
			group: "Hostile archives", reason: v2beta2.ReasonInvalidCollection, message: "operator-config.yml:6:11: resources[0].kind: the API server would refuse", stalled: true,
			spec: fromBytes(func() []byte {
				s := newSample()
				// Six bytes each in JSON.
				s.variables = "{name: size, displayName: Size, type: integer, description: " + strings.Repeat("<", 1<<18) + "}"
				return s.archive()
			}),
		}),
		Entry("a wrong digest", badInput{
			group: "Origin", reason: v2beta2.ReasonDigestMismatch, message: DigestOf(nil), stalled: true,
			spec: func(context.Context, string) v2beta2.OperatorCollectionSpec {
				return v2beta2.OperatorCollectionSpec{CollectionURL: web.Serve(newSample().archive()), Digest: DigestOf(nil)}
			},
		}),
		Entry("an archive that nothing vouches for", badInput{
			group: "Origin", reason: v2beta2.ReasonNotVerified, message: "skipSignatureVerification", stalled: true,
			spec: func(context.Context, string) v2beta2.OperatorCollectionSpec {
				return v2beta2.OperatorCollectionSpec{CollectionURL: web.Serve(newSample().archive())}
			},
		}),
		Entry("a Secret for the download that is not marked as one", badInput{
			group: "Fetching", reason: v2beta2.ReasonCredentialsInvalid, message: credentialLabel + "=true",
			spec: func(ctx context.Context, namespace string) v2beta2.OperatorCollectionSpec {
				Create(ctx, &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "unmarked"},
					StringData: map[string]string{"token": SecretValue("token for something else")},
				})
				spec := newSample().pinned()
				spec.CredentialsSecret = "unmarked"
				return spec
			},
		}),
		Entry("a kind whose CRD belongs to somebody else", badInput{
			group: "Tenancy", reason: v2beta2.ReasonKindClash, message: "spec.apiGroup to PerCollection",
			spec: func(ctx context.Context, _ string) v2beta2.OperatorCollectionSpec {
				s := newSample()
				foreign := foreignCRD(s)
				Create(ctx, foreign)
				DeferCleanup(func(ctx context.Context) {
					found := customResourceDefinition(foreign.Name)
					Get(ctx, Default, found)
					Expect(found.Spec.Versions).To(HaveLen(1))
					Expect(found.Spec.Versions[0].Name).To(Equal("v1"), "it is not touched")
					Expect(found.Labels).To(BeEmpty())
					Remove(ctx, foreign)
				})
				return s.pinned()
			},
		}),
		Entry("a collection that another namespace has", badInput{
			group: "Tenancy", reason: v2beta2.ReasonCollectionClaimed, message: "belongs to namespace",
			spec: func(ctx context.Context, _ string) v2beta2.OperatorCollectionSpec {
				s := newSample()
				importSample(ctx, newNamespace(ctx), s)
				s.version = "99.0.0"
				return s.pinned()
			},
		}),
	)

	It("names every field that is wrong, at once", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.kind, s.variables = "not_a_kind", "{name: size, type: hugeint}"
		oc := newCollection(namespace, "oc", s.pinned())
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInvalidCollection, "resources[0].kind", true)
		Expect(Condition(ctx, oc, v2beta2.ConditionReady)(Default)).To(WithMessage("resources[0].vars[0].type"))
	})

	It("is told in an event also when there is much to tell", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		for i := range 9 {
			s.variables += fmt.Sprintf("\n      - {name: variable%d, displayName: %s, type: hugeint}", i, strings.Repeat("x", 200))
		}
		oc := newCollection(namespace, "oc", s.pinned())
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInvalidCollection, "resources[0].vars[9].type", true)
		Get(ctx, Default, oc)
		Expect(len(oc.Status.Message)).To(BeNumerically(">", 1024), "an event could not hold it")
		Eventually(ctx, func() []string { return eventReasons(ctx, oc) }).Should(ContainElement(v2beta2.ReasonInvalidCollection))
	})
})

// foreignCRD is a CRD with the name of the sample's that the manager did not make.
func foreignCRD(s *sample) *apiextensionsv1.CustomResourceDefinition {
	preserve := true
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: s.crdName()},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: SharedGroup, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: s.kind, ListKind: s.kind + "List", Plural: s.plural(), Singular: strings.ToLower(s.kind),
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		},
	}
}

// eventReasons are the reasons of all events about an object.
func eventReasons(ctx context.Context, object client.Object) []string {
	GinkgoHelper()
	events := &corev1.EventList{}
	Expect(K8s.List(ctx, events, client.InNamespace(object.GetNamespace()))).To(Succeed())
	var reasons []string
	for _, event := range events.Items {
		if event.InvolvedObject.Name == object.GetName() {
			reasons = append(reasons, event.Reason)
		}
	}
	return reasons
}
