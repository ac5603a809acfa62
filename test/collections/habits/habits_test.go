// Package habits holds collections of our own, each in the habits of one family of public z/OS collections.
package habits

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/collection"
)

// Ansible Galaxy has underscores where names in Kubernetes have hyphens, and none of these habits deserves a warning.
func TestCollections(t *testing.T) {
	for folder, want := range map[string]string{
		"regions": "habits-lab/zos-regions = habits_lab.zos_regions",
		"queues":  "habits-lab/zos-queues = habits_lab.zos_queues",
	} {
		t.Run(folder, func(t *testing.T) {
			c, err := collection.Load(os.DirFS(folder))
			if err != nil {
				t.Fatal(err)
			}
			if findings := c.Problems.Findings(); len(findings) > 0 {
				t.Errorf("problems:\n%v", findings)
			}
			got := c.Domain + "/" + c.Name + " = " + c.Galaxy.Namespace + "." + c.Galaxy.Name
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("identity (-want +got):\n%s", diff)
			}
		})
	}
}
