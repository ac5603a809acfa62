// Package diff says what changes when one archive of a collection takes the place of another, and what of it can break
// what works now.
//
// It is pure: the same archives give the same changes, in the same order.
package diff

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Compare returns what changes from was to is, by area.
func Compare(was, is Side) []Change {
	c := &comparison{was: was, is: is}
	c.identity()
	c.texts()
	c.kinds()
	c.migrations()
	c.permissions()
	c.dependencies()
	c.content()
	c.version()
	slices.SortStableFunc(c.changes, func(a, b Change) int { return slices.Index(areas, a.Area) - slices.Index(areas, b.Area) })
	return c.changes
}

func (c *comparison) identity() {
	was, is := c.was.Collection, c.is.Collection
	change := Change{Area: Identity, Type: Changed, Subject: "domain and name", Old: was.ID().String(), New: is.ID().String()}
	switch {
	case is.Replaces == was.ID():
		change.Note = "the new collection replaces the old one: in the namespace that the old one belongs to, it takes over the kinds that both have, and their custom resources"
		c.add(change)
	case !c.sameCollection():
		change.Breaking, change.Note = true, "these are two collections: the new one upgrades nothing, and a cluster has it beside the old one"
		c.add(change)
	}
	c.property(Identity, "API version", "", was.APIVersion(), is.APIVersion())
	c.property(Identity, "name for Ansible", "", was.Galaxy.Namespace+"."+was.Galaxy.Name, is.Galaxy.Namespace+"."+is.Galaxy.Name)
	c.property(Identity, "inventoryName", "", was.InventoryName, is.InventoryName)
}

// version tells of a version that changes, or that does not though its content does. It comes after all others.
func (c *comparison) version() {
	was, is := c.was.Collection, c.is.Collection
	change := Change{Area: Identity, Type: Changed, Subject: "version", Old: was.Version.Original(), New: is.Version.Original()}
	if change.Old == change.New && len(c.changes) == 0 {
		return
	}
	switch order := is.Version.Compare(was.Version); {
	case order < 0:
		change.Breaking, change.Note = true, "a downgrade: custom resources keep being stored as the newer version, and the older playbooks run"
	case was.APIVersion() == is.APIVersion():
		change.Breaking, change.Note = true, "the content changed and "+is.APIVersion()+" stays the name of the version: publish it under another version"
	}
	c.changes = slices.Insert(c.changes, 0, change)
}

// texts compares what people read.
func (c *comparison) texts() {
	was, is := c.was.Collection, c.is.Collection
	for _, text := range []struct{ name, was, is string }{
		{"displayName", was.DisplayName, is.DisplayName},
		{"description", was.Description, is.Description},
		{"provider", was.Provider, is.Provider},
		{"capabilities", was.Capabilities, is.Capabilities},
		{"categories", strings.Join(was.Categories, ", "), strings.Join(is.Categories, ", ")},
		{"description in Galaxy", was.Galaxy.Description, is.Galaxy.Description},
		{"authors", strings.Join(was.Galaxy.Authors, ", "), strings.Join(is.Galaxy.Authors, ", ")},
		{"license", strings.Join(was.Galaxy.License, ", "), strings.Join(is.Galaxy.License, ", ")},
		{"tags", strings.Join(was.Galaxy.Tags, ", "), strings.Join(is.Galaxy.Tags, ", ")},
		{"documentation", was.Galaxy.Documentation, is.Galaxy.Documentation},
		{"homepage", was.Galaxy.Homepage, is.Galaxy.Homepage},
		{"repository", was.Galaxy.Repository, is.Galaxy.Repository},
		{"issues", was.Galaxy.Issues, is.Galaxy.Issues},
	} {
		c.property(Text, text.name, "", text.was, text.is)
	}
	if !slices.Equal(was.Icons, is.Icons) {
		c.add(Change{Area: Text, Type: Changed, Subject: "icon"})
	}
}

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

// content compares the bytes of files, by folder, but of those whose meaning was compared before.
func (c *comparison) content() {
	known := map[string]bool{"MANIFEST.json": true, "FILES.json": true, "operator-config.yml": true, "operator-config.yaml": true}
	for _, side := range []Side{c.was, c.is} {
		known[side.Collection.MigrationPlaybook] = true
		for _, r := range side.Collection.Resources {
			known[r.Playbook], known[r.Finalizer] = true, true
		}
	}
	counts := map[string]map[Type]int{}
	count := func(file string, t Type) {
		if known[file] {
			return
		}
		folder := partOf(file)
		if counts[folder] == nil {
			counts[folder] = map[Type]int{}
		}
		counts[folder][t]++
	}
	for file, sum := range c.was.Files {
		switch other, exists := c.is.Files[file]; {
		case !exists:
			count(file, Removed)
		case other != sum:
			count(file, Changed)
		}
	}
	for file := range c.is.Files {
		if _, existed := c.was.Files[file]; !existed {
			count(file, Added)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(counts)) {
		c.add(Change{Area: Content, Type: Changed, Subject: folder, Note: describeCounts(counts[folder])})
	}
}

func describeCounts(counts map[Type]int) string {
	var parts []string
	for _, t := range []Type{Changed, Added, Removed} {
		if n := counts[t]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, t))
		}
	}
	return "files: " + strings.Join(parts, ", ")
}

// partOf names the part of a collection that a file belongs to: its role, else its folder, as far as two levels down.
func partOf(file string) string {
	folders := strings.Split(file, "/")
	folders = folders[:len(folders)-1]
	if len(folders) == 0 {
		return file
	}
	if i := slices.Index(folders, "roles"); i >= 0 && i+1 < len(folders) {
		return strings.Join(folders[:i+2], "/")
	}
	return strings.Join(folders[:min(len(folders), 2)], "/")
}
