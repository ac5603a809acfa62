package controller_test

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/controller/runcounts"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// Only what operators have written that a SubOperatorConfig has installed is read, and only when it has changed.
func TestRunCounts(t *testing.T) {
	server, faults := apiserver.Shared(t), &apiserver.Faults{}
	owner := &endpoints{server: server, home: server.Namespace(t)}
	r := &runcounts.RunCounts{Client: faults.Around(withNamespaceIndex(server.Client), ""), Reader: faults.Around(server.Client, "live ")}
	key := client.ObjectKey{Namespace: owner.home, Name: operator}
	reconcile := func() error {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		return err
	}
	counts := &runcount.Counts{}
	counts.Run("Thing", "lpar1", "Succeeded", time.Second, time.Second)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Annotations: map[string]string{runcount.Annotation: counts.Marshal(func(string) bool { return true })},
	}}
	apiserver.Must(t, server.Client.Create(t.Context(), lease))
	faults.Set("live get Lease", errAway)
	if err := reconcile(); err != nil || r.Of(key) != nil {
		t.Errorf("it is that of no operator, and is read: %v", err)
	}
	soc := owner.use(t, "soc")
	if err := reconcile(); !errors.Is(err, errAway) || r.Of(key) != nil {
		t.Errorf("got %v", err)
	}
	faults.Clear()
	if apiserver.Must(t, reconcile()); r.Of(key) == nil {
		t.Error("it is not read")
	}
	faults.Set("live get Lease", errAway)
	if apiserver.Must(t, reconcile()); r.Of(key) == nil {
		t.Error("it is read again, and has not changed")
	}
	faults.Clear()
	lease.Annotations[runcount.Annotation] = "nonsense"
	apiserver.Must(t, server.Client.Update(t.Context(), lease))
	if apiserver.Must(t, reconcile()); r.Of(key) != nil {
		t.Errorf("got %+v", r.Of(key))
	}
	lease.Annotations = map[string]string{runcount.Annotation: counts.Marshal(func(string) bool { return true })}
	apiserver.Must(t, server.Client.Update(t.Context(), lease))
	apiserver.Must(t, reconcile())
	faults.Set("list SubOperatorConfig", errAway)
	if err := reconcile(); !errors.Is(err, errAway) || r.Of(key) == nil {
		t.Errorf("what is known is forgotten: %v", err)
	}
	faults.Clear()
	apiserver.Must(t, server.Client.Delete(t.Context(), soc))
	if apiserver.Must(t, reconcile()); r.Of(key) != nil {
		t.Error("the operator is removed, and its counts are known")
	}
}
