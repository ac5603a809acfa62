package imports

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// listed is a reader that has some OperatorCollections.
type listed struct {
	client.Reader
	items []v2beta2.OperatorCollection
}

func (l *listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*v2beta2.OperatorCollectionList).Items = l.items
	return nil
}

// A cache that is behind is no failure, and whoever ends does not wait for it.
func TestIndexWaitsForTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := []v2beta2.OperatorCollection{{ObjectMeta: metav1.ObjectMeta{Name: "oc", UID: "1", ResourceVersion: "7"}}}
		cached := &listed{}
		index, begin := &Index{Client: cached, Reader: &listed{items: live}}, time.Now()
		first := make(chan error)
		go func() {
			_, err := index.List(t.Context())
			first <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := index.List(ctx); !errors.Is(err, context.Canceled) || time.Since(begin) > 0 {
			t.Errorf("got %v after %s", err, time.Since(begin))
		}
		if err := <-first; !errors.Is(err, ErrBehind) || status.AsError(err).Reason != v2beta2.ReasonProgressing || time.Since(begin) > catchUpTime {
			t.Errorf("got %v after %s", err, time.Since(begin))
		}
		go func() {
			<-time.After(time.Second)
			cached.items = live
		}()
		if found, err := index.List(t.Context()); err != nil || len(found) != 1 {
			t.Errorf("got %v, %v", found, err)
		}
	})
}
