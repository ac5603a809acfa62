package diff

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/explain"
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

// sameCollection says whether the new side takes the place of the old one: it is the same collection, or replaces it.
func (c *comparison) sameCollection() bool {
	return c.was.Collection.ID() == c.is.Collection.ID() || c.is.Collection.Replaces == c.was.Collection.ID()
}

var titles = map[Area]string{
	Identity: "Collection", Kind: "Kinds", Field: "Fields", Playbook: "Playbooks", Permission: "Permissions",
	Dependency: "Dependencies", Content: "Other content", Text: "Texts",
}

var signs = map[Type]string{Added: "+", Removed: "-", Changed: "~"}

// Report is the changes as text for people: those that can break something begin with an exclamation mark, and what is
// added, removed or changed with +, - or ~.
func Report(changes []Change) string {
	p := &explain.Page{}
	if len(changes) == 0 {
		p.Text(0, "No differences.")
		return p.String()
	}
	area := Area("")
	for _, change := range changes {
		if change.Area != area {
			area = change.Area
			p.Title(titles[area])
		}
		mark := " "
		if change.Breaking {
			mark = "!"
		}
		p.Row(0, 4, mark+" "+signs[change.Type], change.text())
		p.Text(8, change.Note)
	}
	p.Blank()
	if breaking := Breaking(changes); breaking > 0 {
		p.Text(0, fmt.Sprintf("%d of %d changes can break something (!).", breaking, len(changes)))
	} else {
		p.Text(0, fmt.Sprintf("%d changes, none of which is known to break something.", len(changes)))
	}
	return p.String()
}

func (c Change) text() string {
	text := c.Subject
	if c.Property != "" {
		text += ": " + c.Property
	}
	switch {
	case c.Area == Text:
		return text // A description may be pages long.
	case c.Old == c.New:
		return strings.TrimSpace(text + " " + c.New)
	case c.Type == Changed:
		return fmt.Sprintf("%s %s -> %s", text, cmp.Or(c.Old, "none"), cmp.Or(c.New, "none"))
	}
	separator := ": "
	if c.Property != "" {
		separator = " "
	}
	return strings.TrimSuffix(text+separator+c.Old+c.New, separator)
}
