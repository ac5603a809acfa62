package diff

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/crd"
	"github.com/collection-operator/collection-operator/internal/explain"
	"github.com/collection-operator/collection-operator/internal/render"
)

func (c *comparison) kinds() {
	kind := func(r collection.Resource) string { return r.Kind }
	before, after := index(c.was.Collection.Resources, kind), index(c.is.Collection.Resources, kind)
	for _, was := range c.was.Collection.Resources {
		is, exists := after[was.Kind]
		if !exists {
			c.add(Change{Area: Kind, Type: Removed, Subject: was.Kind, Breaking: true, Note: removedKindNote(was)})
			continue
		}
		c.property(Text, was.Kind, "displayName", was.DisplayName, is.DisplayName)
		c.property(Text, was.Kind, "description", was.Description, is.Description)
		c.property(Text, was.Kind, "hideResource", fmt.Sprint(was.Hidden), fmt.Sprint(is.Hidden))
		c.property(Text, was.Kind, "supportsCheckMode", fmt.Sprint(was.SupportsCheckMode), fmt.Sprint(is.SupportsCheckMode))
		c.fields(was.Kind, "spec", was.Vars, is.Vars)
		c.playbook(was.Kind, "playbook", was.Playbook, is.Playbook)
		c.playbook(was.Kind, "finalizer", was.Finalizer, is.Finalizer)
	}
	for _, is := range c.is.Collection.Resources {
		if _, existed := before[is.Kind]; !existed {
			c.add(Change{Area: Kind, Type: Added, Subject: is.Kind})
		}
	}
	if c.sameCollection() {
		c.refusals()
	}
}

// index returns items by name.
func index[T any](items []T, name func(T) string) map[string]T {
	m := make(map[string]T, len(items))
	for _, item := range items {
		m[name(item)] = item
	}
	return m
}

func removedKindNote(r collection.Resource) string {
	note := "its custom resources stay, and their CRD with them, but no operator serves them any more: delete them before the upgrade"
	if r.Finalizer != "" {
		note += "; afterwards " + r.Finalizer + " cannot run, and their finalizer must be removed manually"
	}
	return note
}

// refusals tells where a cluster refuses the upgrade, since versions of a kind do not go together.
func (c *comparison) refusals() {
	was, errWas := render.CRDs(c.was.Collection, collection.Group)
	is, errIs := render.CRDs(c.is.Collection, collection.Group)
	if errWas != nil || errIs != nil {
		return // One of them cannot be rendered, which a cluster says whatever the other is.
	}
	after := index(is, func(crd *apiextensionsv1.CustomResourceDefinition) string { return crd.Name })
	for _, live := range was {
		wanted, exists := after[live.Name]
		if !exists {
			continue
		}
		if note := c.refusal(live, wanted); note != "" {
			c.add(Change{Area: Kind, Type: Changed, Subject: live.Spec.Names.Kind, Breaking: true, Note: note})
		}
	}
}

// refusal is "" unless the cluster refuses a CRD in the place of the one that is live.
func (c *comparison) refusal(live, wanted *apiextensionsv1.CustomResourceDefinition) string {
	was, is := &live.Spec.Versions[0], &wanted.Spec.Versions[0]
	if was.Name == is.Name {
		problem := crd.Tightened(was.Schema.OpenAPIV3Schema, is.Schema.OpenAPIV3Schema)
		if problem == "" {
			return ""
		}
		return "the cluster refuses this with reason SchemaConflict while there are custom resources: in version " + is.Name + " " + problem
	}
	_, err := crd.Merge(live, []crd.Contribution{{Version: c.is.Collection.Version, CRD: wanted}})
	var conflict *crd.Error
	if errors.As(err, &conflict) && conflict.Reason == v2beta2.ReasonSchemaConflict {
		return "the cluster refuses this with reason SchemaConflict: " + conflict.Error()
	}
	return ""
}

// fields compares the fields of a kind below path.
func (c *comparison) fields(kind, path string, was, is []collection.Var) {
	name := func(v collection.Var) string { return v.Name }
	before, after := index(was, name), index(is, name)
	for _, old := range was {
		field := path + "." + old.Name
		subject := kind + " " + field
		v, exists := after[old.Name]
		if !exists {
			c.add(Change{Area: Field, Type: Removed, Subject: subject, Old: typeOf(old), Breaking: true,
				Note: "custom resources that set it keep it as long as an older version is served; the new playbooks do not know it"})
			continue
		}
		c.property(Text, subject, "displayName", old.DisplayName, v.DisplayName)
		c.property(Text, subject, "description", old.Description, v.Description)
		if typeOf(old) != typeOf(v) {
			c.add(Change{Area: Field, Type: Changed, Subject: subject, Property: "type", Old: typeOf(old), New: typeOf(v), Breaking: true})
			continue
		}
		c.constraints(subject, old, v)
		if v.Array {
			field += "[]"
		}
		c.fields(kind, field, old.Fields, v.Fields)
	}
	for _, v := range is {
		if _, existed := before[v.Name]; existed {
			continue
		}
		change := Change{Area: Field, Type: Added, Subject: kind + " " + path + "." + v.Name, New: typeOf(v), Breaking: mustBeSet(v)}
		if change.Breaking {
			change.Note = mustBeSetNote
		}
		c.add(change)
	}
}

const mustBeSetNote = "must be set: custom resources without it are refused when their spec changes next; a default avoids this"

// constraints compares two fields of the same type.
func (c *comparison) constraints(subject string, was, is collection.Var) {
	add := func(property, old, now string, breaking bool, note string) {
		if old == now {
			return
		}
		change := Change{Area: Field, Type: Changed, Subject: subject, Property: property, Old: old, New: now, Breaking: breaking}
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
	add("kindReference", was.KindReference, is.KindReference, false, "")
}

// mustBeSet says whether a custom resource without the field is refused. A switch has a default in any case.
func mustBeSet(v collection.Var) bool {
	return v.Required && v.Default == nil && (v.Type != collection.Boolean || v.Array)
}

func typeOf(v collection.Var) string {
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
	return explain.JSON(v)
}

func (c *comparison) playbook(kind, property, was, is string) {
	change := Change{Area: Playbook, Type: Changed, Subject: kind, Property: property, Old: was, New: is}
	switch {
	case was == "" && is == "":
		return
	case was == "":
		change.Type = Added
	case is == "":
		change.Type, change.Breaking = Removed, true
		change.Note = "deleting a custom resource runs nothing any more: what it made on z/OS stays there"
	case c.was.Files[was] == c.is.Files[is] && was == is:
		return
	case was == is:
		change.Note = "its content changed"
	case c.was.Files[was] == c.is.Files[is]:
		change.Note = "with the same content"
	}
	c.add(change)
}
