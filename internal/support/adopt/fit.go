package adopt

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/api/v2beta1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// ownFinalizers are those of Collection Operator on OperatorCollections, SubOperatorConfigs and ZosEndpoints.
var ownFinalizers = []string{"zoscb.ibm.com/finalizer", metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents}

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
