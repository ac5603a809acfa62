package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Annotations of a ClusterServiceVersion. OLM copies all of them to the pods.
const (
	// AnnotationArchiveDigest is the digest of the archive that a ClusterServiceVersion was rendered from.
	AnnotationArchiveDigest = "zoscb.ibm.com/digest"

	annotationExamples       = "alm-examples"
	annotationInitialization = "operatorframework.io/initialization-resource"
	annotationInternal       = "operators.operatorframework.io/internal-objects"
	annotationNamespace      = "operatorframework.io/suggested-namespace"
	annotationFeature        = "features.operators.openshift.io/"
)

// The annotations of a pod are limited to 256 KiB in total. Names of hidden kinds need at most 80 KiB, all others a few.
const (
	maxExamplesBytes = 128 << 10
	maxExampleBytes  = 16 << 10
)

func csvAnnotations(c *model.Collection, o ClusterServiceVersionOptions) (map[string]string, error) {
	annotations := map[string]string{
		AnnotationArchiveDigest: o.Digest.String(),
		annotationNamespace:     c.OperatorName(),
		// The operator runs playbooks. Only their author knows whether these also upgrade, back up or tune.
		"capabilities":   cmp.Or(c.Capabilities, model.CapabilityLevels[0]),
		"certified":      "false",
		"containerImage": o.Runtime.Image,
		"description":    line(firstOf(c.Galaxy.Description, c.DisplayName, c.Name), maxSummary),
		"support":        cmp.Or(line(c.Support, maxName), provider(c).Name),
	}
	for feature, has := range features(c, o) {
		annotations[annotationFeature+feature] = strconv.FormatBool(has)
	}
	if !c.Created.IsZero() {
		annotations["createdAt"] = c.Created.UTC().Format(time.RFC3339)
	}
	if categories := categories(c); len(categories) > 0 {
		annotations["categories"] = strings.Join(categories, ", ")
	}
	if address, ok := webAddress(c.Galaxy.Repository); ok {
		annotations["repository"] = address
	}
	return annotations, addKindAnnotations(annotations, c, o)
}

// addKindAnnotations adds the examples for forms, the hidden kinds, and the resource to create after the installation.
func addKindAnnotations(annotations map[string]string, c *model.Collection, o ClusterServiceVersionOptions) error {
	var examples, hidden []string
	left := maxExamplesBytes
	for _, r := range c.Resources {
		if r.Hidden {
			hidden = append(hidden, r.Plural()+"."+o.Group)
		}
		example, err := JSON(formExample(c, r, o.Group), "")
		if err != nil {
			return fmt.Errorf("kind %s: example: %w", r.Kind, err)
		}
		// Without an example, a form starts with the defaults of the schema.
		if left >= len(example) {
			examples = append(examples, string(example))
			left -= len(example)
		}
	}
	annotations[annotationExamples] = "[" + strings.Join(examples, ",") + "]"
	if len(hidden) > 0 {
		slices.Sort(hidden)
		annotations[annotationInternal] = `["` + strings.Join(hidden, `","`) + `"]` // Names need no escapes.
	}
	return addInitialization(annotations, c, o)
}

// addInitialization makes consoles ask for an instance after the installation, if there is only one visible kind and its
// form has required fields.
func addInitialization(annotations map[string]string, c *model.Collection, o ClusterServiceVersionOptions) error {
	visible := slices.DeleteFunc(slices.Clone(c.Resources), func(r model.Resource) bool { return r.Hidden })
	if len(visible) != 1 || !slices.ContainsFunc(visible[0].Vars, func(v model.Var) bool { return v.Required }) {
		return nil
	}
	example, err := JSON(formExample(c, visible[0], o.Group), "")
	if err != nil {
		return fmt.Errorf("kind %s: example: %w", visible[0].Kind, err)
	}
	if len(example) <= maxExampleBytes {
		annotations[annotationInitialization] = string(example)
	}
	return nil
}

