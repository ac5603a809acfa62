package install

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestRefuseReference(t *testing.T) {
	ref := render.Reference{Field: "envFrom", Kind: "Secret", Name: "proxy"}
	refuse := func(namespace string, exists bool, label string) error {
		return refuseReference(&Installation{
			Owner: &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "own"}}, Namespace: namespace,
			Collection: &model.Collection{Domain: "it", Name: "things"},
		}, ref, exists, label)
	}
	for name, label := range map[string]string{"all operators": "true", "this operator": "it-things-operator"} {
		if err := refuse("mapped", true, label); err != nil {
			t.Errorf("allowed for %s: %v", name, err)
		}
	}
	ref.Name = "it-things-operator-endpoints"
	if err := refuse("own", true, "true"); err == nil || !strings.Contains(err.Error(), "belongs to Collection Operator") {
		t.Errorf("a Secret of the product, labelled by somebody: %v", err)
	}
	ref.Name = "proxy"
	if err := refuse("own", false, ""); status.AsError(err).Reason != v2beta2.ReasonRuntimeObjectMissing {
		t.Errorf("missing: %v", err)
	}
	if err := refuse("own", true, "it-other-operator"); status.AsError(err).Reason != v2beta2.ReasonRuntimeObjectNotAllowed ||
		strings.Contains(err.Error(), "does not exist") {
		t.Errorf("for another operator: %v", err)
	}
	// An author who cannot read the mapped namespace does not learn what is there.
	if err := refuse("mapped", true, ""); !strings.HasSuffix(err.Error(), "needs the label zoscb.ibm.com/runtime=true, or zoscb.ibm.com/runtime=it-things-operator") {
		t.Errorf("no label: %v", err)
	}
	missing, present := refuse("mapped", false, ""), refuse("mapped", true, "it-other-operator")
	if missing == nil || present == nil || missing.Error() != present.Error() || status.AsError(missing).Reason != status.AsError(present).Reason {
		t.Errorf("%v, but %v", missing, present)
	}
}
