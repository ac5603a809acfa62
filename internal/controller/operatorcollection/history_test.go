package operatorcollection

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
)

// ownedBy is the entry of a field manager that owns fields of the spec, written some minutes after the first.
func ownedBy(manager string, minutes int, fields ...string) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(time.Date(2026, 11, 22, 9, minutes, 0, 0, time.UTC))
	var owned []string
	for _, field := range fields {
		owned = append(owned, fmt.Sprintf("%q:{}", "f:"+field))
	}
	raw := fmt.Sprintf(`{"f:metadata":{"f:labels":{}},"f:spec":{%s}}`, strings.Join(owned, ","))
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Time: &at, FieldsV1: metav1.NewFieldsV1(raw)}
}

// The author of a version is who wrote the part of the spec that asked for it.
func TestAuthorOf(t *testing.T) {
	inStatus := ownedBy("manager", 9, "digest")
	inStatus.Subresource = "status"
	hour := &metav1.Duration{Duration: time.Hour}
	for name, test := range map[string]struct {
		was, is  string
		url      string
		interval *metav1.Duration
		managers []metav1.ManagedFieldsEntry
		want     string
	}{
		"the first import":                      {"", "a-b", "u", nil, []metav1.ManagedFieldsEntry{ownedBy("kubectl-create", 0, "collectionURL", "digest")}, "kubectl-create"},
		"the first import of an upload":         {"", "a-b", "", nil, []metav1.ManagedFieldsEntry{ownedBy("kubectl-create", 0, "digest")}, "kubectl-create"},
		"another URL":                           {"a-b", "c-b", "u", nil, []metav1.ManagedFieldsEntry{ownedBy("argocd", 1, "collectionURL"), ownedBy("kubectl-edit", 2, "digest")}, "argocd"},
		"another digest":                        {"a-b", "a-c", "u", hour, []metav1.ManagedFieldsEntry{ownedBy("argocd", 3, "collectionURL"), ownedBy("kubectl-edit", 2, "digest")}, "kubectl-edit"},
		"both, by two":                          {"a-b", "c-d", "u", nil, []metav1.ManagedFieldsEntry{ownedBy("argocd", 3, "collectionURL"), ownedBy("kubectl-edit", 2, "digest")}, "argocd"},
		"in the second of the creation":         {"a-b", "a-c", "u", nil, []metav1.ManagedFieldsEntry{ownedBy("kubectl-create", 1, "collectionURL", "digest"), ownedBy("kubectl-edit", 1, "digest")}, "kubectl-edit"},
		"a digest that two own":                 {"a-b", "a-c", "u", nil, []metav1.ManagedFieldsEntry{ownedBy("argocd", 1, "digest"), ownedBy("kubectl-edit", 2, "digest")}, "kubectl-edit"},
		"a removed digest":                      {"a-b", "a-c", "u", nil, []metav1.ManagedFieldsEntry{ownedBy("argocd", 1, "collectionURL")}, "argocd"},
		"the source, by spec.interval":          {"a-b", "a-b", "u", hour, []metav1.ManagedFieldsEntry{ownedBy("argocd", 1, "collectionURL")}, "interval"},
		"an upload":                             {"a-b", "a-b", "", nil, []metav1.ManagedFieldsEntry{ownedBy("argocd", 1, "digest")}, "upload"},
		"other fields, and those of the status": {"a-b", "a-c", "u", nil, []metav1.ManagedFieldsEntry{ownedBy("other", 9, "runtime"), inStatus}, ""},
	} {
		oc := &v2beta2.OperatorCollection{}
		oc.Spec.CollectionURL, oc.Spec.Interval, oc.ManagedFields = test.url, test.interval, test.managers
		if test.was != "" {
			oc.Status.Artifact = &v2beta2.Artifact{SourceHash: test.was, Digest: "sha256:1"}
		}
		if got := authorOf(oc, &v2beta2.Artifact{SourceHash: test.is, Digest: "sha256:2"}); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// What an earlier manager has imported gets the author of the spec, whatever brought it.
func TestAuthorOfKnownArchive(t *testing.T) {
	oc := &v2beta2.OperatorCollection{}
	oc.ManagedFields = []metav1.ManagedFieldsEntry{ownedBy("argocd", 1, "collectionURL")}
	oc.Spec.CollectionURL, oc.Spec.Interval = "u", &metav1.Duration{Duration: time.Hour}
	oc.Status.Artifact = &v2beta2.Artifact{SourceHash: "a-b", Digest: "sha256:1"}
	if got := authorOf(oc, oc.Status.Artifact); got != "argocd" {
		t.Errorf("got %q", got)
	}
}

// accept records an archive of 100 bytes as imported.
func accept(oc *v2beta2.OperatorCollection, version string, room *int64) {
	scope := &importScope{
		historyRoom: room, collection: &model.Collection{Version: semver.MustParse(version)},
		Archive: intake.Archive{Accepted: true, Artifact: &v2beta2.Artifact{Digest: "sha256:" + version, Size: 100, SourceHash: "a-" + version}},
	}
	scope.recordVersion(oc)
	oc.Status.Artifact = scope.Artifact
}

func versionsOf(oc *v2beta2.OperatorCollection) string {
	var all []string
	for _, entry := range oc.Status.History {
		all = append(all, entry.Version+" "+string(entry.Outcome))
	}
	return strings.Join(all, ", ")
}

func TestRecordVersion(t *testing.T) {
	oc := &v2beta2.OperatorCollection{}
	expect := func(want string) {
		t.Helper()
		if got := versionsOf(oc); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	ready := func(status metav1.ConditionStatus) {
		oc.Status.Conditions = []metav1.Condition{{Type: v2beta2.ConditionReady, Status: status}}
		settleVersion(&oc.Status)
	}
	accept(oc, "1.0.0", nil)
	ready(metav1.ConditionFalse)
	accept(oc, "1.0.0", nil)
	expect("1.0.0 Installing")
	ready(metav1.ConditionTrue)
	accept(oc, "1.1.0", nil)
	accept(oc, "1.2.0", nil)
	expect("1.2.0 Installing, 1.1.0 Replaced, 1.0.0 Installed")
	accept(oc, "1.0.0", nil)
	expect("1.0.0 Installing, 1.2.0 Replaced, 1.1.0 Replaced, 1.0.0 Installed")
	for i := range 20 {
		accept(oc, fmt.Sprintf("2.0.%d", i), nil)
	}
	if len(oc.Status.History) != 10 || oc.Status.History[0].Version != "2.0.19" || oc.Status.History[9].Version != "2.0.10" {
		t.Errorf("got %s", versionsOf(oc))
	}
	room := int64(200)
	accept(oc, "3.0.0", &room)
	expect("3.0.0 Installing, 2.0.19 Replaced, 2.0.18 Replaced")
	accept(oc, "2.0.19", &room)
	accept(oc, "3.0.0", &room)
	expect("3.0.0 Installing, 2.0.19 Replaced, 3.0.0 Replaced, 2.0.19 Replaced, 2.0.18 Replaced")
	room = -50
	accept(oc, "4.0.0", &room)
	expect("4.0.0 Installing")
}

// What only histories need is what imported archives leave of the budget.
func TestHistoryRoom(t *testing.T) {
	oc := func(namespace, name, imported string, history ...string) v2beta2.OperatorCollection {
		made := v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
		made.Status.Artifact = &v2beta2.Artifact{Digest: imported, Size: 100}
		made.Status.Collection = &v2beta2.ImportedCollection{}
		for _, archive := range history {
			made.Status.History = append(made.Status.History, v2beta2.InstalledVersion{Digest: archive, Size: 100})
		}
		return made
	}
	all := []v2beta2.OperatorCollection{
		oc("one", "own", "a1", "a1", "a0"), oc("one", "other", "b1", "b1", "b0"), oc("two", "third", "b1", "b1", "c0"),
	}
	accepted := &v2beta2.Artifact{Digest: "a2", Size: 100}
	for limit, want := range map[int64]int64{1000: 600, 750: 350, 100: -300} {
		if got := (&Budgets{StoredBytes: limit}).historyRoom(all, &all[0], accepted); got == nil || *got != want {
			t.Errorf("%d: got %v, want %d", limit, got, want)
		}
	}
	if got := (&Budgets{}).historyRoom(all, &all[0], accepted); got != nil {
		t.Errorf("without a budget: got %d", *got)
	}
}