// features returns the infrastructure features that OpenShift asks operators to declare.
func features(c *model.Collection, o ClusterServiceVersionOptions) map[string]bool {
	return map[string]bool{
		// Only the image is downloaded, and a mirror has the same digest.
		"disconnected": strings.Contains(o.Runtime.Image, "@sha256:") && c.Dependencies.Empty(),
		// OLM sets proxy variables for playbooks, and the manager those for the init container that installs dependencies.
		"proxy-aware":    true,
		"fips-compliant": false, "tls-profiles": false,
		"token-auth-aws": false, "token-auth-azure": false, "token-auth-gcp": false,
		"cnf": false, "cni": false, "csi": false,
	}
}

// categoryOfTag maps common Galaxy tags to categories of OperatorHub. Galaxy requires one of the first tags.
var categoryOfTag = map[string]string{
	"application": "Application Runtime", "cloud": "Cloud Provider", "database": "Database", "monitoring": "Monitoring",
	"networking": "Networking", "security": "Security", "storage": "Storage", "tools": "Developer Tools",

	"cics": "Application Runtime", "ims": "Application Runtime", "db2": "Database", "middleware": "Integration & Delivery",
	"mq": "Streaming & Messaging", "messaging": "Streaming & Messaging", "kafka": "Streaming & Messaging",
	"logging": "Logging & Tracing", "racf": "Security", "devops": "Developer Tools", "automation": "Integration & Delivery",
	"modernization": "Modernization & Migration", "migration": "Modernization & Migration", "ai": "AI/Machine Learning",
}

// categories returns the sorted categories of OperatorHub for a collection: those that the author names, or those of its tags.
func categories(c *model.Collection) []string {
	if len(c.Categories) > 0 {
		return c.Categories
	}
	var found []string
	for _, tag := range c.Galaxy.Tags {
		if category, known := categoryOfTag[strings.ToLower(tag)]; known {
			found = append(found, category)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// formExample returns an Example for a form: with the defaults of optional variables, and without empty values, which a
// console would submit.
func formExample(c *model.Collection, r model.Resource, group string) *unstructured.Unstructured {
	example := Example(c, r, group)
	spec := formFields(r.Vars)
	spec[EndpointField] = exampleName
	example.Object["spec"] = spec
	return example
}

func formFields(vars []model.Var) map[string]any {
	fields := map[string]any{}
	for _, v := range vars {
		if value := formValue(v); value != nil {
			fields[v.Name] = value
		}
	}
	return fields
}

// formValue returns nil for a variable that is optional or that the API server sets.
func formValue(v model.Var) any {
	isObject := v.Type == model.Object
	switch {
	case holdsEmpty(v.Default):
		return nil
	case v.Default != nil:
		return exampleValue(v)
	case isObject && v.Array && v.Required:
		if element := formElement(v); len(element) > 0 {
			return []any{element}
		}
		return nil
	case isObject && !v.Array && (v.Required || v.CompletesItself()):
		if fields := formFields(v.Fields); len(fields) > 0 {
			return fields
		}
		return nil
	case v.Required && !isChoice(v):
		return exampleValue(v)
	}
	return nil
}

// isChoice reports whether a value in a form would decide for the user: a required boolean must be input by the user
// (Operator Collection Specification, Resource Variables).
func isChoice(v model.Var) bool { return v.Type == model.Boolean && v.Default == nil }

// formElement returns an object for a list. It is only empty if all members are for the user to choose.
func formElement(v model.Var) map[string]any {
	fields := formFields(v.Fields)
	first := slices.IndexFunc(v.Fields, func(f model.Var) bool { return !isChoice(f) })
	if len(fields) == 0 && first >= 0 {
		fields[v.Fields[first].Name] = exampleValue(v.Fields[first])
	}
	return fields
}

// holdsEmpty reports whether a default contains an empty value. Such a default is left to the schema.
func holdsEmpty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case []any:
		return len(v) == 0 || slices.ContainsFunc(v, holdsEmpty)
	case map[string]any:
		return len(v) == 0 || slices.ContainsFunc(slices.Collect(maps.Values(v)), holdsEmpty)
	}
	return false
}
