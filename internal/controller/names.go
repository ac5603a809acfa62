package controller

import (
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

const (
	// Finalizer keeps an OperatorCollection or SubOperatorConfig until what was made for it is deleted.
	Finalizer = "zoscb.ibm.com/finalizer"

	// annotationDefault marks the SubOperatorConfig that the manager made because no other named the collection. On an
	// OperatorCollection it names the SubOperatorConfig that was there, or was made, when that was decided.
	annotationDefault = "zoscb.ibm.com/default"
)

// changedInterval is how soon an archive whose content changed is downloaded again, to see whether it changed back.
const changedInterval = 10 * time.Minute

// jitter is the interval, give or take a tenth, so that repeated work spreads over time.
func jitter(interval time.Duration) time.Duration {
	return interval + time.Duration((rand.Float64()-0.5)*0.2*float64(interval))
}

// labelledID is the identity of the collection that an object was made for.
func labelledID(object client.Object) model.ID { return render.IDOf(object.GetLabels()) }

// importedID is the identity of the imported collection, zero if there is none.
func importedID(oc *v2beta2.OperatorCollection) model.ID {
	if oc.Status.Collection == nil {
		return model.ID{}
	}
	return model.ID{Domain: oc.Status.Collection.Domain, Name: oc.Status.Collection.Name}
}

func groupOf(oc *v2beta2.OperatorCollection, c *model.Collection) string {
	return c.Group(oc.Spec.APIGroup == v2beta2.APIGroupPerCollection)
}
