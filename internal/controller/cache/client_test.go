package cache_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metrics "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/cache"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// What the manager has written is in each read that follows: budgets, claims and versions are decided by lists of the cache.
func TestClientReadsWhatItWrote(t *testing.T) {
	shared := apiserver.Shared(t)
	home, c := shared.Namespace(t), startClient(t, shared)
	for n := range 20 {
		oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: fmt.Sprintf("oc-%d", n)}}
		apiserver.Must(t, c.Create(t.Context(), oc))
		before := oc.DeepCopy()
		oc.Status.Message = "written"
		apiserver.Must(t, c.Status().Patch(t.Context(), oc, client.MergeFrom(before)))
		list := &v2beta2.OperatorCollectionList{}
		apiserver.Must(t, c.List(t.Context(), list, client.InNamespace(home)))
		if len(list.Items) != n+1 {
			t.Fatalf("%d were created, the list has %d", n+1, len(list.Items))
		}
		apiserver.Must(t, c.Get(t.Context(), client.ObjectKeyFromObject(oc), before))
		if before.ResourceVersion != oc.ResourceVersion || before.Status.Message == "" {
			t.Fatalf("got version %s, %s was written", before.ResourceVersion, oc.ResourceVersion)
		}
	}
}

// startClient starts the cache of a manager with the client.
func startClient(t *testing.T, shared *apiserver.Server) client.Client {
	t.Helper()
	mgr, err := ctrl.NewManager(shared.Config, ctrl.Options{
		Scheme: shared.Scheme, Metrics: metrics.Options{BindAddress: "0"},
		NewClient: cache.NewClient, Client: client.Options{Cache: &client.CacheOptions{}},
	})
	apiserver.Must(t, err)
	ctx, stop := context.WithCancel(context.Background()) // It is stopped before the test ends.
	ended := make(chan error, 1)
	go func() { ended <- mgr.GetCache().Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return mgr.GetClient()
}

// The watch reports no deletion of an object that was gone already, and made again with the same name.
func TestReadsDoNotWaitForADeletion(t *testing.T) {
	shared := apiserver.Shared(t)
	home, c := shared.Namespace(t), startClient(t, shared)
	made := func() *v2beta2.SubOperatorConfig {
		return &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "soc"}, Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: "oc"}}
	}
	first, second := made(), made()
	apiserver.Must(t, c.Create(t.Context(), first))
	apiserver.Must(t, shared.Client.Delete(t.Context(), first))
	apiserver.Must(t, shared.Client.Create(t.Context(), second))
	apiserver.Await(t, "the cache to have the second one", func() bool {
		cached := &v2beta2.SubOperatorConfig{}
		return c.Get(t.Context(), client.ObjectKeyFromObject(second), cached) == nil && cached.UID == second.UID
	})
	apiserver.Must(t, c.Delete(t.Context(), first))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	apiserver.Must(t, c.List(ctx, &v2beta2.SubOperatorConfigList{}, client.InNamespace(home)))
}
