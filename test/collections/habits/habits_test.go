// Package habits holds collections of our own, each in the habits of one family of public z/OS collections.
package habits

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/lint"
)

// Ansible Galaxy has underscores where names in Kubernetes have hyphens. The only habit that deserves a warning is that
// a play names the collection's own group instead of all; what the endpoints have to set is a hint.
func TestCollections(t *testing.T) {
	for folder, want := range map[string]struct {
		identity string
		problems []string
	}{
		"regions": {"habits-lab/zos-regions = habits_lab.zos_regions", []string{
			"operator-config.yaml:14: extension: inventoryName",
			"operator-config.yaml:33: extension: integer",
			"operator-config.yaml:44: unseen-var: value",
			`region.yml:2: hosts-group: "some-host"`,
		}},
		"queues": {"habits-lab/zos-queues = habits_lab.zos_queues", []string{
			"operator-config.yml:45: extension: integer",
			"playbooks/queue.yml:4: undeclared-var: zos_environment",
			"playbooks/queue_manager.yml:5: undeclared-var: zos_environment",
			"roles/endpoint_paths/tasks/main.yml:3: undeclared-var: site",
		}},
	} {
		t.Run(folder, func(t *testing.T) {
			c, _, err := lint.Check(os.DirFS(folder))
			if err != nil {
				t.Fatal(err)
			}
			var problems []string
			for _, p := range c.Problems {
				subject, _, _ := strings.Cut(p.Message, " ")
				problems = append(problems, fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Rule, subject))
			}
			if diff := cmp.Diff(want.problems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			got := c.Domain + "/" + c.Name + " = " + c.Galaxy.Namespace + "." + c.Galaxy.Name
			if diff := cmp.Diff(want.identity, got); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
		})
	}
}
