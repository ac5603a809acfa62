package intake

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// copyTo puts an archive into the folder of demo 1.0.0, as if the manager had seen it being written.
func copyTo(t *testing.T, a *Source, written time.Time) {
	t.Helper()
	if err := a.Folder.Make("demo", "1.0.0"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(a.UploadDir, "demo", "1.0.0", "demo.tar.gz")
	if err := os.WriteFile(path, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, written, written); err != nil {
		t.Fatal(err)
	}
	for _, at := range []time.Time{written, written.Add(time.Second)} {
		a.Folder.Scan(t.Context(), at, func(string) {})
	}
}

func importedFromFolder(namespace string, at time.Time) *v2beta2.OperatorCollection {
	runs := digest.FromString("runs").String()
	return &v2beta2.OperatorCollection{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "oc", Generation: 1, Labels: map[string]string{render.LabelName: "demo", render.LabelVersion: "1.0.0"},
		},
		Status: v2beta2.OperatorCollectionStatus{
			Artifact: &v2beta2.Artifact{Digest: runs},
			History:  []v2beta2.InstalledVersion{{Digest: runs, Time: metav1.NewTime(at)}},
			Config:   &v2beta2.CollectionConfigStatus{CollectionPath: "/opt/collections/suboperator/demo/1.0.0/demo.tar.gz"},
		},
	}
}

// copiesOf returns a source of the manager in the namespace managers.
func copiesOf(t *testing.T) *Source {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "suboperator")
	folder, err := store.NewUploadFolder(dir, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	folder.Changed = func(context.Context, string, string) {}
	return &Source{Namespace: "managers", UploadDir: dir, Folder: folder}
}

// Copying decides about the manager's own namespace, and about the collection of the folder, alone.
func TestWhoTakesCopies(t *testing.T) {
	imported := time.Now().Add(-time.Hour)
	for name, tt := range map[string]struct {
		namespace string
		change    func(*v2beta2.OperatorCollection, *Source)
		want      bool
	}{
		"imported from the folder": {"managers", func(*v2beta2.OperatorCollection, *Source) {}, true},
		"another namespace":        {"tenant", func(*v2beta2.OperatorCollection, *Source) {}, false},
		"a URL":                    {"managers", func(oc *v2beta2.OperatorCollection, _ *Source) { oc.Spec.CollectionURL = "https://x" }, false},
		"never copied":             {"managers", func(oc *v2beta2.OperatorCollection, _ *Source) { oc.Status.Config = nil }, false},
		"another collection":       {"managers", func(oc *v2beta2.OperatorCollection, _ *Source) { oc.Labels[render.LabelName] = "other" }, false},
		"imported later": {"managers", func(oc *v2beta2.OperatorCollection, _ *Source) {
			oc.Status.History[0].Time = metav1.NewTime(time.Now().Add(time.Hour))
		}, false},
		"switched off": {"managers", func(_ *v2beta2.OperatorCollection, a *Source) { a.Folder = nil }, false},
	} {
		a, oc := copiesOf(t), importedFromFolder(tt.namespace, imported)
		copyTo(t, a, time.Now())
		tt.change(oc, a)
		if copied := a.copied().newPodCopy(t.Context(), oc, &imports.VerificationPolicy{}); copied != nil != tt.want {
			t.Errorf("%s: got %+v", name, copied)
		}
	}
}

