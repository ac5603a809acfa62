package diff

import "fmt"

// migrations tells of the playbook that brings custom resources to the version.
func (c *comparison) migrations() {
	was, is := c.was.Collection, c.is.Collection
	c.property(Identity, "migrationReversible", "", fmt.Sprint(was.MigrationReversible), fmt.Sprint(is.MigrationReversible))
	change := Change{Area: Playbook, Type: Changed, Subject: "migrationPlaybook", Old: was.MigrationPlaybook, New: is.MigrationPlaybook}
	switch {
	case change.New == "" && change.Old == "":
		return
	case change.New == "":
		change.Type, change.Note = Removed, "custom resources that were not migrated yet are not migrated any more"
	case is.Version.GreaterThan(was.Version):
		change.Note = "it runs once for each custom resource that an older version managed, before anything else runs for it"
		if change.Old == "" {
			change.Type = Added
		}
	case change.Old == change.New && c.was.Files[change.Old] == c.is.Files[change.New]:
		return
	}
	c.add(change)
}
