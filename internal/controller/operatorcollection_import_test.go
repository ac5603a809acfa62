package controller_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/collection/reserved"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestImport(t *testing.T) {
	i := newImporter(t)
	oc, err := i.reconcile(t)
	apiserver.Must(t, err)
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionImported, v2beta2.ReasonProgressing, "waiting for CRDs to be established")
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionConformant, v2beta2.ReasonSucceeded, "")
	content := i.source.archive(t)
	if oc.Status.Artifact.Digest != digest.FromBytes(content).String() || oc.Status.Artifact.Size != int64(len(content)) || oc.Status.Artifact.Verification != "Skipped" {
		t.Errorf("got %+v", oc.Status.Artifact)
	}
	if !slices.Contains(oc.Finalizers, v2beta2.Finalizer) || oc.Labels[render.LabelName] != i.source.name || len(i.configs(t)) > 0 {
		t.Errorf("finalizers %v, labels %v, configs %v", oc.Finalizers, oc.Labels, i.configs(t))
	}
	oc = i.awaitImport(t)
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonProgressing, `SubOperatorConfig "gadgets-soc" is being installed`)
	socs := i.configs(t)
	if len(socs) != 1 || socs[0].Name != "gadgets-soc" || socs[0].Spec.OperatorCollection != "gadgets" || !mapping.Maps(&socs[0], i.home) || socs[0].Labels[render.LabelName] != i.source.name {
		t.Errorf("got %+v", socs)
	}
	if definition := i.definition(t, i.source.kind); definition.Annotations[render.AnnotationHeldBy] != i.home+"/gadgets" || definition.Annotations[render.AnnotationClaimedBy] != i.home {
		t.Errorf("got %v", definition.Annotations)
	}
	oc = i.installed(t)
	if oc.Status.History[0].Outcome != v2beta2.VersionInstalled || len(oc.Status.History) != 1 || oc.Status.SubOperatorConfigMappingStatus[0].Name != "gadgets-soc" {
		t.Errorf("got %+v", oc.Status)
	}
	if _, err := i.reconcile(t); err != nil || i.web.asked() > 0 || len(i.writes.Take()) > 0 {
		t.Errorf("nothing has changed: %v", err)
	}
	if i.write(t); len(i.writes.Take()) > 0 {
		t.Error("nothing has changed, and CRDs were written")
	}
}

// A default that a user deletes is not made again, and one that a user has changed is not removed.
func TestDefaultSubOperatorConfig(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	apiserver.Must(t, i.server.Client.Delete(t.Context(), &i.configs(t)[0]))
	if i.becomes(t, v2beta2.ReasonNotInstalled, "create one to install it"); len(i.configs(t)) > 0 {
		t.Error("it was made again")
	}

	for name, changed := range map[string]bool{"untouched": false, "changed": true} {
		t.Run(name, func(t *testing.T) {
			i := newImporter(t)
			i.installed(t)
			made := i.configs(t)[0]
			if changed {
				made.Spec.Mapping = append(made.Spec.Mapping, v2beta2.NamespaceMapping{Namespace: "elsewhere"})
				apiserver.Must(t, i.server.Client.Update(t.Context(), &made))
			}
			apiserver.Must(t, i.server.Client.Create(t.Context(), &v2beta2.SubOperatorConfig{
				ObjectMeta: metav1.ObjectMeta{Namespace: i.home, Name: "mine"},
				Spec:       v2beta2.SubOperatorConfigSpec{OperatorCollection: "gadgets", Mapping: []v2beta2.NamespaceMapping{{Namespace: i.home}}},
			}))
			i.faults.Set("delete SubOperatorConfig", errAway)
			if _, err := i.reconcile(t); errors.Is(err, errAway) == changed || len(i.configs(t)) != 2 {
				t.Errorf("got %v", err)
			}
			i.faults.Clear()
			_, err := i.reconcile(t)
			apiserver.Must(t, err)
			if socs := i.configs(t); len(socs) == 2 != changed {
				t.Errorf("got %v", socs)
			}
		})
	}
	t.Run("somebody made one before", func(t *testing.T) {
		i := newImporter(t)
		apiserver.Must(t, i.server.Client.Create(t.Context(), &v2beta2.SubOperatorConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: i.home, Name: "mine"}, Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: "gadgets"},
		}))
		i.cached = func(list client.ObjectList) { // The cache has not seen it yet.
			if socs, ok := list.(*v2beta2.SubOperatorConfigList); ok {
				socs.Items = nil
			}
		}
		i.awaitImport(t)
		if socs := i.configs(t); len(socs) != 1 || socs[0].Name != "mine" {
			t.Errorf("got %v", socs)
		}
	})
}

