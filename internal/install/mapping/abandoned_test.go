package mapping

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

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
