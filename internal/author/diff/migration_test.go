package diff

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMigrationPlaybooks(t *testing.T) {
	at := func(version, keys, playbook string) Side {
		files := baseFiles()
		files["operator-config.yml"] = strings.Replace(operatorConfig, "version: 1.2.0\n", "version: "+version+"\n"+keys, 1)
		files["playbooks/migrate.yml"] = playbook
		return side(t, files)
	}
	const has, empty, other = "migrationPlaybook: playbooks/migrate.yml\n", "- {hosts: all, tasks: []}\n", "- {hosts: all, tasks: [debug: ]}\n"
	for name, tc := range map[string]struct {
		was, is Side
		want    []string
		note    string
	}{
		"the same":        {at("1.2.0", has, empty), at("1.2.0", has, empty), nil, ""},
		"added":           {at("1.2.0", "", empty), at("1.3.0", has, empty), []string{" + playbook migrationPlaybook: playbooks/migrate.yml"}, "runs once for each custom resource"},
		"in both":         {at("1.2.0", has, empty), at("1.3.0", has, empty), []string{" ~ playbook migrationPlaybook playbooks/migrate.yml"}, "runs once for each custom resource"},
		"older, the same": {at("1.2.0", has, empty), at("1.1.0", has, empty), []string{"!~ collection version 1.2.0 -> 1.1.0"}, ""},
		"removed":         {at("1.2.0", has, empty), at("1.3.0", "", empty), []string{" - playbook migrationPlaybook: playbooks/migrate.yml"}, "not migrated any more"},
		"changed": {at("1.2.0", has, empty), at("1.2.0", has, other), []string{
			"!~ collection version 1.2.0", " ~ playbook migrationPlaybook playbooks/migrate.yml"}, ""},
		"reversible": {at("1.2.0", "", empty), at("1.3.0", "migrationReversible: true\n", empty), []string{" ~ collection migrationReversible false -> true"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			changes := Compare(tc.was, tc.is)
			if diff := cmp.Diff(tc.want, lines(changes)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if tc.note != "" && !strings.Contains(changes[len(changes)-1].Note, tc.note) {
				t.Errorf("note %q", changes[len(changes)-1].Note)
			}
		})
	}
}
