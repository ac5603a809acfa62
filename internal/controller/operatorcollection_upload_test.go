package controller_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func containsText(texts []string, text string) bool {
	return slices.ContainsFunc(texts, func(one string) bool { return strings.Contains(one, text) })
}

// push uploads an archive as the upload endpoint does.
func (i *importer) push(t *testing.T, s source) digest.Digest {
	t.Helper()
	file, err := fetch.Save(bytes.NewReader(s.archive(t)), 1<<20, i.Collections.Store.TempDir())
	apiserver.Must(t, err)
	apiserver.Must(t, i.Source.Pushes.Put(i.home, i.key.Name, file))
	apiserver.Must(t, i.Source.Received(t.Context(), i.key, file.Digest))
	return file.Digest
}

func (i *importer) pushed(t *testing.T, archive digest.Digest) string {
	t.Helper()
	path, err := i.Source.Pushes.Find(i.home, i.key.Name, archive)
	apiserver.Must(t, err)
	return path
}

func TestArchiveThatIsPushed(t *testing.T) {
	i := newImporter(t)
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = "" })
	first := i.push(t, i.source)
	oc := i.installed(t)
	if oc.Status.Artifact.Digest != first.String() || oc.Status.ObservedUpload != first.String() || i.pushed(t, first) != "" {
		t.Errorf("got %+v", oc.Status)
	}
	if _, err := i.reconcile(t); err != nil || len(i.writes.Take()) > 0 {
		t.Errorf("nothing has changed: %v", err)
	}

	i.push(t, i.at("0.9.0"))
	if oc := i.becomes(t, v2beta2.ReasonArtifactChanged, "only by the same or a newer version"); oc.Status.Artifact.Digest != first.String() {
		t.Errorf("got %+v", oc.Status.Artifact)
	}
	second := i.push(t, i.at("1.1.0"))
	if oc := i.awaitImport(t); oc.Status.Artifact.Digest != second.String() || oc.Status.History[0].By != "upload" {
		t.Errorf("got %+v", oc.Status)
	}
	i.installed(t)

	// What was uploaded and is lost does not affect what runs.
	third := i.push(t, i.at("1.2.0"))
	apiserver.Must(t, os.Remove(i.pushed(t, third)))
	if oc := i.becomes(t, v2beta2.ReasonSucceeded, ""); oc.Status.Artifact.Digest != second.String() || !containsText(oc.Status.Warnings, third.String()) {
		t.Errorf("got %+v", oc.Status)
	}
	damaged := i.push(t, i.at("1.3.0"))
	apiserver.Must(t, os.WriteFile(i.pushed(t, damaged), []byte("damaged"), 0o600))
	if oc := i.becomes(t, v2beta2.ReasonStorageFailed, "the uploaded archive is damaged"); oc.Status.Artifact.Digest != second.String() {
		t.Errorf("got %+v", oc.Status)
	}
}

func TestArchiveThatIsNotPushed(t *testing.T) {
	i := newImporter(t)
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = "" })
	lost := i.push(t, i.source)
	apiserver.Must(t, os.Remove(i.pushed(t, lost)))
	i.becomes(t, v2beta2.ReasonArchiveNotUploaded, lost.String())
	i.faults.Set("patch OperatorCollection", errAway)
	if err := i.Source.Received(t.Context(), i.key, lost); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
}

// Archives of OperatorCollections that are gone are removed, and former ones after an hour.
func TestUnusedUploads(t *testing.T) {
	i := newImporter(t)
	apiserver.Must(t, i.Source.RemoveUnusedUploads(t.Context()))
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = "" })
	awaited := i.push(t, i.source)
	file, err := fetch.Save(bytes.NewReader(i.at("2.0.0").archive(t)), 1<<20, i.Collections.Store.TempDir())
	apiserver.Must(t, err)
	apiserver.Must(t, i.Source.Pushes.Put(i.home, "gone", file))
	i.faults.Set("live list OperatorCollection", errAway)
	if err := i.Source.RemoveUnusedUploads(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	i.faults.Clear()
	find := func() string {
		path, err := i.Source.Pushes.Find(i.home, "gone", file.Digest)
		apiserver.Must(t, err)
		return path
	}
	if find() == "" {
		t.Error("it was removed although it is not known whether it is needed")
	}
	old := time.Now().Add(-2 * time.Hour)
	apiserver.Must(t, os.Chtimes(i.pushed(t, awaited), old, old))
	apiserver.Must(t, i.Source.RemoveUnusedUploads(t.Context()))
	if find() != "" || i.pushed(t, awaited) == "" {
		t.Error("one is removed that is awaited, or one is kept that is not")
	}
	apiserver.Must(t, i.Source.Received(t.Context(), i.key, digest.FromString("another")))
	apiserver.Must(t, i.Source.RemoveUnusedUploads(t.Context()))
	if i.pushed(t, awaited) != "" {
		t.Error("a former one is kept")
	}
}

// withFolder makes the OperatorCollection take archives from the folder of the manager's pod.
func (i *importer) withFolder(t *testing.T) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "suboperator")
	folder, err := store.NewUploadFolder(dir, 1<<20)
	apiserver.Must(t, err)
	folder.Changed = func(context.Context, string, string) {}
	i.Source.Folder, i.Source.UploadDir = folder, dir
	i.change(t, func(oc *v2beta2.OperatorCollection) {
		oc.Spec.CollectionURL = ""
		oc.Labels = map[string]string{render.LabelDomain: "tests", render.LabelName: i.source.name, render.LabelVersion: "1.0.0"}
	})
}

