package diff

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/explain"
)

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
