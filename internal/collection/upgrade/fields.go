package upgrade

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// fieldRule is what one field was and is.
type fieldRule struct {
	was model.Var
	// A field that is not declared any more has nil here.
	is *model.Var
	// former and present are what the API server sets if the field is absent, nil for nothing.
	former, present any
	// members are those of an object, or of the elements of an array of objects.
	members []fieldRule
}

// fieldRules compares the fields of an object. The schemas are those of the object; isSchema is nil if it is not declared any more.
func fieldRules(was, is []model.Var, wasSchema, isSchema *schema.Structural) []fieldRule {
	former, present := defaultsOf(wasSchema), defaultsOf(isSchema)
	after := index(is, varName)
	rules := make([]fieldRule, 0, len(was))
	for _, v := range was {
		rule := fieldRule{was: v, former: former[v.Name]}
		if now, exists := after[v.Name]; exists {
			rule.is, rule.present = &now, present[v.Name]
			rule.members = fieldRules(v.Fields, now.Fields, member(wasSchema, v.Name), member(isSchema, v.Name))
		}
		rules = append(rules, rule)
	}
	return rules
}

// defaultsOf returns the fields that the API server sets in an empty object.
func defaultsOf(object *schema.Structural) map[string]any {
	defaults := map[string]any{}
	if object != nil {
		defaulting.Default(defaults, object)
	}
	return defaults
}

// member returns the schema of a field of an object, or of its elements if it is an array.
func member(object *schema.Structural, name string) *schema.Structural {
	if object == nil {
		return nil
	}
	property, ok := object.Properties[name]
	if !ok {
		return nil
	}
	if property.Items != nil {
		return property.Items
	}
	return &property
}

// usage collects what becomes of the fields that a custom resource sets.
type usage struct {
	version  string
	problems []Problem
}

func (u *usage) add(p Problem) { u.problems = append(u.problems, p) }

// fields evaluates the fields of an object. AtDefault says that the whole object is as the former version sets it.
func (u *usage) fields(path string, values map[string]any, rules []fieldRule, atDefault bool) {
	for _, rule := range rules {
		field, value := path+"."+rule.was.Name, values[rule.was.Name]
		if value == nil {
			u.absent(field, rule)
			continue
		}
		same := atDefault || rule.former != nil && equal(value, rule.former)
		switch {
		case rule.is == nil:
			u.undeclared(field, value, same)
		case otherMeaning(rule.was, *rule.is):
			u.meaning(field, value, rule)
		default:
			u.formerDefault(field, value, rule)
			u.members(field, value, rule, same)
		}
	}
}

func (u *usage) members(path string, value any, rule fieldRule, atDefault bool) {
	if len(rule.members) == 0 {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		u.fields(path, value, rule.members, atDefault)
	case []any:
		for i, element := range value {
			if object, ok := element.(map[string]any); ok {
				u.fields(fmt.Sprintf("%s[%d]", path, i), object, rule.members, atDefault)
			}
		}
	}
}

func (u *usage) absent(field string, rule fieldRule) {
	if rule.is != nil && rule.former == nil && rule.present != nil {
		u.add(Problem{Field: field, Message: fmt.Sprintf("is not set, and version %s sets it to %s", u.version, valueText(rule.present))})
	}
}

func (u *usage) undeclared(field string, value any, atDefault bool) {
	message := "is not declared by version " + u.version
	if atDefault || empty(value) {
		u.add(Problem{Field: field, Message: message + "; it is empty or has the former default"})
		return
	}
	u.add(Problem{Field: field, Ignored: true, Message: message + ", whose playbooks would ignore it"})
}

func (u *usage) meaning(field string, value any, rule fieldRule) {
	if empty(value) {
		return
	}
	u.add(Problem{Field: field, MeaningChanged: true,
		Message: fmt.Sprintf("is %s, and version %s takes it for %s", meaningOf(rule.was), u.version, meaningOf(*rule.is))})
}

// formerDefault tells of a field that keeps a default which is another one now.
func (u *usage) formerDefault(field string, value any, rule fieldRule) {
	if rule.former == nil || len(rule.members) > 0 || !equal(value, rule.former) || rule.present != nil && equal(rule.present, rule.former) {
		return
	}
	now := "has none"
	if rule.present != nil {
		now = "has " + valueText(rule.present)
	}
	u.add(Problem{Field: field, Message: fmt.Sprintf("keeps the former default %s; version %s %s", valueText(rule.former), u.version, now)})
}

// otherMeaning says whether the same value means something else.
func otherMeaning(was, is model.Var) bool {
	if was.Array != is.Array {
		return false // The CRDs do not go together.
	}
	return was.Type == model.Password && is.Type == model.String || was.Type == model.String && is.Type == model.Password ||
		was.KindReference != is.KindReference
}

func meaningOf(v model.Var) string {
	switch {
	case v.Type == model.Password:
		return "the name of a Secret"
	case v.KindReference != "":
		return "the name of a " + v.KindReference
	}
	return "text"
}

// empty says whether a value says nothing: no text, no elements, or members that are all empty.
func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(value)), func(member any) bool { return !empty(member) })
	}
	return false
}

// equal compares values as JSON: a number may have been read as an integer or not.
func equal(a, b any) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}
