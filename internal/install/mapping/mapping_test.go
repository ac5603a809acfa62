package mapping

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

func TestSelection(t *testing.T) {
	for name, test := range map[string]struct {
		selection Selection
		allowed   bool
	}{
		"all":          {nil, true},
		"selected":     {Selection{"a", "zos"}, true},
		"not selected": {Selection{"a"}, false},
	} {
		err := test.selection.Check("zos")
		if (err == nil) != test.allowed || err != nil && status.AsError(err).Reason != v2beta2.ReasonNamespaceNotSelected {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// An operator that was restored stays where it is also when its SubOperatorConfig has a status again.
func TestWasRestored(t *testing.T) {
	now := time.Now()
	account := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now)}}
	soc := func(name string, age time.Duration, installed ...string) v2beta2.SubOperatorConfig {
		made := v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "zos", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		for _, namespace := range installed {
			made.Status.Installations = append(made.Status.Installations, v2beta2.InstallationStatus{Namespace: namespace})
		}
		return made
	}
	for name, test := range map[string]struct {
		all  []v2beta2.SubOperatorConfig
		want bool
	}{
		"no status says anything":           {[]v2beta2.SubOperatorConfig{soc("owner", time.Hour), soc("other", time.Hour)}, true},
		"the owner was restored afterwards": {[]v2beta2.SubOperatorConfig{soc("owner", -time.Second, "zos"), soc("other", 0)}, true},
		"in the same second":                {[]v2beta2.SubOperatorConfig{soc("owner", 0, "zos"), soc("other", time.Second)}, false},
		"the owner made it":                 {[]v2beta2.SubOperatorConfig{soc("owner", time.Second, "zos"), soc("other", time.Hour)}, false},
		"another one has it":                {[]v2beta2.SubOperatorConfig{soc("owner", -time.Second), soc("other", 0, "zos")}, false},
		"it is installed elsewhere":         {[]v2beta2.SubOperatorConfig{soc("owner", time.Hour), soc("other", 0, "lpar")}, true},
	} {
		if got := wasRestored(account, client.ObjectKey{Namespace: "zos", Name: "owner"}, "zos", test.all); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestAbandoned(t *testing.T) {
	at := func(minute int) metav1.Time {
		return metav1.NewTime(time.Date(2026, 11, 22, 9, minute, 0, 0, time.UTC))
	}
	endpoint := func(name string, abandoned ...v2beta2.AbandonedResource) v2beta2.ZosEndpoint {
		return v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v2beta2.ZosEndpointStatus{Abandoned: abandoned}}
	}
	removed := func(kind, namespace, name string, minute int) v2beta2.AbandonedResource {
		return v2beta2.AbandonedResource{Group: "g", Kind: kind, Namespace: namespace, Name: name, RemovedAt: at(minute)}
	}
	got := abandonedOn([]v2beta2.ZosEndpoint{
		endpoint("lpar1", removed("Queue", "ns", "late", 9), removed("Topic", "ns", "b", 2), removed("Queue", "other", "a", 3)),
		endpoint("lpar2", removed("Queue", "ns", "a", 2), removed("Channel", "ns", "a", 1),
			v2beta2.AbandonedResource{Group: "another", Kind: "Queue", Namespace: "ns", Name: "a", RemovedAt: at(4)},
			v2beta2.AbandonedResource{Kind: "Queue", Namespace: "ns", Name: "earlier", RemovedAt: at(1)}),
	}, "ns", "g", []string{"Queue", "Topic"})
	if diff := cmp.Diff([]v2beta2.AbandonedInstance{
		{Kind: "Queue", Name: "earlier", ZosEndpoint: "lpar2", RemovedAt: at(1)},
		{Kind: "Queue", Name: "a", ZosEndpoint: "lpar2", RemovedAt: at(2)},
		{Kind: "Topic", Name: "b", ZosEndpoint: "lpar1", RemovedAt: at(2)},
		{Kind: "Queue", Name: "late", ZosEndpoint: "lpar1", RemovedAt: at(9)},
	}, got); diff != "" {
		t.Error(diff)
	}

	var many []v2beta2.AbandonedResource
	for i := range maxAbandoned + 3 {
		many = append(many, removed("Queue", "ns", fmt.Sprint(i), i))
	}
	got = abandonedOn([]v2beta2.ZosEndpoint{endpoint("lpar1", many...)}, "ns", "g", []string{"Queue"})
	if len(got) != maxAbandoned || got[0].Name != "3" || got[maxAbandoned-1].Name != fmt.Sprint(maxAbandoned+2) {
		t.Errorf("got %v", got)
	}

	got = abandonedOn([]v2beta2.ZosEndpoint{endpoint("lpar1", removed("Queue", "ns", strings.Repeat("x", 9000)+"\n", 1))}, "ns", "g", []string{"Queue"})
	if len(got) != 1 || len(got[0].Name) > maxNameBytes {
		t.Errorf("a name that is none must be cut: got %v", got)
	}
}