// refusal is why an archive is not imported.
type refusal struct {
	// prepare makes it so.
	prepare      func(t *testing.T, i *importer)
	reason, text string
	// stalled is true if only a change of the spec helps, and fetched if that is found out from the archive.
	stalled, fetched bool
}

func TestImportIsRefused(t *testing.T) {
	answer := func(code int) func(*testing.T, *importer) {
		return func(_ *testing.T, i *importer) {
			i.web.set("/"+i.source.name+"/1.0.0", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		}
	}
	for name, test := range map[string]refusal{
		"namespace": {func(_ *testing.T, i *importer) { i.Namespaces = mapping.Selection{"elsewhere"} }, v2beta2.ReasonNamespaceNotSelected, "", false, false},
		"no URL": {func(t *testing.T, i *importer) {
			i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = "" })
		}, v2beta2.ReasonInvalidURL, "spec.collectionURL is not set", true, false},
		"no verification": {func(t *testing.T, i *importer) {
			i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.SkipSignatureVerification = false })
		}, v2beta2.ReasonNotVerified, "", true, false},
		"another digest": {func(t *testing.T, i *importer) {
			i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.Digest = digest.FromString("another").String() })
		}, v2beta2.ReasonDigestMismatch, "", true, true},
		"no Secret with a signature": {func(t *testing.T, i *importer) {
			i.change(t, func(oc *v2beta2.OperatorCollection) {
				oc.Spec.SkipSignatureVerification, oc.Spec.SignatureSecret = false, "none"
			})
		}, v2beta2.ReasonSignatureSecretInvalid, `"none"`, false, false},
		"a Secret without a signature": {func(t *testing.T, i *importer) {
			i.addSecret(t, "empty", nil)
			i.change(t, func(oc *v2beta2.OperatorCollection) {
				oc.Spec.SkipSignatureVerification, oc.Spec.SignatureSecret = false, "empty"
			})
		}, v2beta2.ReasonSignatureSecretInvalid, `"empty"`, false, false},
		"no Secret with credentials": {func(t *testing.T, i *importer) {
			i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CredentialsSecret = "none" })
		}, v2beta2.ReasonCredentialsInvalid, `"none"`, false, false},
		"a Secret that is no credential": {func(t *testing.T, i *importer) {
			i.addSecret(t, "others", nil)
			i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CredentialsSecret = "others" })
		}, v2beta2.ReasonCredentialsInvalid, "not labelled as a credential", false, false},
		"a Secret without credentials": {func(t *testing.T, i *importer) {
			i.addSecret(t, "empty", map[string]string{credential.Label: "true"})
			i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CredentialsSecret = "empty" })
		}, v2beta2.ReasonCredentialsInvalid, `Secret "empty"`, false, false},
		"no server": {func(t *testing.T, i *importer) {
			i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = "http://127.0.0.1:1/x.tar.gz" })
		}, v2beta2.ReasonSourceUnreachable, "http://", false, false},
		"not found":    {answer(http.StatusNotFound), v2beta2.ReasonArchiveNotFound, "404", false, true},
		"unauthorized": {answer(http.StatusUnauthorized), v2beta2.ReasonUnauthorized, "401", false, true},
		"server error": {answer(http.StatusBadGateway), v2beta2.ReasonSourceUnreachable, "502", false, true},
		"too large": {func(_ *testing.T, i *importer) {
			i.web.serve("/"+i.source.name+"/1.0.0", bytes.Repeat([]byte("x"), 2<<20))
		}, v2beta2.ReasonArchiveTooLarge, "", true, true},
		"no archive": {func(_ *testing.T, i *importer) { i.web.serve("/"+i.source.name+"/1.0.0", []byte("text")) }, v2beta2.ReasonArchiveNotGzip, "", true, true},
		"a web page with a digest": {func(t *testing.T, i *importer) {
			i.web.serve("/"+i.source.name+"/1.0.0", []byte("<html>Sign in</html>"))
			i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.Digest = "sha256:" + strings.Repeat("a", 64) })
		}, v2beta2.ReasonDigestMismatch, "the file is a web page", true, true},
		"a kind that is none": {func(t *testing.T, i *importer) {
			other := i.source
			other.kind = "no kind"
			i.serve(t, other)
		}, v2beta2.ReasonInvalidCollection, "kind", true, true},
		"reserved domain": {func(t *testing.T, i *importer) {
			var err error
			i.Reserved, err = reserved.Parse([]string{"tests=namespace:elsewhere"})
			apiserver.Must(t, err)
		}, v2beta2.ReasonDomainReserved, "", false, true},
		"kinds": {kindsBudget, v2beta2.ReasonBudgetExceeded, "--max-kinds", false, true},
		"bytes": {func(_ *testing.T, i *importer) {
			i.Budgets.StoredBytes = 1
		}, v2beta2.ReasonBudgetExceeded, "--max-stored-bytes", false, true},
		"a CRD of others": {func(t *testing.T, i *importer) {
			crds, err := render.CRDs(i.loaded(t, i.source), model.Group)
			apiserver.Must(t, err)
			crds[0].Labels = nil
			apiserver.Must(t, i.server.Client.Create(t.Context(), crds[0]))
		}, v2beta2.ReasonKindClash, "belongs to somebody else", false, true},
		"another collection in the namespace": {func(t *testing.T, i *importer) {
			other := i.source
			other.description = "another content"
			i.addVersion(t, other)
			i.serve(t, i.source)
		}, v2beta2.ReasonVersionConflict, "with other content: publish this archive under another version", false, true},
	} {
		t.Run(name, func(t *testing.T) { test.run(t, newImporter(t)) })
	}
}

