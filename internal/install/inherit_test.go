package install

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

func TestWhatReplacedInstallationsLeave(t *testing.T) {
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "zos", Name: "soc"}}
	ours := render.IdentityLabels(model.ID{Domain: "acme", Name: "things"})
	for name, test := range map[string]struct {
		labels      map[string]string
		annotations map[string]string
		owned, left bool
	}{
		"its own":                            {ours, map[string]string{AnnotationOwner: "zos/soc"}, true, false},
		"its own, without our labels":        {nil, map[string]string{AnnotationOwner: "zos/soc"}, false, false},
		"of another one":                     {ours, map[string]string{AnnotationOwner: "zos/other"}, false, false},
		"of nobody":                          {ours, nil, false, false},
		"left by another one":                {ours, map[string]string{AnnotationOwner: "zos/other", annotationLeft: "true"}, true, true},
		"left by itself":                     {ours, map[string]string{AnnotationOwner: "zos/soc", annotationLeft: "true"}, true, true},
		"left by one of another namespace":   {ours, map[string]string{AnnotationOwner: "others/soc", annotationLeft: "true"}, false, false},
		"left by nobody":                     {ours, map[string]string{annotationLeft: "true"}, false, false},
		"left, but not by one of our labels": {nil, map[string]string{AnnotationOwner: "zos/other", annotationLeft: "true"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "s", Labels: test.labels, Annotations: test.annotations}}
			if got := OwnedBy(soc)(live); got != test.owned {
				t.Errorf("owned: %t", got)
			}
			if got := isLeftTo(soc, live); got != test.left {
				t.Errorf("left: %t", got)
			}
		})
	}
}
