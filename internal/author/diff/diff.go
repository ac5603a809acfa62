// Package diff says what changes when one archive of a collection takes the place of another, and what of it can break
// what works now.
//
// It is pure: the same archives give the same changes, in the same order.
package diff

import (
	"maps"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
)

// Side is one of the two archives.
type Side struct {
	Collection *model.Collection
	// Files are the checksums of all files by path.
	Files map[string]string
}

// Type says what became of something.
type Type = upgrade.Type

// What becomes of things.
const (
	Added   = upgrade.Added
	Removed = upgrade.Removed
	Changed = upgrade.Changed
)

// Area is the part of a collection that changes.
type Area string

// The areas, in the order in which Compare returns their changes.
const (
	Identity   Area = "collection"
	Kind       Area = "kind"
	Field      Area = "field"
	Playbook   Area = "playbook"
	Permission Area = "permission"
	Dependency Area = "dependency"
	Content    Area = "content"
	Text       Area = "text"
)

var areas = []Area{Identity, Kind, Field, Playbook, Permission, Dependency, Content, Text}

// Change is one difference.
type Change struct {
	Area Area `json:"area"`
	Type Type `json:"type"`
	// Subject is what changed: a kind ("DataFile"), a field ("DataFile spec.size"), a folder.
	Subject string `json:"subject"`
	// Property says what about the subject changed, such as "type". It is "" for the subject as a whole.
	Property string `json:"property,omitempty"`
	// Old and New are how it was and is. Both may be "".
	Old string `json:"old,omitempty"`
	New string `json:"new,omitempty"`
	// Breaking says that custom resources, or those who write them, may have to change, or that the cluster refuses.
	Breaking bool `json:"breaking"`
	// Note says what it means and what to do, if that is not plain.
	Note string `json:"note,omitempty"`
}

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

// Breaking counts the changes that can break something.
func Breaking(changes []Change) int {
	count := 0
	for _, change := range changes {
		if change.Breaking {
			count++
		}
	}
	return count
}

// comparison is a Compare under way.
type comparison struct {
	was, is Side
	changes []Change
}

func (c *comparison) add(change Change) { c.changes = append(c.changes, change) }

// property adds a change of a property that is not the same on both sides, with old and new text.
func (c *comparison) property(area Area, subject, name, was, is string) {
	if was != is {
		c.add(Change{Area: area, Type: Changed, Subject: subject, Property: name, Old: was, New: is})
	}
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

// sameCollection says whether the new side takes the place of the old one: it is the same collection, or replaces it.
func (c *comparison) sameCollection() bool {
	return c.was.Collection.ID() == c.is.Collection.ID() || c.is.Collection.Replaces == c.was.Collection.ID()
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
