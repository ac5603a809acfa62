package controller_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcollection"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// otherManager is another manager. It has an archive if a status names it, unless it has lost all.
type otherManager struct {
	mu      sync.Mutex
	asked   int
	refused []string
	lost    bool
}

func (m *otherManager) loseAll(lost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = lost
}

// take returns how often it was asked, and the paths of what no status names.
func (m *otherManager) take() (int, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.asked, m.refused = 0, nil }()
	return m.asked, m.refused
}

// withOtherManager gives the importer another manager.
func (i *importer) withOtherManager(t *testing.T) *otherManager {
	t.Helper()
	m := &otherManager{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.asked++
		oc := &v2beta2.OperatorCollection{}
		err := i.server.Client.Get(r.Context(), i.key, oc)
		isNamed := err == nil && oc.Status.Artifact != nil && store.URLPath(digest.Digest(oc.Status.Artifact.Digest)) == r.URL.Path
		if !isNamed {
			m.refused = append(m.refused, r.URL.Path)
		}
		if !isNamed || m.lost {
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	apiserver.Must(t, err)
	number, err := strconv.ParseInt(port, 10, 32)
	apiserver.Must(t, err)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.home, Name: "manager-1", Labels: map[string]string{v2beta2.ManagerLabel: v2beta2.ManagerLabelValue}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "manager"}}},
	}
	apiserver.Must(t, i.server.Client.Create(t.Context(), pod))
	t.Cleanup(func() { apiserver.Must(t, i.server.Client.Delete(context.Background(), pod)) })
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: host, PodIPs: []corev1.PodIP{{IP: host}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	apiserver.Must(t, i.server.Client.Status().Update(t.Context(), pod))
	peers := i.Collections.Peers
	peers.Pod, peers.Scheme, peers.Port, peers.HTTP = "manager-0", "http", int32(number), server.Client()
	return m
}

// Another manager copies what a status names, and is asked now and then, because it may not have been there when the archive was imported.
func TestOtherManagersAreAskedForUploads(t *testing.T) {
	i := newImporter(t)
	other := i.withOtherManager(t)
	i.Budgets = &operatorcollection.Budgets{CRDVersions: 1}
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = "" })
	i.push(t, i.source)
	i.installed(t)
	if asked, refused := other.take(); asked == 0 || len(refused) > 0 {
		t.Errorf("asked %d times, for %v before they were accepted", asked, refused)
	}
	i.push(t, i.at("1.1.0"))
	i.becomes(t, v2beta2.ReasonBudgetExceeded, "versions of CRD")
	if _, refused := other.take(); len(refused) > 0 {
		t.Errorf("asked for %v, which is refused", refused)
	}

	i.Budgets.CRDVersions = 0
	i.awaitImport(t)
	i.installed(t)
	requeue := func(most time.Duration) {
		t.Helper()
		other.take()
		result, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key})
		if asked, _ := other.take(); err != nil || asked != 1 || result.RequeueAfter == 0 || result.RequeueAfter > most {
			t.Errorf("asked %d times, and again after %s: %v", asked, result.RequeueAfter, err)
		}
	}
	requeue(11 * time.Minute)
	if written := i.writes.Take(); len(written) > 0 {
		t.Errorf("nothing has changed: %v", written)
	}
	other.loseAll(true)
	requeue(time.Minute)
	const warning = `not every manager has a copy of the archive: pod "manager-1" does not have it`
	if oc := i.live(t); !containsText(oc.Status.Warnings, warning) || !isReady(oc) {
		t.Errorf("got %+v", oc.Status)
	}
	i.writes.Take()
	requeue(time.Minute)
	if written := i.writes.Take(); len(written) > 0 {
		t.Errorf("nothing has changed: %v", written)
	}
	other.loseAll(false)
	requeue(11 * time.Minute)
	if oc := i.live(t); containsText(oc.Status.Warnings, warning) {
		t.Errorf("got %v", oc.Status.Warnings)
	}
}
