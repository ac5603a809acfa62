package controller

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/instances"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// checkPublished refuses other content for a version that is served already, if it would make custom resources invalid
// or cost them a field.
func (p *crdPlanner) checkPublished(ctx context.Context, live, merged *apiextensionsv1.CustomResourceDefinition, wanted []render.Contribution) error {
	for _, contributed := range wanted {
		version := contributed.CRD.Spec.Versions[0].Name
		digest := live.Annotations[render.AnnotationDigest+version]
		if digest == "" || digest == contributed.CRD.Annotations[render.AnnotationDigest+version] {
			continue
		}
		problem := render.Tightened(schemaOf(live, version), schemaOf(merged, version))
		if problem == "" {
			continue
		}
		items, err := (&instances.Finder{Reader: p.reader}).ListOf(ctx, live, "")
		if err != nil {
			return err
		}
		if len(items) > 0 {
			return status.Waiting(v2beta2.ReasonSchemaConflict, status.MissingInterval,
				"CRD %q: version %s was published before with other content, and now %s: publish this archive under another version, or delete these custom resources first: %s",
				live.Name, version, problem, instances.Describe(items))
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
