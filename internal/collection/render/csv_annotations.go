package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
