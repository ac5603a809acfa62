package deliver

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestUpgradeEndsWithTheStatusOfItsVersion(t *testing.T) {
	const old, wanted = "sha256:old", "sha256:wanted"
	state := func(generation int64, digest, upload string, conditions ...metav1.Condition) v2beta2.OperatorCollection {
		return v2beta2.OperatorCollection{Status: v2beta2.OperatorCollectionStatus{
			ObservedGeneration: generation, Artifact: &v2beta2.Artifact{Digest: digest}, ObservedUpload: upload, Conditions: conditions,
		}}
	}
	condition := func(conditionType string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: "because"}
	}
	ready := condition(v2beta2.ConditionReady, metav1.ConditionTrue, "Succeeded")
	progressing := condition(v2beta2.ConditionReady, metav1.ConditionFalse, v2beta2.ReasonProgressing)
	blocked := condition(v2beta2.ConditionReady, metav1.ConditionFalse, v2beta2.ReasonUpgradeBlocked)
	stopped := condition(v2beta2.ConditionReady, metav1.ConditionFalse, v2beta2.ReasonUpgradeStopped)
	stalled := condition(v2beta2.ConditionStalled, metav1.ConditionTrue, "InvalidURL")
	for _, test := range []struct {
		name     string
		oc       v2beta2.OperatorCollection
		uploaded bool
		ends     bool
		result   error
	}{
		{"ready as it was before", state(1, old, "", ready), false, false, nil},
		{"ready with the former archive", state(2, old, "", ready), false, false, nil},
		{"on its way", state(2, wanted, "", progressing), false, false, nil},
		{"ready", state(2, wanted, "", ready), false, true, nil},
		{"no condition", state(2, wanted, ""), false, false, nil},
		{"blocked before", state(1, old, "", blocked), false, false, nil},
		{"blocked", state(2, old, "", blocked), false, true, kit.ErrFindings},
		{"blocked with the CRD written", state(2, wanted, "", progressing, condition(v2beta2.ConditionUpgradeBlocked, metav1.ConditionTrue, v2beta2.ReasonUpgradeBlocked)), false, true, kit.ErrFindings},
		{"stopped", state(2, wanted, "", stopped), false, true, kit.ErrFindings},
		{"stalled", state(2, old, "", progressing, stalled), false, true, kit.ErrFindings},
		{"stalled until the upload is considered", state(2, old, old, progressing, stalled), true, false, nil},
		{"stalled with the upload", state(2, old, wanted, progressing, stalled), true, true, kit.ErrFindings},
		{"uploaded before", state(2, wanted, "", ready), true, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			out := &bytes.Buffer{}
			p := &upgradeProgress{Progress: kube.Progress{Out: out}, digest: wanted, generation: 2, uploaded: test.uploaded}
			if installed, err := p.observe(&test.oc); installed != (test.ends && test.result == nil) || !errors.Is(err, test.result) {
				t.Errorf("installed: %t with %v, want %t with %v", installed, err, test.ends, test.result)
			}
			if test.ends && !strings.HasSuffix(out.String(), ": because\n") {
				t.Errorf("printed %q", out)
			}
		})
	}
	if _, err := (&upgradeProgress{Progress: kube.Progress{Out: &bytes.Buffer{}}}).observe(nil); err == nil {
		t.Error("a deleted OperatorCollection is waited for")
	}
}

func TestDiffWithoutACluster(t *testing.T) {
	for _, flag := range []string{"-A", "--namespace=demo"} {
		if code, _, stderr := tool(t, "diff", clitest.FilesCollection, clitest.FilesCollection, flag); code != kit.ExitFailure || !strings.Contains(stderr, "need --live") {
			t.Errorf("%s: ended with %d: %s", flag, code, stderr)
		}
	}
	if code, _, stderr := tool(t, "upgrade", "files"); code != kit.ExitFailure || !strings.Contains(stderr, `required flag(s) "to"`) {
		t.Errorf("ended with %d: %s", code, stderr)
	}
}
