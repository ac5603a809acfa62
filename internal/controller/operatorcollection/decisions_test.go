package operatorcollection

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestNotInstalled(t *testing.T) {
	soc := func(name string, generation, observed int64, err error) v2beta2.SubOperatorConfig {
		s := v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}}
		status.SetReady(&s.Status.Conditions, observed, err, "runs")
		return s
	}
	waits := status.Waiting(v2beta2.ReasonEndpointNotFound, time.Second, "no endpoint")
	with := func(s v2beta2.SubOperatorConfig, digest string, installed ...string) v2beta2.SubOperatorConfig {
		s.Status.Digest = digest
		for _, archive := range installed {
			s.Status.Installations = append(s.Status.Installations, v2beta2.InstallationStatus{Digest: archive})
		}
		return s
	}
	for name, test := range map[string]struct {
		socs   []v2beta2.SubOperatorConfig
		reason string
		text   string
	}{
		"none":                  {nil, v2beta2.ReasonNotInstalled, "create one"},
		"ready":                 {[]v2beta2.SubOperatorConfig{with(soc("a", 1, 1, nil), "now")}, "", ""},
		"of another archive":    {[]v2beta2.SubOperatorConfig{with(soc("a", 1, 1, nil), "former", "now")}, v2beta2.ReasonProgressing, `"a" has version`},
		"of an earlier manager": {[]v2beta2.SubOperatorConfig{with(soc("a", 1, 1, nil), "", "now", "now")}, "", ""},
		"of an earlier manager, of another archive": {[]v2beta2.SubOperatorConfig{with(soc("a", 1, 1, nil), "", "now", "former")}, v2beta2.ReasonProgressing, "upgraded"},
		"of an older spec":                          {[]v2beta2.SubOperatorConfig{soc("a", 2, 1, nil)}, v2beta2.ReasonProgressing, `"a" is being installed`},
		"new":                                       {[]v2beta2.SubOperatorConfig{{}}, v2beta2.ReasonProgressing, "is being installed"},
		"one of two fails":                          {[]v2beta2.SubOperatorConfig{with(soc("a", 1, 1, nil), "now"), soc("b", 1, 1, waits)}, v2beta2.ReasonEndpointNotFound, `"b": no endpoint`},
	} {
		t.Run(name, func(t *testing.T) {
			f := status.AsError(notInstalled(test.socs, "now"))
			if f == nil {
				if test.reason != "" {
					t.Fatal("it says that all is well")
				}
				return
			}
			if f.Reason != test.reason || !strings.Contains(f.Error(), test.text) || f.Stalled {
				t.Errorf("got %s: %v, stalled %v", f.Reason, f, f.Stalled)
			}
		})
	}
}

func TestUntouchedDefault(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(*v2beta2.SubOperatorConfig)
		want   bool
	}{
		"as it was made":           {func(*v2beta2.SubOperatorConfig) {}, true},
		"changed and changed back": {func(soc *v2beta2.SubOperatorConfig) { soc.Generation = 3 }, true},
		"changed and restored": {func(soc *v2beta2.SubOperatorConfig) {
			soc.Spec.Mapping = append(soc.Spec.Mapping, v2beta2.NamespaceMapping{Namespace: "other"})
		}, false},
		"no namespace": {func(soc *v2beta2.SubOperatorConfig) { soc.Spec.Mapping = nil }, false},
		"no endpoints": {func(soc *v2beta2.SubOperatorConfig) {
			soc.Spec.Mapping[0].ZosEndpoints = &[]v2beta2.EndpointMapping{}
		}, false},
		"another method": {func(soc *v2beta2.SubOperatorConfig) { soc.Spec.Install = v2beta2.InstallDirect }, false},
		"a user's own":   {func(soc *v2beta2.SubOperatorConfig) { soc.Annotations = nil }, false},
		"on its way out": {func(soc *v2beta2.SubOperatorConfig) { soc.DeletionTimestamp = &now }, false},
	} {
		soc := &v2beta2.SubOperatorConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "oc-soc", Generation: 1, Annotations: map[string]string{v2beta2.AnnotationDefault: "true"}},
			Spec:       defaultSpec(client.ObjectKey{Namespace: "ns", Name: "oc"}),
		}
		test.change(soc)
		if got := untouchedDefault(soc); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
