package suboperatorconfig

import (
	"context"
	"testing"
	"time"

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
			err := status.AsError((&Reconciler{}).awaitTurn(context.Background(), &configScope{oc: oc}, "a"))
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

func TestReadySince(t *testing.T) {
	past := metav1.Unix(1000, 0)
	ready := &v2beta2.InstallationStatus{Digest: newArchive, Ready: true, ReadySince: &past}
	for name, test := range map[string]struct {
		was, is *v2beta2.InstallationStatus
		want    *metav1.Time // Nil and a time that is not past are now.
	}{
		"still":                   {ready, &v2beta2.InstallationStatus{Digest: newArchive, Ready: true}, &past},
		"with another archive":    {ready, &v2beta2.InstallationStatus{Digest: oldArchive, Ready: true}, nil},
		"again":                   {&v2beta2.InstallationStatus{Digest: newArchive}, &v2beta2.InstallationStatus{Digest: newArchive, Ready: true}, nil},
		"for the first time":      {nil, &v2beta2.InstallationStatus{Digest: newArchive, Ready: true}, nil},
		"since before it counted": {&v2beta2.InstallationStatus{Digest: newArchive, Ready: true}, &v2beta2.InstallationStatus{Digest: newArchive, Ready: true}, nil},
	} {
		got := readySince(test.was, test.is)
		if got == nil || test.want != nil && !got.Equal(test.want) || test.want == nil && time.Since(got.Time) > time.Minute {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if got := readySince(ready, &v2beta2.InstallationStatus{Digest: newArchive}); got != nil {
		t.Errorf("not ready since %v", got)
	}
}
