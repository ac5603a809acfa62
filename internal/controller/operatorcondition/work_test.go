package operatorcondition

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

const oldArchive, newArchive = "sha256:old", "sha256:new"

// upgradingCluster has version 2.0.0 of one collection, imported a minute ago, and some namespaces in which it is installed.
type upgradingCluster struct {
	oc  v2beta2.OperatorCollection
	soc v2beta2.SubOperatorConfig
}

func newUpgradingCluster(now time.Time, began ...string) *upgradingCluster {
	oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: "zos", Name: "oc"}, Status: v2beta2.OperatorCollectionStatus{
		Artifact:   &v2beta2.Artifact{Digest: newArchive},
		Collection: &v2beta2.ImportedCollection{Domain: "example", Name: "files", Version: "2.0.0"},
		History:    []v2beta2.InstalledVersion{{Digest: newArchive, Time: metav1.NewTime(now.Add(-time.Minute))}},
		Upgrade:    &v2beta2.UpgradeStatus{Digest: newArchive, Total: 3, Namespaces: began, Reason: v2beta2.ReasonUpgradePending},
	}}
	soc := v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: "zos", Name: "soc"}, Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: "oc"},
	}
	for _, namespace := range []string{"a", "b", "c"} {
		soc.Status.Installations = append(soc.Status.Installations, v2beta2.InstallationStatus{Namespace: namespace, Digest: oldArchive, Ready: true})
	}
	return &upgradingCluster{*oc, soc}
}

// starting is an operator that was replaced, and is not available yet.
func (c *upgradingCluster) starting(n int, reason string) {
	i := &c.soc.Status.Installations[n]
	i.Digest, i.Ready, i.Reason = newArchive, false, reason
}

func (c *upgradingCluster) ready(n int, since time.Time) {
	i := &c.soc.Status.Installations[n]
	i.Digest, i.Ready, i.Reason, i.ReadySince = newArchive, true, "", ptr.To(metav1.NewTime(since))
}

func (c *upgradingCluster) migrates(reason string, since time.Time) {
	condition := metav1.Condition{Type: v2beta2.ConditionMigrated, Status: metav1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(since)}
	c.soc.Status.Conditions = []metav1.Condition{condition}
}

