package upgrade

import (
	"testing"

	"github.com/Masterminds/semver/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func TestIrreversible(t *testing.T) {
	version := func(v string, reversible bool) *model.Collection {
		return &model.Collection{Version: semver.MustParse(v), MigrationReversible: reversible}
	}
	named := func(c *model.Collection) *model.Collection {
		c.Name = "other"
		return c
	}
	migrated := func(to string) map[string]any {
		return map[string]any{"migration": map[string]any{"from": "1.0.0", "to": to, "finished": "2026-11-22T10:00:00Z"}}
	}
	for name, tc := range map[string]struct {
		was    *model.Collection
		is     string
		status map[string]any
		blocks bool
	}{
		"back":                         {version("2.0.0", false), "1.0.0", migrated("2.0.0"), true},
		"back by more than a version":  {version("3.0.0", false), "1.0.0", migrated("2.0.0"), true},
		"back to the version":          {version("3.0.0", false), "2.0.0", migrated("2.0.0"), false},
		"back, reversible":             {version("2.0.0", true), "1.0.0", migrated("2.0.0"), false},
		"forward":                      {version("2.0.0", false), "2.1.0", migrated("2.0.0"), false},
		"forward after a way back":     {version("1.0.0", false), "1.1.0", migrated("2.0.0"), false},
		"of another collection":        {&model.Collection{Name: "old", Version: semver.MustParse("2.0.0")}, "1.0.0", migrated("2.0.0"), false},
		"back, never migrated":         {version("2.0.0", false), "1.0.0", nil, false},
		"back, a field of the author":  {version("2.0.0", false), "1.0.0", map[string]any{"migration": "2.0.0"}, false},
		"back, no version":             {version("2.0.0", false), "1.0.0", migrated("latest"), false},
		"another collection":           {named(version("2.0.0", false)), "1.0.0", migrated("2.0.0"), false},
		"nothing is known of what ran": {nil, "1.0.0", migrated("2.0.0"), false},
	} {
		t.Run(name, func(t *testing.T) {
			resource := &unstructured.Unstructured{Object: map[string]any{"kind": "Thing", "metadata": map[string]any{"namespace": "team", "name": "a"}}}
			if tc.status != nil {
				resource.Object["status"] = tc.status
			}
			j := &Evaluator{was: tc.was, is: version(tc.is, false)}
			problems := j.irreversible(resource)
			if blocks := len(problems) == 1 && problems[0].Blocks(); blocks != tc.blocks || !tc.blocks && len(problems) > 0 {
				t.Errorf("got %v", problems)
			}
		})
	}
}
