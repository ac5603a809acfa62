package suboperatorconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
)

func TestWarningsOfInstallationsAreBounded(t *testing.T) {
	if got := boundWarnings(nil); got != nil {
		t.Errorf("warnings without a cause: %v", got)
	}
	if diff := cmp.Diff([]string{"a", "b"}, boundWarnings([]string{"b", "a", "b"})); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	var many []string
	for i := range upgradecheck.MaxWarnings + 5 {
		many = append(many, string(rune('a'+i)))
	}
	got := boundWarnings(many)
	if len(got) != upgradecheck.MaxWarnings+1 || got[upgradecheck.MaxWarnings] != "5 more warnings" {
		t.Errorf("%d warnings, the last is %q", len(got), got[len(got)-1])
	}
}