func TestManagerUpgradeable(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	const prefix = "the manager is replaced when this is done: "
	const getsVersion = ` gets version 2.0.0 of OperatorCollection "zos/oc"`
	const further = prefix + `further namespaces get version 2.0.0 of OperatorCollection "zos/oc"`
	const removed = prefix + `the operator of SubOperatorConfig "zos/soc" is removed from namespace "b"`
	const migrated = prefix + `custom resources of SubOperatorConfig "zos/soc" are migrated to version 2.0.0`
	remove := func(age time.Duration, reason string) func(*upgradingCluster) {
		return func(c *upgradingCluster) {
			i := &c.soc.Status.Installations[1]
			c.oc.Status.Upgrade = nil
			i.Ready, i.Reason, i.RemovalTime = false, reason, ptr.To(metav1.NewTime(now.Add(-age)))
		}
	}
	strategy := func(s v2beta2.UpgradeStrategy) func(*upgradingCluster) {
		return func(c *upgradingCluster) {
			c.ready(0, now.Add(-time.Second))
			c.oc.Spec.Upgrade = &v2beta2.UpgradeSpec{Strategy: &s}
		}
	}
	for name, test := range map[string]struct {
		change func(*upgradingCluster)
		began  []string
		// want is the message of the condition False, or "" if it is True.
		want  string
		again time.Duration
	}{
		"nothing to do":           {func(c *upgradingCluster) { c.oc.Status.Upgrade = nil }, nil, "", 0},
		"a first installation":    {func(c *upgradingCluster) { c.oc.Status.Upgrade = nil; c.starting(0, v2beta2.ReasonProgressing) }, nil, "", 0},
		"a first one that failed": {func(c *upgradingCluster) { c.oc.Status.Upgrade = nil; c.starting(0, v2beta2.ReasonWorkloadUnavailable) }, nil, "", 0},
		"it begins":               {func(*upgradingCluster) {}, []string{"a"}, prefix + `namespace "a"` + getsVersion, 59 * time.Minute},
		"its pod starts":          {func(c *upgradingCluster) { c.starting(0, v2beta2.ReasonProgressing) }, []string{"a"}, prefix + `namespace "a"` + getsVersion, 59 * time.Minute},
		"two at a time":           {func(*upgradingCluster) {}, []string{"a", "b"}, prefix + `namespace "a"` + getsVersion + `; namespace "b"` + getsVersion, 59 * time.Minute},
		"its pod fails": {func(c *upgradingCluster) {
			c.starting(0, v2beta2.ReasonWorkloadUnavailable)
			c.oc.Status.Upgrade.Reason = v2beta2.ReasonUpgradeStopped
		}, []string{"a"}, "", 0},
		"one fails, another is upgraded": {func(c *upgradingCluster) {
			c.starting(0, v2beta2.ReasonWorkloadUnavailable)
			c.oc.Status.Upgrade.Reason = v2beta2.ReasonUpgradeStopped
			c.starting(1, "")
		}, []string{"a", "b"}, prefix + `namespace "b"` + getsVersion, 59 * time.Minute},
		"resources fail":          {func(c *upgradingCluster) { c.ready(0, now); c.oc.Status.Upgrade.Reason = v2beta2.ReasonUpgradeStopped }, []string{"a"}, "", 0},
		"permissions are missing": {func(c *upgradingCluster) { c.soc.Status.Installations[0].Reason = v2beta2.ReasonPermissionsNotGranted }, []string{"a"}, "", 0},
		"between two namespaces":  {strategy(v2beta2.UpgradeStrategy{}), []string{"a"}, further, time.Hour - time.Second},
		"paused between two":      {strategy(v2beta2.UpgradeStrategy{Pause: true}), []string{"a"}, "", 0},
		"healthy for a time":      {strategy(v2beta2.UpgradeStrategy{HealthyFor: &metav1.Duration{Duration: time.Minute}}), []string{"a"}, "", 0},
		"suspended":               {func(c *upgradingCluster) { c.oc.Spec.Suspend = true }, []string{"a"}, "", 0},
		"being deleted":           {func(c *upgradingCluster) { c.oc.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }, []string{"a"}, "", 0},
		"a user decides": {func(c *upgradingCluster) {
			for i := range c.soc.Status.Installations {
				c.soc.Status.Installations[i].Install = v2beta2.InstallOLM
			}
		}, []string{"a", "b", "c"}, "", 0},
		"a namespace that is not selected": {func(c *upgradingCluster) { c.soc.Status.Installations[0].Namespace = "other" }, []string{"other", "b"}, prefix + `namespace "b"` + getsVersion, 59 * time.Minute},
		"an hour without an end":           {func(c *upgradingCluster) { c.oc.Status.History[0].Time = metav1.NewTime(now.Add(-time.Hour)) }, []string{"a"}, "", 0},
		"many namespaces": {func(c *upgradingCluster) {
			c.oc.Status.History[0].Time = metav1.NewTime(now.Add(-3 * time.Hour))
			c.ready(0, now.Add(-2*time.Minute))
		}, []string{"a", "b"}, prefix + `namespace "b"` + getsVersion, 58 * time.Minute},
		"removal":                   {remove(time.Minute, v2beta2.ReasonTerminating), nil, removed, 59 * time.Minute},
		"removal that begins":       {remove(0, ""), nil, removed, time.Hour},
		"removal that failed":       {remove(time.Minute, v2beta2.ReasonForeignObject), nil, "", 0},
		"removal that does not end": {remove(time.Hour, v2beta2.ReasonTerminating), nil, "", 0},
		"removal of all":            {func(c *upgradingCluster) { remove(0, "")(c); c.soc.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }, nil, removed, time.Hour},
		"migration": {func(c *upgradingCluster) {
			c.oc.Status.Upgrade = nil
			c.ready(0, now.Add(-time.Second))
			c.migrates(v2beta2.ReasonMigrating, now.Add(-time.Hour))
		}, nil, migrated, time.Hour - time.Second},
		"migration that failed": {func(c *upgradingCluster) {
			c.oc.Status.Upgrade = nil
			c.ready(0, now)
			c.migrates(v2beta2.ReasonMigrationFailed, now)
		}, nil, "", 0},
		"migration that does not end": {func(c *upgradingCluster) {
			c.oc.Status.Upgrade = nil
			c.oc.Status.History = nil
			c.ready(0, now.Add(-time.Hour))
			c.migrates(v2beta2.ReasonMigrating, now.Add(-time.Hour))
		}, nil, "", 0},
		"migration before it can begin": {func(c *upgradingCluster) { c.oc.Status.Upgrade = nil; c.migrates(v2beta2.ReasonMigrating, now) }, nil, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newUpgradingCluster(now, test.began...)
			test.change(c)
			selected := mapping.Selection{"zos", "a", "b", "c"}
			got, again := managerUpgradeable([]v2beta2.OperatorCollection{c.oc}, []v2beta2.SubOperatorConfig{c.soc}, selected, now)
			if test.want == "" && got.Status != metav1.ConditionTrue || test.want != "" && (got.Status != metav1.ConditionFalse || got.Message != test.want) {
				t.Errorf("got %s: %s", got.Status, got.Message)
			}
			if got.Type != "Upgradeable" || again != test.again {
				t.Errorf("got %s, again after %s, want %s", got.Type, again, test.again)
			}
		})
	}
}

// Whatever the order in which the cache lists them, the first three are named.
func TestManagerUpgradeableNamesThree(t *testing.T) {
	now := time.Now()
	var ocs []v2beta2.OperatorCollection
	var socs []v2beta2.SubOperatorConfig
	for _, name := range []string{"e", "b", "d", "a", "c"} {
		c := newUpgradingCluster(now, "a")
		c.oc.Name, c.soc.Spec.OperatorCollection = name, name
		ocs, socs = append(ocs, c.oc), append(socs, c.soc)
	}
	got, _ := managerUpgradeable(ocs, socs, nil, now)
	const gets = `namespace "a" gets version 2.0.0 of OperatorCollection "zos/`
	if want := "the manager is replaced when this is done: " + gets + `a"; ` + gets + `b"; ` + gets + `c"; and 2 more`; got.Message != want {
		t.Errorf("got %s", got.Message)
	}
}

// A namespace that waits for its turn is not under way, and one whose turn it is may still say that it waited.
func TestIsUnderWay(t *testing.T) {
	for reason, want := range map[string]bool{
		"": true, v2beta2.ReasonProgressing: true, v2beta2.ReasonTerminating: true, v2beta2.ReasonUpgradePending: true, v2beta2.ReasonUpgradeStopped: true,
		v2beta2.ReasonUpgradeBlocked: false, v2beta2.ReasonWaitingForApproval: false, v2beta2.ReasonDependencyMissing: false, v2beta2.ReasonInstallPlanFailed: false,
	} {
		if got := isUnderWay(v2beta2.InstallationStatus{Reason: reason}); got != want || status.IsProgress(reason) && !got {
			t.Errorf("%q: got %t", reason, got)
		}
	}
}
