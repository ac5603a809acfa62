package controller

import (
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/apply"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/render"
)

const (
	// fieldOwner is the name under which the controllers write.
	fieldOwner = apply.FieldOwner

	// Finalizer keeps an OperatorCollection or SubOperatorConfig until what it made is gone.
	Finalizer = "zoscb.ibm.com/finalizer"

	// annotationOwner names, as namespace/name, the SubOperatorConfig that an object was made for.
	annotationOwner = "zoscb.ibm.com/suboperatorconfig"

	// annotationDefault marks the SubOperatorConfig that the manager made because no other named the collection. On an
	// OperatorCollection it names the SubOperatorConfig that was there, or was made, when that was decided.
	annotationDefault = "zoscb.ibm.com/default"
)

// pollInterval is how soon the controllers look again for what they hold no watch on.
const pollInterval = 5 * time.Second

// missingInterval is how soon they look again for something a user has to bring.
const missingInterval = time.Minute

// changedInterval is how soon an archive whose content changed is downloaded again, to see whether it changed back.
const changedInterval = 10 * time.Minute

// jitter is the interval, give or take a tenth, so that what began together does not stay together.
func jitter(interval time.Duration) time.Duration {
	return interval + time.Duration((rand.Float64()-0.5)*0.2*float64(interval))
}

// collectionKey identifies a collection. It is always the pair: "a-b" and "c" joined read like "a" and "b-c".
type collectionKey struct {
	Domain, Name string
}

func (k collectionKey) String() string { return k.Domain + "/" + k.Name }

func keyOf(c *collection.Collection) collectionKey {
	return collectionKey{Domain: c.Domain, Name: c.Name}
}

// keyOfLabels is the zero key for an object that is not ours.
func keyOfLabels(object client.Object) collectionKey {
	l := object.GetLabels()
	if l[render.LabelManagedBy] != render.ManagedBy {
		return collectionKey{}
	}
	return collectionKey{Domain: l[render.LabelDomain], Name: l[render.LabelName]}
}

// keyOfCollection is the zero key as long as nothing was imported.
func keyOfCollection(oc *v2beta2.OperatorCollection) collectionKey {
	if oc.Status.Collection == nil {
		return collectionKey{}
	}
	return collectionKey{Domain: oc.Status.Collection.Domain, Name: oc.Status.Collection.Name}
}

func (k collectionKey) selector() client.MatchingLabelsSelector {
	return client.MatchingLabelsSelector{Selector: labels.SelectorFromSet(labels.Set{
		render.LabelManagedBy: render.ManagedBy, render.LabelDomain: k.Domain, render.LabelName: k.Name,
	})}
}

func groupOf(oc *v2beta2.OperatorCollection, c *collection.Collection) string {
	return c.Group(oc.Spec.APIGroup == v2beta2.APIGroupPerCollection)
}
