package diff

import (
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
)

func (c *comparison) kinds() {
	for _, change := range upgrade.Compare(c.was.Collection, c.is.Collection) {
		converted := Change{Area: Kind, Type: change.Type, Subject: change.Kind, Property: change.Property, Old: change.Old, New: change.New,
			Breaking: change.Breaking, Note: change.Note}
		if change.Field != "" {
			converted.Area, converted.Subject = Field, change.Kind+" "+change.Field
		}
		c.add(converted)
	}
	after := index(c.is.Collection.Resources, func(r model.Resource) string { return r.Kind })
	for _, was := range c.was.Collection.Resources {
		is, exists := after[was.Kind]
		if !exists {
			continue
		}
		c.property(Text, was.Kind, "displayName", was.DisplayName, is.DisplayName)
		c.property(Text, was.Kind, "description", was.Description, is.Description)
		c.property(Text, was.Kind, "hideResource", fmt.Sprint(was.Hidden), fmt.Sprint(is.Hidden))
		c.property(Text, was.Kind, "supportsCheckMode", fmt.Sprint(was.SupportsCheckMode), fmt.Sprint(is.SupportsCheckMode))
		c.property(Text, was.Kind, "showDiff", fmt.Sprint(was.ShowDiff), fmt.Sprint(is.ShowDiff))
		c.fieldTexts(was.Kind+" spec", was.Vars, is.Vars)
		c.playbook(was.Kind, "playbook", was.Playbook, is.Playbook)
		c.playbook(was.Kind, "finalizer", was.Finalizer, is.Finalizer)
	}
	if c.sameCollection() {
		c.refusals()
	}
}

// fieldTexts compares what people read of the fields below path.
func (c *comparison) fieldTexts(path string, was, is []model.Var) {
	after := index(is, func(v model.Var) string { return v.Name })
	for _, old := range was {
		v, exists := after[old.Name]
		if !exists {
			continue
		}
		field := path + "." + old.Name
		c.property(Text, field, "displayName", old.DisplayName, v.DisplayName)
		c.property(Text, field, "description", old.Description, v.Description)
		if v.Array {
			field += "[]"
		}
		c.fieldTexts(field, old.Fields, v.Fields)
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

// refusals tells where a cluster refuses the upgrade, since versions of a kind do not go together.
func (c *comparison) refusals() {
	was, errWas := render.CRDs(c.was.Collection, model.Group)
	is, errIs := render.CRDs(c.is.Collection, model.Group)
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