// copyArchive puts an archive into the folder, as if the manager had seen it being copied.
func (i *importer) copyArchive(t *testing.T, content []byte, written time.Time) digest.Digest {
	t.Helper()
	folder := filepath.Join(i.Source.UploadDir, i.source.name, "1.0.0")
	apiserver.Must(t, os.MkdirAll(folder, 0o755))
	apiserver.Must(t, os.WriteFile(filepath.Join(folder, "archive.tar.gz"), content, 0o600))
	for _, at := range []time.Time{written, written.Add(time.Second)} {
		i.Source.Folder.Scan(t.Context(), at, func(string) {})
	}
	return digest.FromBytes(content)
}

func TestArchiveThatIsCopied(t *testing.T) {
	i := newImporter(t)
	i.withFolder(t)
	i.becomes(t, v2beta2.ReasonArchiveNotUploaded, "no uploaded archive")
	now := time.Now()
	first := i.copyArchive(t, i.source.archive(t), now)
	oc := i.installed(t)
	if oc.Status.Artifact.Digest != first.String() || oc.Status.Config == nil || !strings.HasSuffix(oc.Status.Config.CollectionPath, i.source.name+"/1.0.0/archive.tar.gz") {
		t.Errorf("got %+v", oc.Status)
	}
	if _, err := i.reconcile(t); err != nil || len(i.writes.Take()) > 0 {
		t.Errorf("nothing has changed: %v", err)
	}

	// One that is refused does not affect what runs, and is told once.
	for len(i.events) > 0 {
		<-i.events
	}
	i.copyArchive(t, []byte("text"), now.Add(2*time.Second))
	oc = i.becomes(t, v2beta2.ReasonSucceeded, "")
	refused := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionUploadRefused)
	if refused == nil || refused.Status != metav1.ConditionTrue || refused.Reason != v2beta2.ReasonArchiveNotGzip || oc.Status.Artifact.Digest != first.String() {
		t.Errorf("got %+v, %+v", refused, oc.Status.Artifact)
	}
	i.expectEvent(t, "differs from what runs, which is unaffected, and is not imported")
	i.becomes(t, v2beta2.ReasonSucceeded, "")
	if len(i.events) > 0 {
		t.Errorf("it is told again: %s", <-i.events)
	}

	changed := i.source
	changed.description = "changed"
	second := i.copyArchive(t, changed.archive(t), now.Add(4*time.Second))
	oc = i.awaitImport(t)
	if oc.Status.Artifact.Digest != second.String() || oc.Status.History[0].By != "upload" || meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionUploadRefused) != nil {
		t.Errorf("got %+v", oc.Status)
	}
	i.installed(t)
}

// An archive in the folder of the manager's pod counts for OperatorCollections of the manager's namespace alone.
func TestCopiesInOtherNamespaces(t *testing.T) {
	i := newImporter(t)
	i.withFolder(t)
	i.Source.Namespace = "elsewhere"
	now := time.Now()
	first := i.copyArchive(t, i.source.archive(t), now)
	i.installed(t) // It has none yet.
	changed := i.source
	changed.description = "changed"
	i.copyArchive(t, changed.archive(t), now.Add(2*time.Second))
	if oc := i.becomes(t, v2beta2.ReasonSucceeded, ""); oc.Status.Artifact.Digest != first.String() {
		t.Errorf("got %+v", oc.Status.Artifact)
	}
	i.Source.Namespace = i.home
	if oc := i.awaitImportOf(t, digest.FromBytes(changed.archive(t))); oc.Status.History[0].By != "upload" {
		t.Errorf("got %+v", oc.Status)
	}
}

// awaitImportOf reconciles until an archive is imported.
func (i *importer) awaitImportOf(t *testing.T, archive digest.Digest) *v2beta2.OperatorCollection {
	t.Helper()
	apiserver.Await(t, "the archive is imported", func() bool {
		oc, err := i.reconcile(t)
		apiserver.Must(t, err)
		i.write(t)
		return oc.Status.Artifact.Digest == archive.String()
	})
	return i.live(t)
}

// Other namespaces have imported the content that runs: it is not accepted there any more if it changes.
func TestCopyThatOthersFollow(t *testing.T) {
	i := newImporter(t)
	i.withFolder(t)
	now := time.Now()
	first := i.copyArchive(t, i.source.archive(t), now)
	i.installed(t)
	own := i.key
	i.key = types.NamespacedName{Namespace: i.server.Namespace(t), Name: "theirs"}
	apiserver.Must(t, i.server.Client.Create(t.Context(), &v2beta2.OperatorCollection{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.key.Namespace, Name: i.key.Name},
		Spec:       v2beta2.OperatorCollectionSpec{CollectionURL: i.serve(t, i.source), SkipSignatureVerification: true},
	}))
	i.awaitImport(t)
	i.key = own
	changed := i.source
	changed.description = "changed"
	i.copyArchive(t, changed.archive(t), now.Add(2*time.Second))
	oc := i.becomes(t, v2beta2.ReasonSucceeded, "")
	refused := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionUploadRefused)
	if refused == nil || !strings.Contains(refused.Message, `OperatorCollection "theirs" in namespace`) || oc.Status.Artifact.Digest != first.String() {
		t.Errorf("got %+v, %+v", refused, oc.Status.Artifact)
	}
}

func TestCopiesThatAreNotAllowed(t *testing.T) {
	i := newImporter(t)
	i.withFolder(t)
	i.copyArchive(t, i.source.archive(t), time.Now())
	i.Source.Folder = nil
	i.becomes(t, v2beta2.ReasonArchiveNotUploaded, "--allow-exec-uploads=false")
	apiserver.Must(t, os.RemoveAll(i.Source.UploadDir))
	i.becomes(t, v2beta2.ReasonArchiveNotUploaded, "upload one with kubectl collection push")
}
