package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/render"
)

// checkPublished refuses other content for a version that is served already, if it would make custom resources invalid
// or cost them a field.
func (p *crdPlanner) checkPublished(ctx context.Context, live, merged *apiextensionsv1.CustomResourceDefinition, wanted []render.Contribution) error {
	for _, contributed := range wanted {
		version := contributed.CRD.Spec.Versions[0].Name
		digest := live.Annotations[annotationDigest+version]
		if digest == "" || digest == contributed.CRD.Annotations[annotationDigest+version] {
			continue
		}
		problem := tightened(schemaOf(live, version), schemaOf(merged, version), "")
		if problem == "" {
			continue
		}
		items, err := (&instances{reader: p.reader}).listOf(ctx, live, "")
		if err != nil {
			return err
		}
		if len(items) > 0 {
			return waiting(v2beta2.ReasonSchemaConflict, missingInterval,
				"CRD %q: version %s was published before with other content, and now %s: publish this archive under another version, or delete these custom resources first: %s",
				live.Name, version, problem, describe(items))
		}
	}
	return nil
}

func schemaOf(crd *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.JSONSchemaProps {
	for i := range crd.Spec.Versions {
		if v := &crd.Spec.Versions[i]; v.Name == version && v.Schema != nil && v.Schema.OpenAPIV3Schema != nil {
			return v.Schema.OpenAPIV3Schema
		}
	}
	return &apiextensionsv1.JSONSchemaProps{}
}

// tightened says what of an object that was valid is not any more, or is lost. It is empty if nothing is.
func tightened(was, is *apiextensionsv1.JSONSchemaProps, path string) string {
	if was.Type != is.Type {
		return fmt.Sprintf("%s is %s instead of %s", path, is.Type, was.Type)
	}
	if len(is.Enum) > 0 && (len(was.Enum) == 0 || slices.ContainsFunc(was.Enum, func(value apiextensionsv1.JSON) bool {
		return !slices.ContainsFunc(is.Enum, func(other apiextensionsv1.JSON) bool { return string(other.Raw) == string(value.Raw) })
	})) {
		return path + " takes fewer values"
	}
	for _, name := range is.Required {
		if !slices.Contains(was.Required, name) {
			return join(path, name) + " is required"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.Properties)) {
		before := was.Properties[name]
		after, ok := is.Properties[name]
		if !ok {
			return join(path, name) + " is missing"
		}
		if problem := tightened(&before, &after, join(path, name)); problem != "" {
			return problem
		}
	}
	if was.Items != nil && is.Items != nil && was.Items.Schema != nil && is.Items.Schema != nil {
		return tightened(was.Items.Schema, is.Items.Schema, path+"[]")
	}
	return ""
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
