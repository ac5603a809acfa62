package findings

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Mapping is a YAML mapping with text keys.
type Mapping struct {
	Value
	Keys   []string
	Fields map[string]Value
}

// Mapping reads a mapping. A key given twice is an error; "<<" merges as YAML 1.1 says. ok is false, and the reason
// reported, if the value is none.
func (v Value) Mapping() (m Mapping, ok bool) {
	m = Mapping{Value: v, Fields: map[string]Value{}}
	if v.Node == nil || v.Node.Kind != yaml.MappingNode {
		v.Report(ruleType, "must be a mapping of keys to values, not %s", v.What())
		return m, false
	}
	var merges []Value
	for i := 0; i+1 < len(v.Node.Content); i += 2 {
		key, node := v.Node.Content[i], v.Node.Content[i+1]
		if key.ShortTag() == "!!merge" {
			merges = append(merges, v.child(v.Path, key, node))
			continue
		}
		keyValue := Value{r: v.r, File: v.File, Path: v.Path, at: key, Node: key}
		if key.Kind == yaml.AliasNode {
			keyValue.Node = key.Alias
		}
		name, ok := keyValue.Scalar()
		if !ok {
			keyValue.Report(ruleType, "a key must be a text, not %s", keyValue.What())
			continue
		}
		if first, twice := m.Fields[name]; twice {
			keyValue.Report(ruleDuplicateKey, "key %s is given twice, first in line %d; keep one", Quote(name), first.at.Line)
			continue
		}
		m.add(name, v.child(JoinPath(v.Path, name), ValuePlace(key, node), node))
	}
	m.merge(merges)
	return m, true
}

// Keyed is mapping for a value that may be something else, which is not reported.
func (v Value) Keyed() (Mapping, bool) {
	if v.Node == nil || v.Node.Kind != yaml.MappingNode {
		return Mapping{}, false
	}
	return v.Mapping()
}

func (m *Mapping) add(name string, field Value) {
	m.Keys = append(m.Keys, name)
	m.Fields[name] = field
}

func (m *Mapping) merge(sources []Value) {
	for _, source := range sources {
		if source.Node != nil && source.Node.Kind == yaml.SequenceNode {
			m.merge(source.List())
			continue
		}
		merged, ok := source.Mapping()
		if !ok {
			continue
		}
		for _, name := range merged.Keys {
			if _, set := m.Fields[name]; !set {
				m.add(name, merged.Fields[name])
			}
		}
	}
}

// Get returns a field; an absent one is reported at the mapping.
func (m Mapping) Get(name string) Value {
	if field, ok := m.Fields[name]; ok {
		return field
	}
	return Value{r: m.r, File: m.File, Path: JoinPath(m.Path, name), at: m.at}
}

// WarnUnknown warns about the keys that nothing reads.
func (m Mapping) WarnUnknown(known ...string) {
	m.reportUnknown(ruleUnknownKey, "unknown key, ignored", known)
}

// RefuseUnknown reports the keys that nothing reads as problems of a rule.
func (m Mapping) RefuseUnknown(rule Rule, known ...string) {
	m.reportUnknown(rule, "unknown key", known)
}

func (m Mapping) reportUnknown(rule Rule, message string, known []string) {
	for _, key := range m.Keys {
		if slices.Contains(known, key) {
			continue
		}
		place := m.Fields[key].Place()
		if m.r.Keeps(rule) {
			if near := nearest(key, known); near != "" {
				place.Fix = m.renamed(key, m.meant(key, known))
				m.r.Report(place, rule, "%s; did you mean %s?", message, near)
				continue
			}
		}
		m.r.Report(place, rule, "%s", message)
	}
}

// meant is the known name that an unknown key means, "" if another unknown key means it too, or there are too many to compare.
func (m Mapping) meant(key string, known []string) string {
	if len(m.Keys) > maxCompared {
		return ""
	}
	name := Meant(key, known)
	for _, other := range m.Keys {
		if other != key && !slices.Contains(known, other) && Meant(other, known) == name {
			return ""
		}
	}
	return name
}

// renamed is the fix that gives a key another name: none for a key that is merged from elsewhere, and if the name is taken.
func (m Mapping) renamed(key, name string) Fix {
	if _, taken := m.Fields[name]; taken || name == "" {
		return Fix{}
	}
	for i := 0; i+1 < len(m.Node.Content); i += 2 {
		if node := m.Node.Content[i]; node.Kind == yaml.ScalarNode && node.Value == key {
			return Fix{Line: node.Line, Column: node.Column, Old: key, New: name}
		}
	}
	return Fix{}
}

// maxCompared bounds the keys of a mapping that are compared with each other.
const maxCompared = 100

// nearest is the known key that is likely meant by another one: at most a third of it differs. "" if there is none.
func nearest(key string, known []string) string {
	if len(key) > MaxQuoted {
		return ""
	}
	best, least := "", len(key)/3+1
	for _, k := range known {
		if d := distance(strings.ToLower(key), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// Meant is the only known name that a misspelt one can mean, "" if that is not certain: beside capitals, - and _ one character
// differs, of long names two, and of all other known names more.
func Meant(name string, known []string) string {
	bare := func(s string) string { return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(s)) }
	most := 0
	switch n := len(bare(name)); {
	case n > MaxQuoted:
		return ""
	case n >= 8:
		most = 2
	case n >= 3:
		most = 1
	}
	best, least := "", most+1
	for _, k := range known {
		switch d := distance(bare(name), bare(k)); {
		case d < least:
			best, least = k, d
		case d == least || d <= most:
			return ""
		}
	}
	return best
}

// distance is how many characters one must insert, remove or replace to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
