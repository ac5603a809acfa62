package upgradecheck

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Kinds that a collection does not take over are not removed by it, and block nothing.
func TestTakenOver(t *testing.T) {
	var things, others apiextensionsv1.CustomResourceDefinition
	things.Spec.Names.Kind, others.Spec.Names.Kind = "Thing", "Other"
	got := takenOver([]apiextensionsv1.CustomResourceDefinition{things, others}, &model.Collection{Resources: []model.Resource{{Kind: "Thing"}}})
	if len(got) != 1 || got[0].Spec.Names.Kind != "Thing" {
		t.Errorf("got %v", got)
	}
}