func kindsBudget(t *testing.T, i *importer) {
	i.Budgets.Kinds = budget.Limits{PerNamespace: 1, Total: 10000}
	i.addImported(t, "other")
}

func (test refusal) run(t *testing.T, i *importer) {
	test.prepare(t, i)
	i.web.asked()
	i.writes.Take()
	result, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key})
	oc := i.live(t)
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionReady, test.reason, test.text)
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionImported, test.reason, test.text)
	if (meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionStalled) != nil) != test.stalled || (i.web.asked() > 0) != test.fetched {
		t.Errorf("fetched: %v, got %+v", test.fetched, oc.Status.Conditions)
	}
	if i.expectEvent(t, test.reason); oc.Status.Phase != v2beta2.PhaseFailed {
		t.Errorf("it is %s", oc.Status.Phase)
	}
	if err == nil && result.RequeueAfter == 0 && test.reason != v2beta2.ReasonDomainReserved && test.reason != v2beta2.ReasonNamespaceNotSelected {
		t.Error("it is not tried again")
	}
	if oc.Status.Artifact != nil || oc.Status.Collection != nil || len(oc.Status.History) > 0 || oc.Annotations["zoscb.ibm.com/artifact-digest"] != "" {
		t.Errorf("it is recorded: %+v", oc.Status)
	}
	if i.isStored(t, digest.FromBytes(i.source.archive(t)).String()) {
		t.Error("the archive stays in the store")
	}
	for _, write := range i.writes.Take() {
		if !strings.Contains(write, "/operatorcollections/gadgets") {
			t.Errorf("it writes %s", write)
		}
	}
}

func (i *importer) addSecret(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	apiserver.Must(t, i.server.Client.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: i.home, Name: name, Labels: labels}}))
}

// addImported makes an OperatorCollection that has imported another collection with another kind.
func (i *importer) addImported(t *testing.T, name string) {
	t.Helper()
	i.add(t, name, "https://example.com/"+name)
	oc := &v2beta2.OperatorCollection{}
	apiserver.Must(t, i.server.Client.Get(t.Context(), client.ObjectKey{Namespace: i.home, Name: name}, oc))
	oc.Status.Artifact = &v2beta2.Artifact{Digest: digest.FromString(name).String(), Size: 1, Verification: "Skipped", SourceHash: "hash"}
	oc.Status.Collection = &v2beta2.ImportedCollection{
		Domain: "tests", Name: name + i.home, Version: "1.0.0", APIVersion: model.Group + "/v1minor0patch0", Kinds: []string{"Another"},
	}
	apiserver.Must(t, i.server.Client.Status().Update(t.Context(), oc))
}

func (i *importer) loaded(t *testing.T, s source) *model.Collection {
	t.Helper()
	loaded, err := i.Collections.Load(putArchive(t, i.Collections.Store, s.archive(t)))
	apiserver.Must(t, err)
	apiserver.Must(t, i.Collections.Remove(digest.FromBytes(s.archive(t))))
	return loaded
}

