package operatorcollection

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/replica"
)

func TestAwaitReplicas(t *testing.T) {
	const lacking, unresponsive = `pod "a" does not have it`, `pod "b" does not answer`
	lacks, silent := replica.Missing{Pod: "a"}, replica.Missing{Pod: "b", Unresponsive: true}
	for name, tt := range map[string]struct {
		missing           []replica.Missing
		accepted          time.Duration
		isImported, isNew bool
		warning           string
		awaited, reports  string
	}{
		"all have it":                             {},
		"one lacks it":                            {missing: []replica.Missing{lacks}, accepted: time.Minute, awaited: lacking},
		"one has lacked it for long":              {missing: []replica.Missing{lacks}, accepted: time.Hour, reports: lacking},
		"one does not answer":                     {missing: []replica.Missing{silent}, awaited: unresponsive},
		"one does not answer for long":            {missing: []replica.Missing{lacks, silent}, accepted: time.Minute, awaited: lacking, reports: unresponsive},
		"one has lost it":                         {missing: []replica.Missing{lacks}, isImported: true, reports: lacking},
		"one that had it starts":                  {missing: []replica.Missing{silent}, isImported: true},
		"one that never had it does not answer":   {missing: []replica.Missing{silent}, isImported: true, warning: missingCopy + unresponsive, reports: unresponsive},
		"one that lacked it does not answer":      {missing: []replica.Missing{silent}, isImported: true, warning: missingCopy + `pod "b" does not have it`, reports: unresponsive},
		"one does not answer, another lacked it":  {missing: []replica.Missing{silent}, isImported: true, warning: missingCopy + lacking},
		"one lacks what replaces another archive": {missing: []replica.Missing{lacks}, isImported: true, isNew: true, awaited: lacking},
	} {
		t.Run(name, func(t *testing.T) {
			oc := &v2beta2.OperatorCollection{}
			oc.Status.History = []v2beta2.InstalledVersion{{Digest: "sha256:x", Time: metav1.NewTime(time.Now().Add(-tt.accepted))}}
			oc.Status.Warnings = []string{tt.warning}
			if tt.isImported {
				oc.Status.Artifact = &v2beta2.Artifact{Digest: "sha256:x"}
				oc.Status.Conditions = []metav1.Condition{{Type: v2beta2.ConditionImported, Status: metav1.ConditionTrue}}
			}
			scope := &importScope{Archive: intake.Archive{Artifact: &v2beta2.Artifact{Digest: "sha256:x"}}}
			if tt.isNew {
				scope.Installed = time.Now()
			}
			scope.keepCopyWarnings(oc)
			scope.setMissing(oc, tt.missing)
			err := awaitReplicas(t.Context(), oc, scope)
			if strings.Join(scope.missingCopies, ", ") != tt.reports || scope.imported != (tt.awaited == "") {
				t.Errorf("reported: %q, imported: %t", scope.missingCopies, scope.imported)
			}
			if isSoon := scope.copiesAgain <= intervals.Missing; scope.copiesAgain == 0 || isSoon != (tt.reports != "") {
				t.Errorf("asked again after %s", scope.copiesAgain)
			}
			if f := status.AsError(err); (f != nil) != (tt.awaited != "") || f != nil && (f.Reason != v2beta2.ReasonReplicating || !strings.HasSuffix(f.Error(), ": "+tt.awaited)) {
				t.Errorf("got %v", err)
			}
		})
	}
}