// A refused copy is not considered again before it, the spec or the Secret changes, and the verdict ends with it.
func TestCopyIsConsideredOnce(t *testing.T) {
	a, oc, began := copiesOf(t), importedFromFolder("managers", time.Now().Add(-time.Hour)), time.Now()
	copyTo(t, a, began)
	consider := func(policy imports.VerificationPolicy, err error) (isConsidered bool) {
		t.Helper()
		copied := a.copied().newPodCopy(t.Context(), oc, &policy)
		_, _ = a.DecidePodCopy(oc, &Archive{podCopy: copied, Replaced: digest.Digest(oc.Status.Artifact.Digest)}, err)
		a.DescribePodCopy(oc)
		return copied != nil
	}
	refusedFor := func() string {
		if condition := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionUploadRefused); condition != nil {
			return condition.Reason
		}
		return ""
	}
	for range 2 {
		if !consider(imports.VerificationPolicy{}, context.DeadlineExceeded) || refusedFor() != "" {
			t.Errorf("that says nothing about the archive: got %q", refusedFor())
		}
	}
	refusal := status.Stalled(v2beta2.ReasonDigestMismatch, errors.New("another"))
	if !consider(imports.VerificationPolicy{}, refusal) || consider(imports.VerificationPolicy{}, nil) || refusedFor() != v2beta2.ReasonDigestMismatch {
		t.Errorf("got %q", refusedFor())
	}
	if !consider(imports.VerificationPolicy{Version: "2"}, refusal) {
		t.Error("another Secret may accept it")
	}
	oc.Generation++
	if !consider(imports.VerificationPolicy{Version: "2"}, refusal) {
		t.Error("another spec may accept it")
	}
	copyTo(t, a, began.Add(time.Minute))
	if a.DescribePodCopy(oc); refusedFor() != "" {
		t.Errorf("the archive is another one: got %q", refusedFor())
	}
	if !consider(imports.VerificationPolicy{Version: "2"}, refusal) {
		t.Error("another archive may be accepted")
	}
}

// A copy that was accepted, but is not in status, since the write failed, is considered again.
func TestCopyThatIsNotRecorded(t *testing.T) {
	a, oc := copiesOf(t), importedFromFolder("managers", time.Now().Add(-time.Hour))
	copyTo(t, a, time.Now())
	scope := &Archive{Accepted: true, Artifact: &v2beta2.Artifact{Digest: digest.FromString("next").String()}, Replaced: digest.Digest(oc.Status.Artifact.Digest)}
	for attempt := range 2 {
		if scope.podCopy = a.copied().newPodCopy(t.Context(), oc, &imports.VerificationPolicy{}); scope.podCopy == nil {
			t.Fatalf("attempt %d: it is not considered", attempt)
		}
		if refused, _ := a.DecidePodCopy(oc, scope, errors.New("conflict")); refused != nil {
			t.Errorf("got %v", refused)
		}
	}
	scope.Recorded, oc.Status.Artifact = true, scope.Artifact
	if refused, _ := a.DecidePodCopy(oc, scope, nil); refused != nil {
		t.Error(refused)
	}
	if copied := a.copied().newPodCopy(t.Context(), oc, &imports.VerificationPolicy{}); copied != nil {
		t.Errorf("got %+v", copied)
	}
}

// With spec.interval, a file that was refused, or is from before, is not considered again.
func TestCopiesAndInterval(t *testing.T) {
	a, oc := copiesOf(t), importedFromFolder("managers", time.Now().Add(-time.Hour))
	oc.Spec.Interval = &metav1.Duration{Duration: time.Minute}
	copyTo(t, a, time.Now())
	scope := &Archive{}
	if file, err := a.checkSource(t.Context(), oc, scope); err != nil || file != nil || scope.check != nil || scope.podCopy != nil {
		t.Errorf("got %+v, %v, %+v", file, err, scope)
	}
	a.checks.record(oc, &sourceCheck{generation: oc.Generation, due: time.Now().Add(-time.Hour)})
	if wait := a.NextCheck(oc); wait != 0 {
		t.Errorf("it is checked again after %s", wait)
	}
}

