package controller_test

import (
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestUpgradeAndRollback(t *testing.T) {
	i := newImporter(t)
	first := i.installed(t).Status.Artifact.Digest
	i.ask(t, i.at("1.1.0"))
	oc := i.awaitImport(t)
	second := oc.Status.Artifact.Digest
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonProgressing, `SubOperatorConfig "gadgets-soc" has version 1.0.0, and is being upgraded`)
	if upgrade := oc.Status.Upgrade; upgrade == nil || upgrade.Digest != second || upgrade.Total != 1 || len(upgrade.Namespaces) != 1 || upgrade.Namespaces[0] != i.home {
		t.Errorf("got %+v", upgrade)
	}
	if history := oc.Status.History; len(history) != 2 || history[0].Version != "1.1.0" || history[0].Outcome != v2beta2.VersionInstalling || history[0].By != "user" {
		t.Errorf("got %+v", history)
	}
	if definition := i.definition(t, i.source.kind); len(definition.Spec.Versions) != 2 || definition.Spec.Versions[0].Name != "v1minor1patch0" || !definition.Spec.Versions[0].Storage {
		t.Errorf("got %+v", definition.Spec.Versions)
	}
	if oc := i.installed(t); oc.Status.Upgrade != nil || oc.Status.History[0].Outcome != v2beta2.VersionInstalled {
		t.Errorf("got %+v", oc.Status)
	}

	// The former version comes from the store, whatever the URL serves.
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.Digest = first })
	oc = i.awaitImport(t)
	if oc.Status.Artifact.Digest != first || oc.Status.History[0].Digest != first || i.web.asked() > 0 || oc.Status.Upgrade == nil {
		t.Errorf("got %+v", oc.Status)
	}
	i.installed(t)
	if !i.isStored(t, first) || !i.isStored(t, second) {
		t.Error("an archive of the history is not stored any more")
	}
	// A damaged one is not installed.
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.Digest = digest.FromString("none").String() })
	if oc := i.becomes(t, v2beta2.ReasonDigestMismatch, ""); oc.Status.Artifact.Digest != first {
		t.Errorf("got %+v", oc.Status.Artifact)
	}
}

// Who runs in several namespaces gets a version in one after the other.
func TestUpgradeOfSeveralNamespaces(t *testing.T) {
	i := newImporter(t)
	i.awaitImport(t)
	soc := i.configs(t)[0]
	other := i.server.Namespace(t)
	soc.Spec.Mapping = append(soc.Spec.Mapping, v2beta2.NamespaceMapping{Namespace: other})
	apiserver.Must(t, i.server.Client.Update(t.Context(), &soc))
	i.installed(t)
	i.ask(t, i.at("1.1.0"))
	oc := i.awaitImport(t)
	expectCondition(t, oc.Status.Conditions, v2beta2.ConditionReady, v2beta2.ReasonUpgradePending, "version 1.1.0 runs in 0 of 2 namespaces")
	if len(oc.Status.Upgrade.Namespaces) != 1 || oc.Status.Upgrade.Total != 2 {
		t.Fatalf("got %+v", oc.Status.Upgrade)
	}
	begun := oc.Status.Upgrade.Namespaces[0]
	i.runs(t, begun, oc.Status.Artifact.Digest)
	oc, err := i.reconcile(t)
	apiserver.Must(t, err)
	if len(oc.Status.Upgrade.Namespaces) != 2 || oc.Status.Upgrade.Upgraded != 1 {
		t.Errorf("got %+v", oc.Status.Upgrade)
	}
	// It is told once all have it.
	if oc := i.installed(t); oc.Status.Upgrade != nil {
		t.Errorf("got %+v", oc.Status.Upgrade)
	}

	i.change(t, func(oc *v2beta2.OperatorCollection) {
		oc.Spec.Upgrade = &v2beta2.UpgradeSpec{Strategy: &v2beta2.UpgradeStrategy{Pause: true}}
	})
	i.ask(t, i.at("1.2.0"))
	if oc := i.awaitImport(t); len(oc.Status.Upgrade.Namespaces) > 0 || isReady(oc) {
		t.Errorf("it is paused: %+v", oc.Status.Upgrade)
	}
}