// A collection belongs to the namespace that had it first. Others may import what that has, with the same content.
func TestCollectionOfAnotherNamespace(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	other := i.server.Namespace(t)
	own := i.key
	i.key = client.ObjectKey{Namespace: other, Name: "theirs"}
	forged := i.at("9.9.9")
	apiserver.Must(t, i.server.Client.Create(t.Context(), &v2beta2.OperatorCollection{
		ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: "theirs"},
		Spec:       v2beta2.OperatorCollectionSpec{CollectionURL: i.serve(t, forged), SkipSignatureVerification: true},
	}))
	oc := i.becomes(t, v2beta2.ReasonCollectionClaimed, fmt.Sprintf("belongs to namespace %q", i.home))
	i.write(t)
	if definition := i.definition(t, i.source.kind); oc.Status.Artifact != nil || len(definition.Spec.Versions) != 1 || definition.Annotations[render.AnnotationHeldBy] != own.String() {
		t.Errorf("got %+v, %v", oc.Status, definition.Annotations)
	}
	i.ask(t, i.source)
	if oc := i.awaitImport(t); oc.Status.Collection.Version != "1.0.0" {
		t.Errorf("got %+v", oc.Status)
	}
	i.write(t)
	definition := i.definition(t, i.source.kind)
	if holders := definition.Annotations[render.AnnotationHeldBy]; !strings.Contains(holders, own.String()) || !strings.Contains(holders, i.key.String()) {
		t.Errorf("got %s", holders)
	}
}

// Only what is seen decides, and it is tried again.
func TestImportWithoutAnAnswer(t *testing.T) {
	for _, what := range []string{
		"live list OperatorCollection", "list OperatorCollection", "live list CustomResourceDefinition", "list CustomResourceDefinition",
		"live get CustomResourceDefinition", "patch OperatorCollection", "get CustomResourceDefinition", "live list SubOperatorConfig",
		"create SubOperatorConfig", "status OperatorCollection",
	} {
		t.Run(what, func(t *testing.T) {
			i := newImporter(t)
			i.faults.Set(what, errAway)
			_, err := i.reconcile(t)
			for deadline := time.Now().Add(time.Minute); err == nil && time.Now().Before(deadline); _, err = i.reconcile(t) {
				_, _ = i.definitions.Reconcile(t.Context(), i.id()) // It may fail, too.
			}
			if oc := i.live(t); !errors.Is(err, errAway) || isReady(oc) || len(i.configs(t)) > 0 {
				t.Errorf("got %v, %+v", err, oc.Status.Conditions)
			}
			i.faults.Clear()
			i.installed(t)
		})
	}
	i := newImporter(t)
	i.faults.Set("live get OperatorCollection", errAway)
	if _, err := i.reconcile(t); !errors.Is(err, errAway) || len(i.writes.Take()) > 0 {
		t.Errorf("got %v", err)
	}
}

// Somebody changes the OperatorCollection while it is imported.
func TestImportMeetsAnotherWrite(t *testing.T) {
	i := newImporter(t)
	i.faults.Before("status OperatorCollection", func() {
		i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = i.web.URL + "/another" })
	})
	if oc, err := i.reconcile(t); err != nil || oc.Status.Artifact != nil {
		t.Errorf("the archive of a spec that has changed is recorded: %+v, %v", oc.Status, err)
	}
	i.becomes(t, v2beta2.ReasonArchiveNotFound, "")
}

func TestSuspendedOperatorCollection(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	next := i.serve(t, i.at("1.0.1"))
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.Suspend, oc.Spec.CollectionURL = true, next })
	if oc, err := i.reconcile(t); err != nil || !isReady(oc) || len(i.writes.Take()) > 0 || i.web.asked() > 0 {
		t.Errorf("got %+v, %v", oc.Status, err)
	}
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.Suspend = false })
	if oc := i.awaitImport(t); oc.Status.Collection.Version != "1.0.1" {
		t.Errorf("got %+v", oc.Status)
	}
}

// The manager may lose its volume. What is served meanwhile must be the same.
func TestArchiveThatWasLost(t *testing.T) {
	i := newImporter(t)
	oc := i.installed(t)
	lost := digest.Digest(oc.Status.Artifact.Digest)
	apiserver.Must(t, i.Collections.Remove(lost))
	changed := i.source
	changed.description = "changed"
	i.web.serve("/"+i.source.name+"/1.0.0", changed.archive(t))
	oc = i.becomes(t, v2beta2.ReasonArtifactChanged, "change spec.digest or set spec.interval to accept it")
	if oc.Status.Artifact.Digest != lost.String() || i.isStored(t, digest.FromBytes(changed.archive(t)).String()) {
		t.Errorf("got %+v", oc.Status)
	}
	i.serve(t, i.source)
	if oc := i.becomes(t, v2beta2.ReasonSucceeded, ""); !i.isStored(t, lost.String()) || len(oc.Status.History) != 1 {
		t.Errorf("got %+v", oc.Status)
	}
}