// An upload is not imported for the first time while the folder has another one than was known.
func TestFindUploadOfChangedFolder(t *testing.T) {
	a, oc := copiesOf(t), importedFromFolder("tenant", time.Now())
	copyTo(t, a, time.Now().Add(-time.Minute))
	if _, err := a.copied().findUpload(oc); err != nil {
		t.Fatal(err)
	}
	later := filepath.Join(a.UploadDir, "demo", "1.0.0", "later.tar.gz")
	if err := os.WriteFile(later, []byte("archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	if upload, err := a.copied().findUpload(oc); err == nil || status.AsError(err).Reason != v2beta2.ReasonArchiveNotUploaded {
		t.Errorf("got %+v, %v", upload, err)
	}
}

// An archive that arrived while another one was imported is newer, although the import ended later.
func TestCopyDuringImport(t *testing.T) {
	began := time.Now().Add(-time.Minute)
	a, oc := copiesOf(t), importedFromFolder("managers", began.Add(20*time.Second))
	if refused, _ := a.DecidePodCopy(oc, &Archive{podCopy: &podCopy{written: began}, Accepted: true, Recorded: true, Artifact: oc.Status.Artifact}, nil); refused != nil {
		t.Fatal(refused)
	}
	copyTo(t, a, began.Add(10*time.Second))
	if a.copied().newPodCopy(t.Context(), oc, &imports.VerificationPolicy{}) == nil {
		t.Error("it is not considered")
	}
}

// A copy that failed for a reason outside of it is tried again with a growing delay, and what runs goes on meanwhile.
func TestCopyIsTriedAgain(t *testing.T) {
	a, oc := copiesOf(t), importedFromFolder("managers", time.Now().Add(-time.Hour))
	copyTo(t, a, time.Now())
	policy := &imports.VerificationPolicy{}
	full := status.Retry(v2beta2.ReasonStorageFull, errors.New("enlarge it"))
	waiting := status.Waiting(v2beta2.ReasonProgressing, time.Second, "wait for what it replaces")
	for attempt, failure := range []error{full, full, waiting} {
		delay := minUploadDelay << attempt
		copied := a.copied().newPodCopy(t.Context(), oc, policy)
		if copied == nil {
			t.Fatal("it is not considered")
		}
		refused, _ := a.DecidePodCopy(oc, &Archive{podCopy: copied, Replaced: digest.Digest(oc.Status.Artifact.Digest)}, failure)
		if refused == nil || refused.Reason != status.AsError(failure).Reason || !strings.Contains(refused.Error(), "tried again: "+failure.Error()) {
			t.Errorf("got %v", refused)
		}
		if early := a.copied().newPodCopy(t.Context(), oc, policy); early != nil {
			t.Errorf("too early: got %+v", early)
		}
		if wait := a.NextCheck(oc); wait > delay || wait < delay-minUploadDelay/2 {
			t.Errorf("got %s, want %s", wait, delay)
		}
		last := a.podCopies.last(oc)
		last.retry = time.Now()
		a.podCopies.Store(client.ObjectKeyFromObject(oc), last)
	}
	copyTo(t, a, time.Now().Add(time.Minute))
	if wait := a.NextCheck(oc); wait != 0 {
		t.Errorf("it is another archive: got %s", wait)
	}
}

// What runs is as it should be, also where clients find no folder to copy to.
func TestFolderThatCannotBeMade(t *testing.T) {
	a, oc := copiesOf(t), importedFromFolder("managers", time.Now())
	if err := os.WriteFile(filepath.Join(a.UploadDir, "demo"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	requested, err := a.isRequested(t.Context(), oc, &imports.VerificationPolicy{}, &Archive{}, true)
	if err != nil || requested {
		t.Errorf("got %t, %v", requested, err)
	}
}

// What was copied in the second in which another archive was imported counts if it was later.
func TestCopyInTheSecondOfAnImport(t *testing.T) {
	second := time.Now().Add(-time.Minute).Truncate(time.Second)
	imported := second.Add(500 * time.Millisecond)
	for after, want := range map[time.Duration]bool{-time.Millisecond: false, time.Millisecond: true} {
		a, oc := copiesOf(t), importedFromFolder("managers", second)
		copyTo(t, a, imported.Add(after))
		scope := &Archive{Accepted: true, Recorded: true, Installed: imported, Artifact: oc.Status.Artifact}
		if refused, _ := a.DecidePodCopy(oc, scope, nil); refused != nil {
			t.Fatal(refused)
		}
		scope.Installed = time.Time{}
		if refused, _ := a.DecidePodCopy(oc, scope, nil); refused != nil { // It remains imported.
			t.Fatal(refused)
		}
		if copied := a.copied().newPodCopy(t.Context(), oc, &imports.VerificationPolicy{}); copied != nil != want {
			t.Errorf("%s: got %+v", after, copied)
		}
	}
}
