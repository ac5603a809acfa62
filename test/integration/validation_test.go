package integration

import (
	"context"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func beRefused(message string) types.GomegaMatcher {
	return And(Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring(message)))
}

var _ = Describe("The API server", func() {
	endpoint := func(name string, spec v2beta2.ZosEndpointSpec) client.Object {
		return &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: spec}
	}
	collection := func(spec v2beta2.OperatorCollectionSpec) client.Object {
		return newCollection("default", "refused", spec)
	}

	DescribeTable("refuses at once", func(ctx context.Context, object client.Object, message string) {
		refusal := K8s.Create(ctx, object, client.DryRunAll)
		Expect(refusal).To(beRefused(message))
		if slices.Contains(CurrentSpecReport().Labels(), attack.Label[0]) {
			attack.Repelled("Template injection", "create "+CurrentSpecReport().LeafNodeText, "the API server refuses it", refusal.Error())
		}
	},
		Entry("a remote endpoint without a host", endpoint("ep", v2beta2.ZosEndpointSpec{}), "a remote endpoint needs a host"),
		Entry("a remote endpoint with an empty host",
			endpoint("ep", v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointRemote, Port: 22}), "a remote endpoint needs a host"),
		Entry("a host that is an option of ssh", attack.Label,
			endpoint("ep", v2beta2.ZosEndpointSpec{Host: "-oProxyCommand=id"}), "must be a host name or an IP address"),
		Entry("a port that is none", endpoint("ep", v2beta2.ZosEndpointSpec{Host: "h", Port: 70000}), "spec.port"),
		Entry("an unknown endpoint type", endpoint("ep", v2beta2.ZosEndpointSpec{Host: "h", EndpointType: "far"}), "spec.endpointType"),
		Entry("an endpoint named localhost", attack.Label, endpoint("localhost", v2beta2.ZosEndpointSpec{Host: "h"}), "choose another name"),
		Entry("an endpoint named all", attack.Label, endpoint("all", v2beta2.ZosEndpointSpec{Host: "h"}), "choose another name"),
		Entry("an endpoint named 127.0.0.1", attack.Label, endpoint("127.0.0.1", v2beta2.ZosEndpointSpec{Host: "h"}), "choose another name"),
		Entry("an endpoint whose name is too long for the key of a Secret",
			endpoint(strings.Repeat("a", 242), v2beta2.ZosEndpointSpec{Host: "h"}), "at most 241"),
		Entry("an endpoint named ungrouped", attack.Label, endpoint("ungrouped", v2beta2.ZosEndpointSpec{Host: "h"}), "choose another name"),
		Entry("a digest that is too short", collection(v2beta2.OperatorCollectionSpec{Digest: "sha256:abc"}), "64 lower-case hexadecimal digits"),
		Entry("a digest in capitals",
			collection(v2beta2.OperatorCollectionSpec{Digest: "sha256:" + strings.Repeat("A", 64)}), "64 lower-case hexadecimal digits"),
		Entry("a digest of another kind",
			collection(v2beta2.OperatorCollectionSpec{Digest: "md5:" + strings.Repeat("a", 64)}), "64 lower-case hexadecimal digits"),
		Entry("a URL that is no web address", collection(v2beta2.OperatorCollectionSpec{CollectionURL: "ftp://x/y"}), "must start with https:// or http://"),
		Entry("a URL to a file", collection(v2beta2.OperatorCollectionSpec{CollectionURL: "file:///etc/passwd"}), "must start with https:// or http://"),
		Entry("an unknown deletion policy", collection(v2beta2.OperatorCollectionSpec{DeletionPolicy: "Maybe"}), "spec.deletionPolicy"),
		Entry("a SubOperatorConfig of no collection", newSOC("default", "refused", ""), "spec.operatorCollection"),
	)

	It("accepts a local endpoint without a host", func(ctx context.Context) {
		Expect(K8s.Create(ctx, endpoint("pod", v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointLocal}), client.DryRunAll)).To(Succeed())
	})

	It("lets credentialType be set, but not changed after that", func(ctx context.Context) {
		soc := newSOC(newNamespace(ctx), "soc", "absent")
		Create(ctx, soc)
		Patch(ctx, soc, `{"spec":{"credentialType":"personal"}}`)
		const refusal = "credentialType cannot be changed once it is set"
		Expect(TryPatch(ctx, soc, `{"spec":{"credentialType":"shared"}}`)).To(beRefused(refusal))
		Expect(TryPatch(ctx, soc, `{"spec":{"credentialType":null}}`)).To(beRefused(refusal))
		Expect(TryPatch(ctx, soc, `{"spec":{"operatorCollection":"other"}}`)).To(beRefused("operatorCollection cannot be changed"))
	})

	It("does not let apiGroup be changed", func(ctx context.Context) {
		oc := newCollection(newNamespace(ctx), "oc", v2beta2.OperatorCollectionSpec{Suspend: true})
		Create(ctx, oc)
		Expect(oc.Spec.APIGroup).To(Equal(v2beta2.APIGroupShared))
		Expect(oc.Spec.DeletionPolicy).To(Equal(v2beta2.DeletionBlock))
		Expect(TryPatch(ctx, oc, `{"spec":{"apiGroup":"PerCollection"}}`)).To(beRefused("apiGroup cannot be changed"))
	})
})

// newSOC is a SubOperatorConfig that maps its own namespace.
func newSOC(namespace, name, collection string, mapping ...v2beta2.NamespaceMapping) *v2beta2.SubOperatorConfig {
	if mapping == nil {
		mapping = []v2beta2.NamespaceMapping{{Namespace: namespace}}
	}
	return &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v2beta2.SubOperatorConfigSpec{OperatorCollection: collection, Mapping: mapping},
	}
}
