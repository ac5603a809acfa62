package imports

import (
	"context"
	"sync"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Publication says whether the archive of an OperatorCollection is in the catalog.
type Publication struct {
	Digest digest.Digest
	// Err says why it is not.
	Err error
	// Message says where it is otherwise.
	Message string
}

// same says whether both give the same status.
func (p Publication) same(other Publication) bool {
	a, b := status.AsError(p.Err), status.AsError(other.Err)
	if p.Digest != other.Digest || a == nil || b == nil {
		return p.Digest == other.Digest && a == b && p.Message == other.Message
	}
	return a.Reason == b.Reason && a.Error() == b.Error()
}

// Publications carry what is in the catalog from the controller that makes it to the one that writes the status of
// OperatorCollections.
type Publications struct {
	mu    sync.Mutex
	known map[types.NamespacedName]Publication
	// Changed has OperatorCollections whose publication changed. Only the names of the objects are set.
	Changed chan event.GenericEvent
}

// NewPublications makes empty Publications.
func NewPublications() *Publications {
	return &Publications{Changed: make(chan event.GenericEvent)}
}

// Set replaces all publications.
func (p *Publications) Set(ctx context.Context, now map[types.NamespacedName]Publication) {
	p.mu.Lock()
	before := p.known
	p.known = now
	p.mu.Unlock()
	for name, is := range now {
		if was, known := before[name]; known && is.same(was) {
			continue
		}
		oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
		select {
		case p.Changed <- event.GenericEvent{Object: oc}:
		case <-ctx.Done():
			return
		}
	}
}

// Describe sets the condition Published. The condition stays as it is before the first catalog is made, and while another
// archive is being added.
func (p *Publications) Describe(oc *v2beta2.OperatorCollection) {
	conditions := &oc.Status.Conditions
	if p == nil {
		meta.RemoveStatusCondition(conditions, v2beta2.ConditionPublished)
		return
	}
	if !IsPublishable(oc) {
		if meta.FindStatusCondition(*conditions, v2beta2.ConditionPublished) != nil {
			status.SetCondition(conditions, v2beta2.ConditionPublished, oc.Generation, status.Waiting(v2beta2.ReasonCollectionNotImported, intervals.Missing,
				"what spec asks for is not imported: see the condition %s", v2beta2.ConditionImported), "")
		}
		return
	}
	p.mu.Lock()
	found, known := p.known[types.NamespacedName{Namespace: oc.Namespace, Name: oc.Name}]
	p.mu.Unlock()
	if known && found.Digest == digest.Digest(oc.Status.Artifact.Digest) {
		status.SetCondition(conditions, v2beta2.ConditionPublished, oc.Generation, found.Err, found.Message)
	}
}
