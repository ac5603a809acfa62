package imports

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

func TestImportRecord(t *testing.T) {
	key := endpoint.Key("key")
	oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: "zos", Name: "files"}}
	oc.Spec = v2beta2.OperatorCollectionSpec{CollectionURL: "https://origin/latest.tar.gz"}
	oc.Status.Artifact = &v2beta2.Artifact{Digest: digest.FromString("archive").String(), SourceHash: SourceHash(&oc.Spec)}
	oc.Status.Collection = &v2beta2.ImportedCollection{Domain: "ibm", Name: "files", Version: "1.0.0-beta.1"}
	record := FormatRecord(oc, key)
	for name, test := range map[string]struct {
		change         func(*v2beta2.OperatorCollection)
		record         string
		known, signed  bool
		ofTheSpecToday bool
	}{
		"restored":                         {func(*v2beta2.OperatorCollection) {}, record, true, true, true},
		"restored into another namespace":  {func(oc *v2beta2.OperatorCollection) { oc.Namespace = "other" }, record, true, false, true},
		"copied to another name":           {func(oc *v2beta2.OperatorCollection) { oc.Name = "other" }, record, true, false, true},
		"restored with another source":     {func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = "https://b" }, record, true, true, false},
		"of the archive of another tenant": {func(*v2beta2.OperatorCollection) {}, strings.Replace(record, digest.FromString("archive").String(), digest.FromString("theirs").String(), 1), true, false, true},
		"without a signature":              {func(*v2beta2.OperatorCollection) {}, record[:strings.LastIndex(record, " ")], false, false, false},
		"a digest alone":                   {func(*v2beta2.OperatorCollection) {}, digest.FromString("archive").String(), false, false, false},
		"none":                             {func(*v2beta2.OperatorCollection) {}, "", false, false, false},
	} {
		restored := oc.DeepCopy()
		restored.Status = v2beta2.OperatorCollectionStatus{}
		restored.Annotations = map[string]string{AnnotationArtifact: test.record}
		test.change(restored)
		got := (&CollectionCache{Key: key}).Imported(restored)
		if (got != nil) != test.known || got != nil && (got.Signed != test.signed || got.IsOf(restored) != test.ofTheSpecToday) {
			t.Errorf("%s: got %+v", name, got)
		}
		if name == "restored" && (got.Artifact.Digest != oc.Status.Artifact.Digest || !cmp.Equal(got.Collection, oc.Status.Collection)) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