// runs writes that an archive is installed in a namespace.
func (i *importer) runs(t *testing.T, namespace, archive string) {
	t.Helper()
	soc := i.configs(t)[0]
	for k := range soc.Status.Installations {
		if installation := &soc.Status.Installations[k]; installation.Namespace == namespace {
			installation.Digest = archive
		}
	}
	apiserver.Must(t, i.server.Client.Status().Update(t.Context(), &soc))
}

// narrowed returns a collection whose field mode has two values, and its next version, which has one.
func (i *importer) narrowed() (was, is source) {
	was = i.source
	was.vars = "{name: mode, displayName: Mode, type: string, options: [a, b]}"
	is = was
	is.version, is.vars = "2.0.0", "{name: mode, displayName: Mode, type: string, options: [a]}"
	return was, is
}

func TestUpgradeThatCustomResourcesDoNotFit(t *testing.T) {
	i := newImporter(t)
	was, is := i.narrowed()
	i.ask(t, was)
	former := i.installed(t)
	bad := i.resource(t, i.home, "bad", map[string]any{"mode": "b"})
	i.ask(t, is)
	oc := i.becomes(t, v2beta2.ReasonUpgradeBlocked, "does not fit 1 of 1 custom resources")
	expectBlocked := func(oc *v2beta2.OperatorCollection) {
		t.Helper()
		blocked := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionUpgradeBlocked)
		if blocked == nil || blocked.Status != metav1.ConditionTrue || !strings.Contains(blocked.Message, i.source.kind+" "+i.home+"/bad") {
			t.Errorf("got %+v", blocked)
		}
	}
	expectBlocked(oc)
	if oc.Status.Artifact.Digest != former.Status.Artifact.Digest || i.web.asked() != 1 {
		t.Errorf("got %+v", oc.Status)
	}
	i.writes.Take()
	if oc := i.becomes(t, v2beta2.ReasonUpgradeBlocked, ""); i.web.asked() > 0 || len(i.writes.Take()) > 0 {
		t.Errorf("nothing has changed: %+v", oc.Status)
	}
	if i.write(t); len(i.definition(t, i.source.kind).Spec.Versions) != 1 {
		t.Error("the CRD has the version")
	}
	blocked := digest.FromBytes(is.archive(t)).String()
	if !i.isStored(t, blocked) {
		t.Error("the archive is fetched with each attempt")
	}
	// What cannot be read does not fit either, and what was blocked stays so.
	i.faults.Set("live list "+i.source.kind, errAway)
	if oc, err := i.reconcile(t); err == nil || oc.Status.Artifact.Digest != former.Status.Artifact.Digest {
		t.Errorf("got %v, %+v", err, oc.Status)
	} else {
		expectBlocked(oc)
	}
	i.faults.Clear()
	i.becomes(t, v2beta2.ReasonUpgradeBlocked, "")

	// Going back removes it.
	url := i.serve(t, was)
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = url })
	oc = i.becomes(t, v2beta2.ReasonSucceeded, "")
	if meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionUpgradeBlocked) != nil || i.isStored(t, blocked) {
		t.Errorf("got %+v", oc.Status.Conditions)
	}

	i.ask(t, is)
	i.change(t, func(oc *v2beta2.OperatorCollection) {
		oc.Spec.Upgrade = &v2beta2.UpgradeSpec{Policy: v2beta2.UpgradeAllowBreaking}
	})
	oc = i.awaitImport(t)
	if oc.Status.Artifact.Digest != blocked || len(oc.Status.Warnings) == 0 || !strings.Contains(oc.Status.Warnings[0], "upgrade to version 2.0.0: it does not fit 1 of 1") {
		t.Errorf("got %+v", oc.Status)
	}
	i.end(t, bad)
}
