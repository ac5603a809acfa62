package suboperatorconfig

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

const oldArchive, newArchive = "sha256:old", "sha256:new"

func TestAwaitTurn(t *testing.T) {
	for name, test := range map[string]struct {
		upgrade         *v2beta2.UpgradeStatus
		reason, message string
	}{
		"nothing is decided": {nil, v2beta2.ReasonUpgradePending, `it is not decided yet which namespace gets version 2.0.0 of OperatorCollection "oc" first`},
		"that was decided for another archive": {&v2beta2.UpgradeStatus{Digest: oldArchive, Namespaces: []string{"a"}},
			v2beta2.ReasonUpgradePending, `it is not decided yet which namespace gets version 2.0.0 of OperatorCollection "oc" first`},
		"another one is first": {&v2beta2.UpgradeStatus{Digest: newArchive, Total: 2, Namespaces: []string{"b"}, Reason: v2beta2.ReasonUpgradeStopped, Message: "stopped at namespace b"},
			v2beta2.ReasonUpgradeStopped, "version 2.0.0 runs in 0 of 2 namespaces; stopped at namespace b"},
		"it is its turn": {&v2beta2.UpgradeStatus{Digest: newArchive, Namespaces: []string{"a", "b"}, Reason: v2beta2.ReasonUpgradePending}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Name: "oc"}, Status: v2beta2.OperatorCollectionStatus{
				Artifact: &v2beta2.Artifact{Digest: newArchive}, Upgrade: test.upgrade,
				Collection: &v2beta2.ImportedCollection{Domain: "example", Name: "files", Version: "2.0.0"},
			}}
			err := status.AsError(awaitTurn(oc, "a"))
			if err == nil {
				if test.reason != "" {
					t.Error("it may begin")
				}
				return
			}
			if err.Reason != test.reason || err.Error() != test.message {
				t.Errorf("got %s: %s", err.Reason, err)
			}
		})
	}
}
