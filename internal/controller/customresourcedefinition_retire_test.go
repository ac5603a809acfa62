package controller_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// importMinors imports the versions 1.1.0 to 1.LAST.0, one after the other.
func (i *importer) importMinors(t *testing.T, last int) {
	t.Helper()
	for minor := 1; minor <= last; minor++ {
		i.ask(t, i.at(fmt.Sprintf("1.%d.0", minor)))
		i.awaitImport(t)
	}
	i.install(t)
	_, err := i.reconcile(t)
	apiserver.Must(t, err)
}

func versionOf(definition *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	i := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == name })
	if i < 0 {
		return nil
	}
	return &definition.Spec.Versions[i]
}

// A version that nothing uses is deprecated, then not served, and then removed, once no custom resource is stored in it.
func TestVersionsOfCRDsAreRetired(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	thing := i.resource(t, i.home, "one", map[string]any{})
	const first = "v1minor0patch0"
	i.importMinors(t, crd.NewestKept) // As many are in the history.
	if version := versionOf(i.definition(t, i.source.kind), first); version == nil || version.Deprecated || !version.Served {
		t.Fatalf("it is retired before its time: %+v", version)
	}
	i.definitions.VersionAges = crd.Ages{Retention: time.Nanosecond, Deprecation: time.Nanosecond, Settles: time.Nanosecond}
	i.faults.Set("live list SubOperatorConfig", errAway)
	i.touch(t)
	if _, err := i.definitions.Reconcile(t.Context(), i.id()); !errors.Is(err, errAway) || versionOf(i.definition(t, i.source.kind), first).Deprecated {
		t.Errorf("it is retired although it is not known whether it is used: %v", err)
	}
	i.faults.Clear()
	apiserver.Await(t, "the version is removed", func() bool {
		_, err := i.definitions.Reconcile(t.Context(), i.id())
		apiserver.Must(t, err)
		definition := i.definition(t, i.source.kind)
		if version := versionOf(definition, first); version != nil && !version.Served && slices.Contains(definition.Status.StoredVersions, first) {
			t.Fatal("it is not served, and custom resources are stored in it")
		}
		return versionOf(definition, first) == nil
	})
	if read := i.definition(t, i.source.kind); len(read.Spec.Versions) < crd.NewestKept || slices.Contains(read.Status.StoredVersions, first) {
		t.Errorf("got %d versions, stored %v", len(read.Spec.Versions), read.Status.StoredVersions)
	}
	thing.SetAPIVersion(fmt.Sprintf("%s/v1minor%dpatch0", thing.GroupVersionKind().Group, crd.NewestKept))
	if !i.exists(t, thing) {
		t.Error("the custom resource is gone")
	}
	i.end(t, thing)
}

// touch changes a CRD, so that it is looked at again.
func (i *importer) touch(t *testing.T) {
	t.Helper()
	definition := i.definition(t, i.source.kind)
	definition.Labels["touched"] = "true"
	apiserver.Must(t, i.server.Client.Update(t.Context(), definition))
}
