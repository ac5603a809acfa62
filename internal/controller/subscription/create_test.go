package subscription

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func TestPreferredProvider(t *testing.T) {
	candidate := func(namespace, name, version string, refused error) provider {
		return provider{
			oc:         &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
			collection: &model.Collection{Domain: "a", Name: "b", Version: semver.MustParse(version)},
			refused:    refused,
		}
	}
	refused := errors.New("no consent")
	for name, test := range map[string]struct {
		installed, starting string
		providers           []provider
		want                string
	}{
		"none":                          {},
		"the newest":                    {providers: []provider{candidate("here", "old", "1.9.0", nil), candidate("here", "new", "1.10.0", nil)}, want: "here/new"},
		"the version it starts with":    {starting: "a-b-operator.v1.0.0", providers: []provider{candidate("here", "new", "2.0.0", nil), candidate("there", "old", "1.0.0", nil)}, want: "there/old"},
		"the version that is installed": {starting: "a-b-operator.v1.0.0", installed: "a-b-operator.v2.0.0", providers: []provider{candidate("here", "old", "1.0.0", nil), candidate("here", "new", "2.0.0", nil)}, want: "here/new"},
		"its own namespace":             {providers: []provider{candidate("there", "new", "2.0.0", nil), candidate("here", "old", "1.0.0", nil)}, want: "here/old"},
		"what may be used":              {starting: "a-b-operator.v2.0.0", providers: []provider{candidate("there", "new", "2.0.0", refused), candidate("elsewhere", "old", "1.0.0", nil)}, want: "elsewhere/old"},
		"always the same of equals":     {providers: []provider{candidate("here", "y", "1.0.0", nil), candidate("here", "x", "1.0.0", nil)}, want: "here/x"},
		"one that may not be used":      {providers: []provider{candidate("there", "x", "1.0.0", refused)}, want: "there/x"},
	} {
		t.Run(name, func(t *testing.T) {
			subscription := &operatorsv1alpha1.Subscription{
				ObjectMeta: metav1.ObjectMeta{Namespace: "here"}, Spec: &operatorsv1alpha1.SubscriptionSpec{StartingCSV: test.starting},
			}
			subscription.Status.InstalledCSV = test.installed
			got := ""
			if p := preferredProvider(subscription, test.providers); p != nil {
				got = p.oc.Namespace + "/" + p.oc.Name
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestNamesForSubscriptions(t *testing.T) {
	of := func(name, namespace string) []string {
		names := namesFor(&v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Name: name}}, namespace)
		for _, n := range names {
			if problems := validation.IsDNS1123Subdomain(n); len(problems) > 0 {
				t.Errorf("%q: %v", n, problems)
			}
		}
		return names
	}
	if names := of("files.acme.1.0.0", "dev"); names[0] != "files.acme.1.0.0-dev" || len(names) != 2 {
		t.Errorf("got %v", names)
	}
	one, other := of("a", "b-c"), of("a-b", "c")
	if one[0] != other[0] || one[1] == other[1] {
		t.Errorf("got %v and %v, which need a second name each", one, other)
	}
	for length := 180; length <= 253; length++ {
		name := strings.Repeat("x", length-2) + ".y"
		if names := of(name, "a-namespace"); slices.Contains(names, name) {
			t.Errorf("got %v", names)
		}
	}
}