// A backup may have no status. What was imported is recorded in an annotation.
func TestRestoredOperatorCollection(t *testing.T) {
	i := newImporter(t)
	before := i.installed(t)
	oc := i.live(t)
	oc.Status = v2beta2.OperatorCollectionStatus{}
	apiserver.Must(t, i.server.Client.Status().Update(t.Context(), oc))
	changed := i.source
	changed.description = "changed"
	i.web.serve("/"+i.source.name+"/1.0.0", changed.archive(t))
	i.web.asked()
	oc = i.awaitImport(t)
	if oc.Status.Artifact.Digest != before.Status.Artifact.Digest || i.web.asked() > 0 {
		t.Errorf("got %+v", oc.Status.Artifact)
	}
	// Without the archive, what others serve now is not accepted either.
	oc.Status = v2beta2.OperatorCollectionStatus{}
	apiserver.Must(t, i.server.Client.Status().Update(t.Context(), oc))
	apiserver.Must(t, i.Collections.Remove(digest.Digest(before.Status.Artifact.Digest)))
	if oc := i.becomes(t, v2beta2.ReasonArtifactChanged, "remove the annotation"); oc.Status.Artifact != nil {
		t.Errorf("got %+v", oc.Status)
	}
}

func TestSourceIsCheckedAgain(t *testing.T) {
	i := newImporter(t)
	path := "/" + i.source.name + "/1.0.0"
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.Interval = &metav1.Duration{Duration: time.Hour} })
	i.installed(t)
	check := func() { // Each generation of the spec is checked at once.
		i.change(t, func(oc *v2beta2.OperatorCollection) {
			oc.Spec.Interval.Duration += time.Minute
		})
	}
	check()
	result, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key})
	if err != nil || i.web.asked() != 1 || !isReady(i.live(t)) || result.RequeueAfter < 50*time.Minute || result.RequeueAfter > 70*time.Minute {
		t.Errorf("again after %s, %v", result.RequeueAfter, err)
	}
	if _, err := i.reconcile(t); err != nil || i.web.asked() > 0 {
		t.Errorf("it is checked before it is due: %v", err)
	}
	// A read without an answer does not say that the OperatorCollection is gone.
	i.faults.Set("live get OperatorCollection", errAway)
	if _, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key}); !errors.Is(err, errAway) {
		t.Errorf("got %v", err)
	}
	i.faults.Clear()
	if _, err := i.reconcile(t); err != nil || i.web.asked() > 0 {
		t.Errorf("it is checked before it is due, after a failed read: %v", err)
	}

	i.web.set(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	check()
	if oc := i.becomes(t, v2beta2.ReasonSucceeded, ""); len(oc.Status.Warnings) != 1 || !strings.Contains(oc.Status.Warnings[0], "the source check failed, and will be tried again") {
		t.Errorf("got %q", oc.Status.Warnings)
	}
	i.web.serve(path, i.at("0.9.0").archive(t))
	check()
	if oc := i.becomes(t, v2beta2.ReasonArtifactChanged, "only by the same or a newer version"); oc.Status.Collection.Version != "1.0.0" {
		t.Errorf("got %+v", oc.Status.Collection)
	}
	i.web.serve(path, i.at("1.1.0").archive(t))
	check()
	oc := i.awaitImport(t)
	if oc.Status.Collection.Version != "1.1.0" || oc.Status.History[0].By != "interval" || oc.Status.History[1].Outcome != v2beta2.VersionInstalled {
		t.Errorf("got %+v", oc.Status)
	}
}

