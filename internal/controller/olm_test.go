package controller

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestNoOLM(t *testing.T) {
	var olm *OLM
	olm.OnAvailable(func(context.Context) error {
		t.Error("found what is not there")
		return nil
	})
	if err := olm.SetupWithManager(nil); err != nil {
		t.Error(err)
	}
	if olm.Available() || olm.Err() == nil || olm.CatalogSource() != (types.NamespacedName{}) {
		t.Errorf("available %v, error %v, source %v", olm.Available(), olm.Err(), olm.CatalogSource())
	}
}

func TestOLMBeforeItIsFound(t *testing.T) {
	olm := &OLM{CatalogNamespace: "olm"}
	if olm.Available() || olm.Err() == nil || olm.CatalogSource() != (types.NamespacedName{}) {
		t.Errorf("available %v, error %v, source %v", olm.Available(), olm.Err(), olm.CatalogSource())
	}
}
