package adopt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/api/v2beta1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// planContent checks that custom resources keep every field of their spec, and stay valid, when the manager replaces the schema that the
// product made of a collection by its own. That is seen with the archives alone.
func (p *Plan) planContent(claim *Claim, resources []*unstructured.Unstructured) {
	var contributions []crd.Contribution
	for _, c := range p.Collections {
		if c.ID != claim.ID {
			continue
		}
		if c.Archive == nil {
			if c.URL != "" && len(resources) > 0 {
				p.Problems = append(p.Problems, fmt.Sprintf("%s: whether the %d objects of CRD %s keep all of their fields is only seen with its archive: download %s, and name the folder with --archives",
					title(c.Object), len(resources), claim.Live.Name, withoutQuery(c.URL)))
			}
			continue
		}
		contribution, err := c.contribution(claim.Live.Name)
		if err != nil {
			p.Problems = append(p.Problems, fmt.Sprintf("%s: %s: %v", title(c.Object), c.Archive.File, err))
			continue
		}
		contributions = append(contributions, contribution)
		version := contribution.CRD.Spec.Versions[0].Name
		if slices.ContainsFunc(claim.Live.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == version }) {
			metav1.SetMetaDataAnnotation(&claim.Want.ObjectMeta, render.AnnotationDigest+version, c.Archive.Digest.String())
		}
	}
	if len(contributions) == 0 {
		return
	}
	merged, err := crd.Merge(claim.Live, contributions)
	if err != nil {
		p.Problems = append(p.Problems, fmt.Sprintf("CRD %s does not go together with its archive: %v", claim.Live.Name, err))
		return
	}
	for _, resource := range resources {
		checkContent(p, merged, contributions, resource)
	}
}

// contribution is what the archive of a collection says of a CRD.
func (c Collection) contribution(name string) (crd.Contribution, error) {
	_, group, _ := strings.Cut(name, ".")
	rendered, err := render.CRDs(c.Archive.Collection, group)
	if err != nil {
		return crd.Contribution{}, err
	}
	at := slices.IndexFunc(rendered, func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Name == name })
	if at < 0 {
		return crd.Contribution{}, errors.New("it does not have the kind of CRD " + name)
	}
	return crd.Contribution{Version: c.Archive.Collection.Version, CRD: rendered[at], Namespace: c.Object.GetNamespace()}, nil
}

// checkContent checks that a custom resource loses no field in any version that a CRD gets, nor in the one in which it is stored, and is
// valid in one of those that it gets.
func checkContent(p *Plan, merged *apiextensionsv1.CustomResourceDefinition, contributions []crd.Contribution, resource *unstructured.Unstructured) {
	if _, lost := misfitsIn(merged, StorageVersion(merged), resource); len(lost) > 0 {
		loses(p, resource, StorageVersion(merged), lost)
		return
	}
	var misfit []string
	isValid := false
	for _, contributed := range contributions {
		version := contributed.CRD.Spec.Versions[0].Name
		problems, lost := misfitsIn(merged, version, resource)
		if len(lost) > 0 {
			loses(p, resource, version, lost)
			return
		}
		isValid = isValid || len(problems) == 0
		misfit = problems
	}
	if !isValid {
		p.Problems = append(p.Problems, misfit...)
	}
}

func loses(p *Plan, resource *unstructured.Unstructured, version string, lost []string) {
	p.Problems = append(p.Problems, fmt.Sprintf("%s: version %s of its collection does not have %s: Collection Operator would drop what is not in operator-config. Save the value and remove it from the resource, or add it to the collection",
		title(resource), version, strings.Join(lost, ", ")))
}

// maxProblem limits one problem in bytes: the API machinery repeats values in its messages.
const maxProblem = 400

// misfits returns why Collection Operator cannot work with an object of its own kinds, and the fields of the spec that it does not know.
func misfits(definition *apiextensionsv1.CustomResourceDefinition, object *unstructured.Unstructured) (problems, unknown []string) {
	return misfitsIn(definition, StorageVersion(definition), object)
}

// misfitsIn is misfits for a version of a CRD.
func misfitsIn(definition *apiextensionsv1.CustomResourceDefinition, version string, object *unstructured.Unstructured) (problems, unknown []string) {
	report := func(err error) {
		problems = append(problems, fmt.Sprintf("%s does not fit: correct it first: %s", title(object), printable.Line(err.Error(), maxProblem)))
	}
	schema, err := crd.NewSchema(definition, version)
	if err != nil {
		return []string{err.Error()}, nil
	}
	content := withoutStatus(object)
	unknown = pruning.PruneWithOptions(content, schema.Structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	schema.Default(content)
	for _, problem := range schema.Create(content) {
		report(problem)
	}
	if len(problems) > 0 {
		return problems, unknown
	}
	for _, problem := range schema.Rules(content) {
		report(problem)
	}
	if into := typed(object.GetKind()); into != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, into); err != nil {
			report(err)
		}
	}
	return problems, unknown
}

// fitsStatus reports whether the manager can read the status of an object. Which types the product's fields have is not public in all cases.
func fitsStatus(object *unstructured.Unstructured) bool {
	into := typed(object.GetKind())
	if into == nil || object.Object["status"] == nil {
		return true
	}
	only := map[string]any{"status": object.Object["status"]}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(only, into) == nil
}

func typed(kind string) any {
	switch kind {
	case "OperatorCollection":
		return &v2beta2.OperatorCollection{}
	case "SubOperatorConfig":
		return &v2beta2.SubOperatorConfig{}
	case "ZosEndpoint":
		return &v2beta2.ZosEndpoint{}
	case "ZosCloudBroker":
		return &v2beta1.ZosCloudBroker{}
	}
	return nil
}

func withoutStatus(object *unstructured.Unstructured) map[string]any {
	content := object.DeepCopy().Object
	delete(content, "status")
	return content
}
