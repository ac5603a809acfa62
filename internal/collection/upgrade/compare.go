// Package upgrade evaluates whether another version of a collection fits what lives: which kinds and fields differ between two
// versions, and what that means for a custom resource that exists.
//
// It is pure: the same input gives the same verdict, in the same order. Going back to an older version is evaluated in the same way.
package upgrade

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// Type says what became of something.
type Type string

// What becomes of things.
const (
	Added   Type = "added"
	Removed Type = "removed"
	Changed Type = "changed"
)

// Change is one difference between the kinds of two versions of a collection.
type Change struct {
	Type Type
	Kind string
	// Field is the path of a field, such as "spec.logs[].dsn", or "" for the kind as a whole.
	Field string
	// Property says what about the field changed, such as "type". It is "" for the field as a whole.
	Property string
	// Old and New are how it was and is. Both may be "".
	Old, New string
	// Breaking says that it can break custom resources, or those who write them.
	Breaking bool
	// Note says what it means and what to do, if that is not plain.
	Note string
}

// Compare returns what changes in the kinds of a collection from was to is, in the order of was.
func Compare(was, is *model.Collection) []Change {
	c := &comparison{}
	kind := func(r model.Resource) string { return r.Kind }
	before, after := index(was.Resources, kind), index(is.Resources, kind)
	for _, old := range was.Resources {
		now, exists := after[old.Kind]
		if !exists {
			c.add(Change{Type: Removed, Kind: old.Kind, Breaking: true, Note: removedKindNote(old)})
			continue
		}
		c.fields(old.Kind, "spec", old.Vars, now.Vars)
	}
	for _, now := range is.Resources {
		if _, existed := before[now.Kind]; !existed {
			c.add(Change{Type: Added, Kind: now.Kind})
		}
	}
	return c.changes
}

// comparison is a Compare under way.
type comparison struct{ changes []Change }

func (c *comparison) add(change Change) { c.changes = append(c.changes, change) }

// index returns items by name.
func index[T any](items []T, name func(T) string) map[string]T {
	m := make(map[string]T, len(items))
	for _, item := range items {
		m[name(item)] = item
	}
	return m
}

func varName(v model.Var) string { return v.Name }

func removedKindNote(r model.Resource) string {
	note := "its custom resources stay, and their CRD with them, but no operator serves them any more: delete them before the upgrade"
	if r.Finalizer != "" {
		note += "; afterwards " + r.Finalizer + " cannot run, and their finalizer must be removed manually"
	}
	return note
}

// fields compares the fields of a kind below path.
func (c *comparison) fields(kind, path string, was, is []model.Var) {
	before, after := index(was, varName), index(is, varName)
	for _, old := range was {
		field := path + "." + old.Name
		v, exists := after[old.Name]
		if !exists {
			c.add(Change{Type: Removed, Kind: kind, Field: field, Old: typeOf(old), Breaking: true,
				Note: "custom resources that set it keep it as long as an older version is served; the new playbooks do not know it"})
			continue
		}
		if typeOf(old) != typeOf(v) {
			c.add(Change{Type: Changed, Kind: kind, Field: field, Property: "type", Old: typeOf(old), New: typeOf(v), Breaking: true})
			continue
		}
		c.constraints(Change{Type: Changed, Kind: kind, Field: field}, old, v)
		if v.Array {
			field += "[]"
		}
		c.fields(kind, field, old.Fields, v.Fields)
	}
	for _, v := range is {
		if _, existed := before[v.Name]; existed {
			continue
		}
		change := Change{Type: Added, Kind: kind, Field: path + "." + v.Name, New: typeOf(v), Breaking: mustBeSet(v)}
		if change.Breaking {
			change.Note = mustBeSetNote
		}
		c.add(change)
	}
}

const (
	mustBeSetNote = "must be set: custom resources without it are refused when their spec changes next; a default avoids this"
	meaningNote   = "the value of custom resources that set it would have another meaning: give the field another name"
)

// constraints compares two fields of the same type.
func (c *comparison) constraints(change Change, was, is model.Var) {
	add := func(property, old, now string, breaking bool, note string) {
		if old == now {
			return
		}
		change.Property, change.Old, change.New, change.Breaking, change.Note = property, old, now, breaking, ""
		if breaking {
			change.Note = note
		}
		c.add(change)
	}
	needed := mustBeSet(is) && !mustBeSet(was)
	add("required", fmt.Sprint(was.Required), fmt.Sprint(is.Required), needed, mustBeSetNote)
	add("default", valueText(was.Default), valueText(is.Default), needed && was.Required == is.Required, mustBeSetNote)
	lost := slices.DeleteFunc(slices.Clone(was.Options), func(o string) bool { return slices.Contains(is.Options, o) })
	note := "no longer allowed: " + strings.Join(lost, ", ")
	if len(was.Options) == 0 {
		note = "any text was allowed before"
	}
	add("options", strings.Join(was.Options, ", "), strings.Join(is.Options, ", "),
		len(is.Options) > 0 && (len(lost) > 0 || len(was.Options) == 0), note)
	add("kindReference", was.KindReference, is.KindReference, true, meaningNote)
}

// mustBeSet says whether a custom resource without the field is refused.
func mustBeSet(v model.Var) bool { return v.Required && v.Default == nil }

func typeOf(v model.Var) string {
	if v.Array {
		return "array of " + string(v.Type)
	}
	return string(v.Type)
}

// valueText is a default as JSON, "" for none.
func valueText(v any) string {
	if v == nil {
		return ""
	}
	text, err := render.JSON(v, "")
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