// Too many downloads at the same time, or reconciles in a namespace, are postponed.
func TestOperatorCollectionsWaitForEachOther(t *testing.T) {
	i := newImporter(t)
	arrived, finish := make(chan struct{}), make(chan struct{})
	content := i.source.archive(t)
	i.web.set("/"+i.source.name+"/1.0.0", func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-finish
		_, _ = w.Write(content)
	})
	ended := make(chan error, 1)
	go func() {
		_, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key})
		ended <- err
	}()
	<-arrived
	i.add(t, "second", i.web.URL+"/second")
	second := client.ObjectKey{Namespace: i.home, Name: "second"}
	_, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: second})
	oc := &v2beta2.OperatorCollection{}
	apiserver.Must(t, i.server.Client.Get(t.Context(), second, oc))
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonProgressing, "waiting for other downloads to end")
	if err == nil {
		t.Error("it is not tried again")
	}
	close(finish)
	apiserver.Must(t, <-ended)
	if _, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: second}); err == nil {
		t.Error("it is not found, and no error")
	}
	apiserver.Must(t, i.server.Client.Get(t.Context(), second, oc))
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonArchiveNotFound, "")
}

// What is gone is forgotten: no budget is held for it.
func TestOperatorCollectionThatIsGone(t *testing.T) {
	i := newImporter(t)
	kindsBudget(t, i)
	i.becomes(t, v2beta2.ReasonBudgetExceeded, "")
	other := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: i.home, Name: "other"}}
	apiserver.Must(t, i.server.Client.Delete(t.Context(), other))
	if _, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(other)}); err != nil {
		t.Errorf("got %v", err)
	}
	i.awaitImport(t)
}

// What the manager that led before has written counts before the cache of this one has it.
func TestImportWaitsForACacheThatIsBehind(t *testing.T) {
	i := newImporter(t)
	other := i.source
	other.description = "another content"
	i.addVersion(t, other)
	i.serve(t, i.source)
	reads := 0
	i.cached = func(list client.ObjectList) {
		if ocs, ok := list.(*v2beta2.OperatorCollectionList); ok && reads < 3 {
			reads++
			ocs.Items = slices.DeleteFunc(ocs.Items, func(oc v2beta2.OperatorCollection) bool { return oc.Namespace == i.home && oc.Name == "other" })
		}
	}
	*i.Imports = imports.Index{Client: i.Imports.Client, Reader: i.Imports.Reader} // It has just begun to lead.
	i.becomes(t, v2beta2.ReasonVersionConflict, `OperatorCollection "other" has version 1.0.0`)
}

// What a manager with such a cache cannot find out does not count against what runs.
func TestImportedStaysWhileTheCacheIsBehind(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	before, index := i.live(t), i.Imports
	i.Imports = &imports.Index{Client: behind{}, Reader: index.Reader}
	if result, err := i.Reconcile(t.Context(), ctrl.Request{NamespacedName: i.key}); err != nil || result.RequeueAfter != intervals.Poll {
		t.Errorf("got %v, %v", result, err)
	}
	if diff := cmp.Diff(before.Status, i.live(t).Status); diff != "" {
		t.Error(diff)
	}
	other := newImporter(t)
	other.Imports = &imports.Index{Client: behind{}, Reader: index.Reader}
	other.serve(t, other.source)
	other.becomes(t, v2beta2.ReasonProgressing, "the manager's cache is behind the API server")
}

// behind is a cache that does not get what was written in time.
type behind struct{ client.Reader }

func (behind) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return context.DeadlineExceeded
}

// unserved answers as an API server that does not serve a kind yet.
type unserved struct {
	next  http.RoundTripper
	kinds string
	isOn  *atomic.Bool
}

func (u unserved) RoundTrip(request *http.Request) (*http.Response, error) {
	if u.isOn.Load() && strings.HasSuffix(request.URL.Path, "/"+u.kinds) {
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Request: request}, nil
	}
	return u.next.RoundTrip(request)
}

// Whoever waits for Imported creates custom resources next.
func TestImportedWaitsUntilKindsAreServed(t *testing.T) {
	i, isOn := newImporter(t), &atomic.Bool{}
	isOn.Store(true)
	config := rest.CopyConfig(i.server.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return unserved{next, strings.ToLower(i.source.kind) + "s", isOn}
	})
	var err error
	i.Metadata, err = metadata.NewForConfig(config)
	apiserver.Must(t, err)
	oc, err := i.reconcile(t)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); oc, err = i.reconcile(t) {
		apiserver.Must(t, err)
		if definition := i.definition(t, i.source.kind); definition != nil && !strings.Contains(oc.Status.Message, "waiting for CRDs") {
			break
		}
		i.write(t)
	}
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionImported, v2beta2.ReasonProgressing, "waiting until the API server serves")
	oc, err = i.reconcile(t)
	apiserver.Must(t, err)
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionImported, v2beta2.ReasonProgressing, "waiting until the API server serves")
	isOn.Store(false)
	i.awaitImport(t)
}
