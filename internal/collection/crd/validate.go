package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// maxCRDBytes is what a CustomResourceDefinition may take as JSON. etcd stores objects of at most 1.5 MiB, and the API
// server adds who owns which field.
const maxCRDBytes = 1 << 20

// Bounds on what one kind can add to the list of problems: the API machinery repeats values in its messages.
const (
	maxKindProblems = 10
	maxMessage      = 400
)

// maxKinds bounds how long a hostile collection can keep Validate busy. It is far more than real ones have.
const maxKinds = 500

var rules findings.Rules

// Rules returns the rules that [Validate] checks.
func Rules() findings.Rules { return rules }

var (
	ruleSchema  = rules.Refused("crd-schema", "", "The API server accepts the CustomResourceDefinition that is made of a kind: the code of the API server says so, it can be stored, and there are at most 500.")
	ruleExample = rules.Error("example", "", "The example of a kind that consoles offer (alm-examples) is valid: required variables can be given a value.")
)

// Validate asks the code of the API server whether it accepts what render makes of each kind, and an instance of it.
func Validate(c *model.Collection) findings.Problems {
	if len(c.Resources) > maxKinds {
		return findings.Problems{ruleSchema.At(c.Resources[maxKinds].Place, "a collection has at most %d kinds, this one has %d; divide it", maxKinds, len(c.Resources))}
	}
	var problems findings.Problems
	for _, r := range c.Resources {
		problems = append(problems, validateKind(c, r)...)
	}
	return problems
}

func validateKind(c *model.Collection, r model.Resource) findings.Problems {
	alone := *c
	alone.Resources = []model.Resource{r}
	var crd *apiextensions.CustomResourceDefinition
	crds, err := render.CRDs(&alone, c.Group(false))
	if err == nil {
		crd, err = stored(crds[0])
	}
	if err != nil {
		return findings.Problems{ruleSchema.At(r.Place, "%v", err)}
	}
	if messages := checkCRD(crds[0], crd); len(messages) > 0 {
		return breaks(r, ruleSchema, "the API server would refuse the kind's CustomResourceDefinition: ", messages)
	}
	messages := checkInstance(crd, render.Example(c, r, c.Group(false)))
	return breaks(r, ruleExample, "the API server would refuse the kind's example: ", messages)
}

// stored is the CRD as the API server has it when it validates one that is being created.
func stored(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	crd = crd.DeepCopy()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(crd)
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, out, nil); err != nil {
		return nil, err
	}
	out.Status.StoredVersions = []string{crd.Spec.Versions[0].Name}
	return out, nil
}

func checkCRD(rendered *apiextensionsv1.CustomResourceDefinition, crd *apiextensions.CustomResourceDefinition) []string {
	raw, err := json.Marshal(rendered)
	if err != nil {
		return []string{err.Error()}
	}
	if len(raw) > maxCRDBytes {
		return []string{fmt.Sprintf("it is %d KiB large, and more than %d KiB cannot be stored; shorten descriptions and options",
			len(raw)>>10, maxCRDBytes>>10)}
	}
	return texts(crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd))
}

// checkInstance fills in defaults and validates, as the API server does with an instance that is being created.
func checkInstance(crd *apiextensions.CustomResourceDefinition, instance *unstructured.Unstructured) []string {
	version, err := apiextensions.GetSchemaForVersion(crd, instance.GroupVersionKind().Version)
	if err != nil {
		return []string{err.Error()}
	}
	compiled, err := newSchema(version.OpenAPIV3Schema)
	if err != nil {
		return []string{err.Error()}
	}
	compiled.Default(instance.Object)
	return texts(compiled.Create(instance.Object))
}

func texts(list field.ErrorList) []string {
	messages := make([]string, len(list))
	for i, err := range list {
		messages[i] = err.Error()
	}
	slices.Sort(messages)
	return slices.Compact(messages)
}

func breaks(r model.Resource, rule findings.Rule, prefix string, messages []string) findings.Problems {
	out := make(findings.Problems, 0, min(len(messages), maxKindProblems))
	for _, message := range messages[:min(len(messages), maxKindProblems)] {
		out = append(out, rule.At(r.Place, "%s%s", prefix, printable.Cut(message, maxMessage)))
	}
	return out
}
