package mapping

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestOlder(t *testing.T) {
	object := func(second int, uid string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), CreationTimestamp: metav1.Unix(int64(second), 0)}}
	}
	first, second, twin := object(1, "b"), object(2, "a"), object(1, "a")
	if !Older(first, second) || Older(second, first) {
		t.Error("the one created first is older")
	}
	if !Older(twin, first) || Older(first, twin) {
		t.Error("of two created in one second exactly one is older")
	}
}

func mapped(endpoints ...v2beta2.EndpointMapping) v2beta2.NamespaceMapping {
	return v2beta2.NamespaceMapping{Namespace: "ns", ZosEndpoints: &endpoints}
}

func TestEndpointsOfAMapping(t *testing.T) {
	all := v2beta2.NamespaceMapping{Namespace: "ns"}
	none := v2beta2.NamespaceMapping{Namespace: "ns", ZosEndpoints: &[]v2beta2.EndpointMapping{}}
	one := mapped(v2beta2.EndpointMapping{Name: "lpar1", CredentialName: "mine"})
	plain := mapped(v2beta2.EndpointMapping{Name: "lpar1"})
	endpoint := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "lpar1"}, Spec: v2beta2.ZosEndpointSpec{CredentialName: "own"}}
	for name, test := range map[string]struct {
		mapping    v2beta2.NamespaceMapping
		allowed    bool
		credential string
		missing    int
	}{
		"absent means all":               {all, true, "own", 0},
		"empty means none":               {none, false, "own", 0},
		"named, with a credential":       {one, true, "mine", 0},
		"named":                          {plain, true, "own", 0},
		"another is named, and not made": {mapped(v2beta2.EndpointMapping{Name: "lpar2"}), false, "own", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Allows(test.mapping, "lpar1"); got != test.allowed {
				t.Errorf("allowed: %v", got)
			}
			if got := credentialFor(test.mapping, endpoint); got != test.credential {
				t.Errorf("credential %q, want %q", got, test.credential)
			}
			missing := missingEndpoints(test.mapping, []v2beta2.ZosEndpoint{*endpoint})
			if len(missing) != test.missing {
				t.Fatalf("missing: %v", missing)
			}
			for _, err := range missing {
				if f := status.AsError(err); f.Reason != v2beta2.ReasonEndpointNotFound || f.Stalled || !strings.Contains(f.Error(), `"lpar2"`) {
					t.Errorf("got %+v", f)
				}
			}
		})
	}
}

func TestKnownHostKeys(t *testing.T) {
	endpoint := &v2beta2.ZosEndpoint{Spec: v2beta2.ZosEndpointSpec{Host: "lpar1"}}
	endpoint.Status.HostKeys, endpoint.Status.PinnedFor = []string{"pinned"}, "lpar1:22"
	if diff := cmp.Diff([]string{"pinned"}, KnownHostKeys(endpoint)); diff != "" {
		t.Error(diff)
	}
	endpoint.Spec.Port = 2022
	if got := KnownHostKeys(endpoint); got != nil {
		t.Errorf("a key pinned for another port is not known: %v", got)
	}
	endpoint.Spec.HostKeys = []string{"given"}
	if diff := cmp.Diff([]string{"given"}, KnownHostKeys(endpoint)); diff != "" {
		t.Error(diff)
	}
}
