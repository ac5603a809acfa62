package mapping

import (
	"testing"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestSelection(t *testing.T) {
	for name, test := range map[string]struct {
		selection Selection
		allowed   bool
	}{
		"all":          {nil, true},
		"selected":     {Selection{"a", "zos"}, true},
		"not selected": {Selection{"a"}, false},
	} {
		err := test.selection.Check("zos")
		if (err == nil) != test.allowed || err != nil && status.AsError(err).Reason != v2beta2.ReasonNamespaceNotSelected {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
