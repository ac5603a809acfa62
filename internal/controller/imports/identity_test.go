package imports

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func labelled(labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
}

func ours(domain, name string) map[string]string {
	return map[string]string{"managed-by": "ibm-zos-cloud-broker", "operator-domain": domain, "operator-name": name}
}

// The joined names of a-b/c and a/b-c are the same, and they are two collections.
func TestKeyOfLabels(t *testing.T) {
	one, two := LabelledID(labelled(ours("a-b", "c"))), LabelledID(labelled(ours("a", "b-c")))
	if one == two || one != (model.ID{Domain: "a-b", Name: "c"}) {
		t.Errorf("got %v and %v", one, two)
	}
	stranger := ours("a", "b")
	stranger["managed-by"] = "somebody"
	if got := LabelledID(labelled(stranger)); got != (model.ID{}) {
		t.Errorf("an object that is not ours has the key %v", got)
	}
}

// What the archive is fetched from and verified with makes a new source; credentials and everything else do not.
func TestSourceHash(t *testing.T) {
	base := v2beta2.OperatorCollectionSpec{CollectionURL: "https://a", Digest: "sha256:x"}
	for name, test := range map[string]struct {
		change func(*v2beta2.OperatorCollectionSpec)
		same   bool
	}{
		"nothing":         {func(*v2beta2.OperatorCollectionSpec) {}, true},
		"credentials":     {func(s *v2beta2.OperatorCollectionSpec) { s.CredentialsSecret, s.CollectionURLToken = "a", "b" }, true},
		"deletion policy": {func(s *v2beta2.OperatorCollectionSpec) { s.DeletionPolicy = v2beta2.DeletionFinalize }, true},
		"URL":             {func(s *v2beta2.OperatorCollectionSpec) { s.CollectionURL = "https://b" }, false},
		"digest":          {func(s *v2beta2.OperatorCollectionSpec) { s.Digest = "" }, false},
		"signature":       {func(s *v2beta2.OperatorCollectionSpec) { s.SignatureSecret = "s" }, false},
		"no verification": {func(s *v2beta2.OperatorCollectionSpec) { s.SkipSignatureVerification = true }, false},
		"one field's text in another": {func(s *v2beta2.OperatorCollectionSpec) {
			s.CollectionURL, s.Digest = `https://a" "sha256:x`, ""
		}, false},
	} {
		changed := base
		test.change(&changed)
		if got := SourceHash(&base) == SourceHash(&changed); got != test.same {
			t.Errorf("%s: same is %v", name, got)
		}
	}
}
