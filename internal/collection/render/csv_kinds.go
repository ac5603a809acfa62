package render

import (
	"cmp"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Descriptors with which a console selects the widget of a field.
const (
	descriptorText       = "urn:alm:descriptor:com.tectonic.ui:text"
	descriptorNumber     = "urn:alm:descriptor:com.tectonic.ui:number"
	descriptorCheckbox   = "urn:alm:descriptor:com.tectonic.ui:checkbox" // A booleanSwitch says "true" while it is off.
	descriptorResource   = "urn:alm:descriptor:io.kubernetes:"
	descriptorStatusText = "urn:alm:descriptor:text"
	descriptorPhase      = "urn:alm:descriptor:io.kubernetes.phase"
	descriptorConditions = "urn:alm:descriptor:io.kubernetes.conditions"
)

func ownedKinds(c *model.Collection, o ClusterServiceVersionOptions) []operatorsv1alpha1.CRDDescription {
	owned := make([]operatorsv1alpha1.CRDDescription, 0, len(c.Resources))
	for _, r := range c.Resources {
		displayName := line(firstOf(r.DisplayName, r.Kind), maxName)
		owned = append(owned, operatorsv1alpha1.CRDDescription{
			Name: r.Plural() + "." + o.Group, Kind: r.Kind, Version: c.APIVersion(),
			DisplayName: displayName, Description: cmp.Or(text(r.Description, maxHelp), displayName),
			Resources:         usedResources(r),
			SpecDescriptors:   specDescriptors(c, r, o),
			StatusDescriptors: statusDescriptors(),
		})
	}
	return owned
}

// usedResources returns the kinds of objects that an instance requires. Objects that its playbook creates are unknown.
func usedResources(r model.Resource) []operatorsv1alpha1.APIResourceReference {
	used := []operatorsv1alpha1.APIResourceReference{
		{Name: "zosendpoints." + v2beta2.GroupVersion.Group, Kind: model.EndpointKind, Version: v2beta2.GroupVersion.Version},
	}
	if r.UsesPasswords() {
		used = append(used, operatorsv1alpha1.APIResourceReference{Kind: "Secret", Version: "v1"})
	}
	return used
}

// specDescriptors returns the descriptors in the order of the form: the endpoint, then the variables in the author's order.
func specDescriptors(c *model.Collection, r model.Resource, o ClusterServiceVersionOptions) []operatorsv1alpha1.SpecDescriptor {
	descriptors := []operatorsv1alpha1.SpecDescriptor{{
		Path: EndpointField, DisplayName: endpointTitle, Description: endpointDescription,
		XDescriptors: []string{endpointDescriptor()},
	}}
	for _, v := range r.Vars {
		descriptors = append(descriptors, varDescriptors(c, v, v.Name, o)...)
	}
	return descriptors
}

// varDescriptors returns the descriptors of a variable at a path below spec, and of its elements or members.
func varDescriptors(c *model.Collection, v model.Var, path string, o ClusterServiceVersionOptions) []operatorsv1alpha1.SpecDescriptor {
	descriptor := operatorsv1alpha1.SpecDescriptor{
		Path: path, DisplayName: line(firstOf(v.DisplayName, v.Name), maxName), Description: text(v.Description, maxHelp),
	}
	switch {
	case v.Array:
		element := v
		element.Array, element.Description = false, ""
		return append([]operatorsv1alpha1.SpecDescriptor{descriptor}, varDescriptors(c, element, path+"[0]", o)...)
	case v.Type == model.Object:
		descriptors := []operatorsv1alpha1.SpecDescriptor{descriptor}
		for _, field := range v.Fields {
			descriptors = append(descriptors, varDescriptors(c, field, path+"."+field.Name, o)...)
		}
		return descriptors
	}
	if widget := widget(c, v, o); widget != "" {
		descriptor.XDescriptors = []string{widget}
	}
	return []operatorsv1alpha1.SpecDescriptor{descriptor}
}

// widget returns the descriptor of a single value, or "" if the schema is sufficient.
func widget(c *model.Collection, v model.Var, o ClusterServiceVersionOptions) string {
	switch v.Type {
	case model.Number, model.Integer:
		return descriptorNumber
	case model.Boolean:
		return descriptorCheckbox
	case model.Password:
		// A list of the Secrets in the namespace.
		return descriptorResource + "Secret"
	}
	if len(v.Options) > 0 {
		// The console shows the enum as a list.
		return ""
	}
	if reference := kindDescriptor(c, v.KindReference, o); reference != "" {
		return reference
	}
	return descriptorText
}

// kindDescriptor returns the descriptor for a list of the instances of a kind, or "" if the cluster does not serve the kind.
func kindDescriptor(c *model.Collection, kind string, o ClusterServiceVersionOptions) string {
	served := o.ServedKinds[kind]
	if _, own := c.Resource(kind); own {
		served = schema.GroupVersion{Group: o.Group, Version: c.APIVersion()}
	}
	switch {
	case !served.Empty():
		return descriptorResource + served.Group + ":" + served.Version + ":" + kind
	case kind == model.EndpointKind:
		return endpointDescriptor()
	}
	return ""
}

func endpointDescriptor() string {
	return descriptorResource + v2beta2.GroupVersion.Group + ":" + v2beta2.GroupVersion.Version + ":" + model.EndpointKind
}

// statusDescriptors returns the descriptors of fields in statusSchema.
func statusDescriptors() []operatorsv1alpha1.StatusDescriptor {
	return []operatorsv1alpha1.StatusDescriptor{
		{Path: "phase", DisplayName: "Phase", Description: "State of the resource.", XDescriptors: []string{descriptorPhase}},
		{Path: "message", DisplayName: "Message", Description: "Explanation of the phase.", XDescriptors: []string{descriptorStatusText}},
		{Path: "lastRun.started", DisplayName: "Last run", Description: "Time at which the playbook was last started.", XDescriptors: []string{descriptorStatusText}},
		{Path: "lastRun.outcome", DisplayName: "Outcome", Description: "Outcome of the last run.", XDescriptors: []string{descriptorStatusText}},
		{Path: "conditions", DisplayName: "Conditions", Description: conditionsDescription, XDescriptors: []string{descriptorConditions}},
	}
}
