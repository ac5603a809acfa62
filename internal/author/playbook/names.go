package playbook

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/author/playbook/jinja"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// nameReader adds the names of variables that a script defines, needs or mentions.
type nameReader struct {
	*script
	// namesLeft bounds the names of all scripts.
	namesLeft *int
	// unfindable are the beginnings of full names of the collection's own content, if Ansible cannot find it by them.
	unfindable []string
}

// take adds what a text says about variables; with a place, variables that it needs are needed there.
func (r *nameReader) take(w jinja.Usage, place *findings.Problem) {
	if w.Anything {
		r.mayUseMore(findings.Quote(r.file) + " uses variables whose names are known only in a run")
	}
	for _, word := range w.Words {
		r.mentionWord(word)
	}
	for _, ref := range w.References {
		r.mentionWord(ref.Name)
		r.wholeResource(ref.Name, place)
		switch {
		case ref.Tested:
			r.add(&r.tested, ref.Name)
		case ref.Needed && place != nil:
			r.needAt(ref.Name, *place)
		}
	}
}

// takeCondition takes what a condition says. A name that is given a default there counts as tested for: the condition
// may keep the task from running without it.
func (r *nameReader) takeCondition(w jinja.Usage, place findings.Problem) {
	r.take(w, &place)
	for _, ref := range w.References {
		if !ref.Needed {
			r.add(&r.tested, ref.Name)
		}
	}
}

// maxConditionNames bounds the variables of one condition.
const maxConditionNames = 20

// conditional reads one expression or a list of them.
func (r *nameReader) conditional(keyword string, node *yaml.Node) {
	node = resolved(node)
	for _, item := range elementsOf(node) {
		text, ok := textOf(item)
		if !ok {
			continue
		}
		place := r.at(item, keyword)
		if !jinja.IsTemplate(text) {
			r.takeCondition(jinja.ReadExpression(text), place)
			continue
		}
		w := jinja.ReadTemplate(text)
		c := jinja.BracedCondition{Place: place, Keyword: keyword, InList: node.Kind == yaml.SequenceNode, Text: text}
		for _, ref := range w.References {
			if !slices.Contains(c.Names, ref.Name) && len(c.Names) < maxConditionNames {
				c.Names = append(c.Names, ref.Name)
			}
		}
		r.conditions = append(r.conditions, c)
		r.takeCondition(w, place)
	}
}

// need reads a value that is evaluated whenever the task or play runs.
func (r *nameReader) need(node *yaml.Node) { r.evaluate(node, true) }

// mention reads a value that may never be evaluated, or of which a failure does not matter.
func (r *nameReader) mention(node *yaml.Node) { r.evaluate(node, false) }

func (r *nameReader) evaluate(node *yaml.Node, needed bool) {
	node = resolved(node)
	if text, ok := textOf(node); ok && jinja.IsTemplate(text) {
		var place *findings.Problem
		if needed {
			place = new(r.at(node, ""))
		}
		r.take(jinja.ReadTemplate(text), place)
	}
	for _, child := range node.Content {
		r.evaluate(child, needed)
	}
}

// vars reads variables and their values. Values are evaluated only where the variables are used.
func (r *nameReader) vars(node *yaml.Node) {
	node = resolved(node)
	switch node.Kind {
	case yaml.SequenceNode:
		for _, item := range node.Content {
			r.vars(item)
		}
	case yaml.MappingNode:
		for _, e := range entriesOf(node) {
			r.define(e.key)
			r.mention(e.value)
		}
	default:
		r.mention(node)
		r.definesAll = r.definesAll || !isNull(node)
	}
}

func (r *nameReader) mentionKeys(node *yaml.Node) {
	for _, e := range entriesOf(node) {
		r.mentionWord(e.key)
		r.mentionKeys(e.value)
	}
}

// fullName notes the full name of a module, role or playbook that Ansible cannot find.
func (r *nameReader) fullName(name string, place findings.Problem) {
	if len(r.ownNames) < maxOwnNames && slices.ContainsFunc(r.unfindable, func(own string) bool { return strings.HasPrefix(name, own) }) {
		r.ownNames = append(r.ownNames, named{place: place, name: name})
	}
}

// maxOwnNames bounds the names of one file that are kept.
const maxOwnNames = 200

// wholeResource notes the use of a variable that holds a whole resource.
func (r *nameReader) wholeResource(name string, place *findings.Problem) {
	if !isWholeResource(name) || !r.room() {
		return
	}
	if place == nil {
		place = &findings.Problem{File: r.file}
	}
	r.wholeResources = append(r.wholeResources, named{place: *place, name: name})
}

// wholeResource is the variable in which ansible-operator passes a whole resource, which the manager makes empty: unlike the spec, its
// texts would be evaluated as templates.
func isWholeResource(name string) bool {
	group := strings.ReplaceAll(model.Group, ".", "_")
	return strings.HasPrefix(name, "_") && strings.Contains(name, group+"_") && !strings.HasSuffix(name, "_spec")
}

func (r *nameReader) needAt(name string, place findings.Problem) {
	if _, known := r.needed[name]; known || !r.room() {
		return
	}
	if r.needed == nil {
		r.needed = map[string]findings.Problem{}
	}
	r.needed[name] = place
}

func (r *nameReader) mentionWord(word string) { r.add(&r.mentioned, word) }

// define notes that a variable gets a value. One with a template as name may be any.
func (r *nameReader) define(name string) {
	r.definesAll = r.definesAll || jinja.IsTemplate(name)
	r.add(&r.defined, name) // A template is no identifier, and not added.
}

func (r *nameReader) defineText(node *yaml.Node) {
	if text, ok := textOf(node); ok {
		r.define(text)
	}
}

func (r *nameReader) add(set *map[string]bool, name string) {
	if (*set)[name] || !jinja.Identifier.MatchString(name) || !r.room() {
		return
	}
	if *set == nil {
		*set = map[string]bool{}
	}
	(*set)[name] = true
}

// room reports whether another name may be kept. Beyond the bound any name may be used or defined.
func (r *nameReader) room() bool {
	if *r.namesLeft <= 0 {
		r.mayUseMore(tooMuch)
		r.definesAll = true
		return false
	}
	*r.namesLeft--
	return true
}

// at is a place in the file; path is the keyword there.
func (r *nameReader) at(node *yaml.Node, path string) findings.Problem {
	return findings.Problem{File: r.file, Line: node.Line, Column: node.Column, Path: path}
}
