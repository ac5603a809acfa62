package controller

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"golang.org/x/crypto/ssh"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/probe"
)

func TestImportRecord(t *testing.T) {
	key := endpoint.Key("key")
	oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: "zos", Name: "files"}}
	oc.Spec = v2beta2.OperatorCollectionSpec{CollectionURL: "https://origin/latest.tar.gz"}
	oc.Status.Artifact = &v2beta2.Artifact{Digest: digest.FromString("archive").String(), SourceHash: sourceHash(&oc.Spec)}
	oc.Status.Collection = &v2beta2.ImportedCollection{Domain: "ibm", Name: "files", Version: "1.0.0-beta.1"}
	record := formatImportRecord(oc, key)
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
		restored.Annotations = map[string]string{annotationArtifact: test.record}
		test.change(restored)
		got := (&CollectionCache{Key: key}).imported(restored)
		if (got != nil) != test.known || got != nil && (got.signed != test.signed || got.isOf(restored) != test.ofTheSpecToday) {
			t.Errorf("%s: got %+v", name, got)
		}
		if name == "restored" && (got.artifact.Digest != oc.Status.Artifact.Digest || !cmp.Equal(got.collection, oc.Status.Collection)) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestPinned(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	hostKey, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	key := probe.FormatHostKey(hostKey)
	e := &v2beta2.ZosEndpoint{}
	e.Status.HostKeys, e.Status.PinnedFor = []string{key}, "lpar1:22"
	pinned := formatPinned(e)
	for name, test := range map[string]struct {
		text, address string
		want          []string
	}{
		"as it was written": {pinned, "lpar1:22", []string{key}},
		"another address":   {pinned, "lpar1:2022", nil},
		"two":               {pinned + "\n" + pinned, "lpar1:22", []string{key, key}},
		"no key":            {"lpar1:22 text", "lpar1:22", nil},
		"an option":         {"lpar1:22 @cert-authority * " + key, "lpar1:22", nil},
		"many":              {strings.Repeat(pinned+"\n", 100), "lpar1:22", slices.Repeat([]string{key}, maxPinnedKeys)},
		"none":              {"", "lpar1:22", nil},
	} {
		if diff := cmp.Diff(test.want, parsePinned(test.text, test.address)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	e.Spec.HostKeys = []string{key}
	if got := formatPinned(e); got != "" {
		t.Errorf("keys of the spec are recorded: %q", got)
	}
}
