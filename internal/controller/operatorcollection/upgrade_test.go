package operatorcollection

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/preflight"
	"github.com/collection-operator/collection-operator/internal/install/rollout"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
)

func TestNamespacesByDigest(t *testing.T) {
	soc := func(installed ...string) v2beta2.SubOperatorConfig {
		var s v2beta2.SubOperatorConfig
		for i := 0; i < len(installed); i += 2 {
			s.Status.Installations = append(s.Status.Installations, v2beta2.InstallationStatus{Namespace: installed[i], Digest: installed[i+1]})
		}
		return s
	}
	got := namespacesByDigest([]v2beta2.SubOperatorConfig{soc("b", "one", "c", "new", "d", "two"), soc("a", "one"), soc("e", "", "z", "two")}, "new", mapping.Selection{"a", "b", "c", "d", "e"})
	if diff := cmp.Diff(map[digest.Digest][]string{"one": {"a", "b"}, "two": {"d"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestUpgradeWarnings(t *testing.T) {
	report := preflight.Report{
		Resources: 3, Blocked: 1,
		Problems: []upgrade.Problem{{Kind: "Thing", Namespace: "ns", Name: "one", Field: "spec.mode", Message: "must be set", Refused: true}},
	}
	changes := []upgrade.Change{
		{Type: upgrade.Added, Kind: "Other"},
		{Type: upgrade.Changed, Kind: "Thing", Field: "spec.size", Property: "default", Old: "3", New: "5"},
		{Type: upgrade.Removed, Kind: "Thing", Field: "spec.old", Old: "string", Breaking: true},
	}
	want := []string{
		"upgrade to version 2.0.0: it does not fit 1 of 3 custom resources",
		"upgrade to version 2.0.0: Thing ns/one: spec.mode: must be set",
		`upgrade to version 2.0.0: Thing: spec.size: default changed from "3" to "5"`,
		"upgrade to version 2.0.0: Thing: spec.old is removed",
	}
	if diff := cmp.Diff(want, upgradeWarnings("2.0.0", report, append(changes, changes...))); diff != "" {
		t.Error(diff)
	}
	for i := range 50 {
		report.Warnings = append(report.Warnings, upgrade.Problem{Kind: "Thing", Name: fmt.Sprint(i)})
	}
	bounded := upgradeWarnings("2.0.0", report, changes)
	if len(bounded) != maxUpgradeWarnings+1 || bounded[maxUpgradeWarnings] != "upgrade to version 2.0.0: 44 more warnings" {
		t.Errorf("got %d: %q", len(bounded), bounded[len(bounded)-1])
	}
}

// What was found when a version was imported is kept until another one is.
func TestKeepUpgradeWarnings(t *testing.T) {
	c := &model.Collection{Version: semver.MustParse("2.0.0")}
	oc := &v2beta2.OperatorCollection{Status: v2beta2.OperatorCollectionStatus{
		Artifact: &v2beta2.Artifact{Digest: "now"},
		Warnings: []string{"something else", "upgrade to version 1.0.0: old", "upgrade to version 2.0.0: text"},
	}}
	for archive, want := range map[string][]string{"now": {"upgrade to version 2.0.0: text"}, "next": nil} {
		scope := &importScope{collection: c, Archive: intake.Archive{Artifact: &v2beta2.Artifact{Digest: archive}}}
		scope.keepUpgradeWarnings(oc)
		if diff := cmp.Diff(want, scope.upgradeWarnings); diff != "" {
			t.Errorf("%s: %s", archive, diff)
		}
	}
}

const oldArchive, newArchive = "sha256:old", "sha256:new"

func upgradedCollection(upgrade *v2beta2.UpgradeStatus) *v2beta2.OperatorCollection {
	return &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Name: "oc"}, Status: v2beta2.OperatorCollectionStatus{
		Artifact: &v2beta2.Artifact{Digest: newArchive}, Upgrade: upgrade,
		Collection: &v2beta2.ImportedCollection{Domain: "example", Name: "files", Version: "2.0.0"},
	}}
}

func TestInstallationsOf(t *testing.T) {
	config := func(changes ...func(*v2beta2.SubOperatorConfig)) v2beta2.SubOperatorConfig {
		soc := v2beta2.SubOperatorConfig{
			Spec: v2beta2.SubOperatorConfigSpec{Mapping: []v2beta2.NamespaceMapping{{Namespace: "a"}}},
			Status: v2beta2.SubOperatorConfigStatus{
				Collection:    &v2beta2.CollectionReference{Domain: "example", Name: "files"},
				Installations: []v2beta2.InstallationStatus{{Namespace: "a", Digest: oldArchive, Ready: true}},
			},
		}
		for _, change := range changes {
			change(&soc)
		}
		return soc
	}
	installation := func(change func(*v2beta2.InstallationStatus)) func(*v2beta2.SubOperatorConfig) {
		return func(soc *v2beta2.SubOperatorConfig) { change(&soc.Status.Installations[0]) }
	}
	since := metav1.Unix(1000, 0)
	for name, test := range map[string]struct {
		soc  v2beta2.SubOperatorConfig
		want []rollout.Namespace
	}{
		"installed": {config(), []rollout.Namespace{{Name: "a", Digest: oldArchive, Ready: true}}},
		"ready since": {config(installation(func(i *v2beta2.InstallationStatus) { i.ReadySince = &since })),
			[]rollout.Namespace{{Name: "a", Digest: oldArchive, Ready: true, ReadySince: since.Time}}},
		"its pod starts": {config(installation(func(i *v2beta2.InstallationStatus) {
			i.Ready, i.Reason, i.Message = false, v2beta2.ReasonProgressing, "soon"
		})), []rollout.Namespace{{Name: "a", Digest: oldArchive, Message: "soon"}}},
		"its pod fails": {config(installation(func(i *v2beta2.InstallationStatus) {
			i.Ready, i.Reason, i.Message = false, v2beta2.ReasonWorkloadUnavailable, "no image"
		})), []rollout.Namespace{{Name: "a", Digest: oldArchive, NeedsAttention: true, Message: "no image"}}},
		"its custom resources block the version": {config(installation(func(i *v2beta2.InstallationStatus) {
			i.Reason, i.Message = v2beta2.ReasonUpgradeBlocked, "thing/one"
		})), []rollout.Namespace{{Name: "a", Digest: oldArchive, Ready: true, NeedsAttention: true, Message: "thing/one"}}},
		"it waited for its turn": {config(installation(func(i *v2beta2.InstallationStatus) {
			i.Reason, i.Message = v2beta2.ReasonUpgradeStopped, "stopped elsewhere"
		})), []rollout.Namespace{{Name: "a", Digest: oldArchive, Ready: true}}},
		"for the Subscription of a user": {config(installation(func(i *v2beta2.InstallationStatus) { i.Install = v2beta2.InstallOLM })),
			[]rollout.Namespace{{Name: "a", Digest: oldArchive, Ready: true, UserManaged: true}}},
		"for a Subscription of ours": {config(installation(func(i *v2beta2.InstallationStatus) { i.Install = v2beta2.InstallOLM }),
			func(soc *v2beta2.SubOperatorConfig) {
				soc.Status.Inventory = []v2beta2.ObjectReference{{Kind: "Subscription", Namespace: "a", Name: "s"}}
			}), []rollout.Namespace{{Name: "a", Digest: oldArchive, Ready: true}}},
		"another collection":    {config(func(soc *v2beta2.SubOperatorConfig) { soc.Status.Collection.Name = "other" }), nil},
		"nothing is there yet":  {config(installation(func(i *v2beta2.InstallationStatus) { i.Digest = "" })), nil},
		"it is being removed":   {config(installation(func(i *v2beta2.InstallationStatus) { i.RemovalTime = &since })), nil},
		"it is not mapped":      {config(func(soc *v2beta2.SubOperatorConfig) { soc.Spec.Mapping = nil }), nil},
		"its config is deleted": {config(func(soc *v2beta2.SubOperatorConfig) { soc.DeletionTimestamp = &since }), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := (&upgrades{}).installationsOf(upgradedCollection(nil), []v2beta2.SubOperatorConfig{test.soc, test.soc})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// OLM does not go back: the operator is removed before the older version is installed. Until that is there, the namespace goes on.
func TestInstallationsThatAreReplaced(t *testing.T) {
	since := metav1.Unix(1000, 0)
	soc := v2beta2.SubOperatorConfig{
		Spec: v2beta2.SubOperatorConfigSpec{Mapping: []v2beta2.NamespaceMapping{{Namespace: "a"}}},
		Status: v2beta2.SubOperatorConfigStatus{
			Collection: &v2beta2.CollectionReference{Domain: "example", Name: "files"},
			Installations: []v2beta2.InstallationStatus{{
				Namespace: "a", Digest: oldArchive, Install: v2beta2.InstallOLM, RemovalTime: &since, Reason: v2beta2.ReasonTerminating, Message: "soon",
			}},
		},
	}
	oc := upgradedCollection(&v2beta2.UpgradeStatus{Digest: newArchive, Namespaces: []string{"a"}, Total: 1})
	plan := planOf(oc)
	plan.Namespaces = (&upgrades{}).installationsOf(oc, []v2beta2.SubOperatorConfig{soc})
	if diff := cmp.Diff([]rollout.Namespace{{Name: "a", Digest: oldArchive, Message: "soon"}}, plan.Namespaces); diff != "" {
		t.Error(diff)
	}
	if decision := rollout.Next(plan); decision.Over || !cmp.Equal(decision.Began, []string{"a"}) {
		t.Errorf("got %+v", decision)
	}
}

func TestPlanOf(t *testing.T) {
	for name, test := range map[string]struct {
		upgrade *v2beta2.UpgradeStatus
		spec    *v2beta2.UpgradeSpec
		want    rollout.Plan
	}{
		"the first": {want: rollout.Plan{Digest: newArchive, Strategy: rollout.Strategy{MaxUnavailable: 1}}},
		"it goes on": {upgrade: &v2beta2.UpgradeStatus{Digest: newArchive, Namespaces: []string{"a"}}, spec: &v2beta2.UpgradeSpec{},
			want: rollout.Plan{Digest: newArchive, Began: []string{"a"}, Strategy: rollout.Strategy{MaxUnavailable: 1}}},
		"another one": {upgrade: &v2beta2.UpgradeStatus{Digest: oldArchive, Namespaces: []string{"a"}},
			want: rollout.Plan{Digest: newArchive, Interrupted: []string{"a"}, Strategy: rollout.Strategy{MaxUnavailable: 1}}},
		"with a strategy": {
			spec: &v2beta2.UpgradeSpec{Strategy: &v2beta2.UpgradeStrategy{MaxUnavailable: ptr.To[int32](3), Pause: true, HealthyFor: &metav1.Duration{Duration: time.Hour}}},
			want: rollout.Plan{Digest: newArchive, Strategy: rollout.Strategy{MaxUnavailable: 3, Paused: true, HealthyFor: time.Hour}}},
	} {
		t.Run(name, func(t *testing.T) {
			oc := upgradedCollection(test.upgrade)
			oc.Spec.Upgrade = test.spec
			if diff := cmp.Diff(test.want, planOf(oc), cmpopts.IgnoreFields(rollout.Plan{}, "Now", "Interval")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnUpgradeIsDecidedAgainInTime(t *testing.T) {
	failed, stalled := errors.New("failed"), reconcile.TerminalError(errors.New("stalled"))
	again := &importScope{upgrade: &rollout.Decision{Again: 5 * time.Second}}
	for name, test := range map[string]struct {
		scope  *importScope
		result time.Duration
		err    error
		want   time.Duration
		failed bool
	}{
		"no scope":                     {nil, time.Minute, nil, time.Minute, false},
		"only a change matters":        {&importScope{upgrade: &rollout.Decision{}}, time.Minute, nil, time.Minute, false},
		"nothing else":                 {again, 0, nil, 5 * time.Second, false},
		"a manager lacks a copy":       {&importScope{copiesAgain: intervals.Missing}, 0, nil, intervals.Missing, false},
		"later":                        {again, time.Minute, nil, 5 * time.Second, false},
		"sooner":                       {again, time.Second, nil, time.Second, false},
		"an error that is retried":     {again, 0, failed, 0, true},
		"an error that is not retried": {again, 0, stalled, 5 * time.Second, false},
	} {
		got, err := test.scope.atLeast(ctrl.Result{RequeueAfter: test.result}, test.err)
		if got.RequeueAfter != test.want || (err != nil) != test.failed {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
}
