package lint_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/lint"
)

// What other brokers may not know is hinted at, and nothing that the specification has.
func TestExtensionsAreHintedAt(t *testing.T) {
	content := config + `    supportsCheckMode: true
    hideResource: false
    vars:
      - {name: a, displayName: A, type: integer, default: 1}
      - {name: b, displayName: B, type: integer, default: 1}
provider: Acme
inventoryName:
`
	_, problems, err := lint.Check(folder(map[string]string{"operator-config.yml": content}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		if p.Rule == "extension" {
			got = append(got, p.String())
		}
	}
	want := []string{
		"operator-config.yml:8:24: resources[0].supportsCheckMode: info: supportsCheckMode is not in the Operator Collection Specification: other brokers may ignore it",
		"operator-config.yml:11:41: resources[0].vars[0].type: info: integer is not in the Operator Collection Specification: other brokers may refuse it; number is the type that all know",
		"operator-config.yml:13:11: provider: info: provider is not in the Operator Collection Specification: other brokers may ignore it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
}
