package mapping

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

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
