package controller_test

import (
	"errors"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/internal/collection/render"
	catalogcontroller "github.com/collection-operator/collection-operator/internal/controller/catalog"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// follower is a reconciler of the catalog in a manager that does not lead: it serves the catalog, and writes nothing.
type follower struct {
	*catalogcontroller.Reconciler
	writes apiserver.Writes
	faults *apiserver.Faults
}

func newFollower(t *testing.T, i *importer) *follower {
	t.Helper()
	scheme := withOLM(t, i.server)
	f, c := &follower{faults: &apiserver.Faults{}}, newOLMClient(t, scheme, i.server.Config)
	f.Reconciler = &catalogcontroller.Reconciler{
		Client: f.faults.Around(within(i.home, newOLMClient(t, scheme, f.writes.Of(i.server.Config))), ""), Reader: f.faults.Around(c, "live "),
		Collections: i.Collections, Settings: render.DefaultSettings(), Grants: sharedGrants(t, i.server), OLM: newCluster(t, c, i.server.Config, i.home),
		Server: catalog.NewServer("127.0.0.1:0"), Publications: imports.NewPublications(), Elected: make(chan struct{}),
	}
	return f
}

// make makes the catalog, when it may be made again.
func (f *follower) make(t *testing.T) (result ctrl.Result, err error) {
	t.Helper()
	apiserver.Await(t, "the catalog may be made again", func() bool {
		result, err = f.Reconcile(t.Context(), struct{}{})
		return err != nil || result.RequeueAfter >= 2*time.Second
	})
	return result, err
}

func TestCatalogOfAFollower(t *testing.T) {
	i := newImporter(t)
	archive := digest.Digest(i.installed(t).Status.Artifact.Digest)
	f := newFollower(t, i)
	content := i.source.archive(t)
	apiserver.Must(t, i.Collections.Remove(archive))
	for range 2 { // It must not be served without what is installed.
		if result, err := f.make(t); err != nil || result.RequeueAfter != intervals.Poll {
			t.Errorf("again after %s, %v", result.RequeueAfter, err)
		}
	}
	putArchive(t, i.Collections.Store, content)
	if result, err := f.make(t); err != nil || result.RequeueAfter < 9*time.Minute || len(f.writes.Take()) > 0 {
		t.Errorf("again after %s, %v", result.RequeueAfter, err)
	}
	for _, what := range []string{"list OperatorCollection", "list SubOperatorConfig", "list CustomResourceDefinition"} {
		f.faults.Set(what, errAway)
		if _, err := f.make(t); !errors.Is(err, errAway) {
			t.Errorf("%s: %v", what, err)
		}
		f.faults.Clear()
	}
}

func TestCatalogWithoutOLM(t *testing.T) {
	i := newImporter(t)
	f := newFollower(t, i)
	f.OLM = &olm.Cluster{}
	if result, err := f.Reconcile(t.Context(), struct{}{}); err != nil || result.RequeueAfter != time.Second {
		t.Errorf("nobody has looked for OLM yet: again after %s, %v", result.RequeueAfter, err)
	}
	f.OLM = newCluster(t, f.Client, i.server.Config, "") // No namespace has catalogs.
	if result, err := f.Reconcile(t.Context(), struct{}{}); err != nil || result.RequeueAfter != intervals.OLM || len(f.writes.Take()) > 0 {
		t.Errorf("again after %s, %v", result.RequeueAfter, err)
	}
}
