package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Category of all kinds of collections: kubectl get zos lists their custom resources.
const Category = "zos"

// EndpointField is the field of every kind's spec that names the ZosEndpoint to run against.
const EndpointField = "zosendpoint"

// Descriptions that are used both in the schema and in the console.
const (
	endpointTitle         = "z/OS endpoint"
	endpointDescription   = "Name of the ZosEndpoint to run against."
	conditionsDescription = "Ready, Stalled, Drifted, FieldsIgnored, DefaultsKept, DefaultsNew, Running, Successful and Failure."
)

// endpointPattern matches a DNS-1123 subdomain, the format of ZosEndpoint names.
const endpointPattern = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`

// CRDs renders one CustomResourceDefinition per resource of the collection, in the same order, with the collection's version
// as the only one. MergeCRD merges them with the versions that a cluster already serves. The error names the resource and
// the field that cannot be rendered.
func CRDs(c *model.Collection, group string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(c.Resources))
	for _, r := range c.Resources {
		schema, err := rootSchema(r)
		if err != nil {
			return nil, fmt.Errorf("kind %s: %w", r.Kind, err)
		}
		crds = append(crds, crd(c, r, group, schema))
	}
	return crds, nil
}

// Annotations of the manager on CRDs.
const (
	// AnnotationClaimedBy names the namespace that the CRD's collection belongs to.
	AnnotationClaimedBy = "zoscb.ibm.com/claimed-by"

	// AnnotationHeldBy names the OperatorCollections that have the CRD's kind, as namespace/name, separated by commas.
	AnnotationHeldBy = "zoscb.ibm.com/held-by"

	// AnnotationUnused records that the last of them was deleted, or has the kind no longer: the UID of the CRD and the time.
	AnnotationUnused = "zoscb.ibm.com/unused"

	// AnnotationDigest, followed by the name of a version, is the digest of the archive that the version came from.
	AnnotationDigest = "digest.zoscb.ibm.com/"

	// AnnotationLife, followed by the name of a version, records when the version was published, deprecated and not served any more.
	AnnotationLife = "life.zoscb.ibm.com/"

	// AnnotationRewriting records how far custom resources are rewritten, so that none is stored in an old version.
	AnnotationRewriting = "zoscb.ibm.com/rewriting"
)

// ClaimedCRDs are CRDs with the annotations of a collection that a namespace imports from the archive with a digest.
func ClaimedCRDs(c *model.Collection, group, namespace string, archive digest.Digest) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	crds, err := CRDs(c, group)
	for _, crd := range crds {
		metav1.SetMetaDataAnnotation(&crd.ObjectMeta, AnnotationClaimedBy, namespace)
		metav1.SetMetaDataAnnotation(&crd.ObjectMeta, AnnotationDigest+c.APIVersion(), archive.String())
	}
	return crds, err
}

func crd(c *model.Collection, r model.Resource, group string, schema *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   crdTypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: r.Plural() + "." + group, Labels: IdentityLabels(c.ID())},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: r.Kind, ListKind: r.ListKind(), Plural: r.Plural(), Singular: r.Singular(), Categories: []string{Category},
			},
			Scope:      apiextensionsv1.NamespaceScoped,
			Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name:                     c.APIVersion(),
				Served:                   true,
				Storage:                  true,
				Schema:                   &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
				Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: printerColumns(),
			}},
		},
	}
}

var crdTypeMeta = metav1.TypeMeta{
	APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition",
}

// printerColumns returns columns for the status that the gate writes. Playbooks may write phase and message themselves, so
// the columns do not show these.
func printerColumns() []apiextensionsv1.CustomResourceColumnDefinition {
	return []apiextensionsv1.CustomResourceColumnDefinition{
		{Name: "Endpoint", Type: "string", JSONPath: ".spec." + EndpointField},
		{Name: "Ready", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].status`},
		{Name: "State", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].reason`},
		{Name: "Last Run", Type: "date", JSONPath: ".status.lastRun.started"},
		{Name: "Message", Type: "string", JSONPath: `.status.conditions[?(@.type=="Ready")].message`, Priority: 1},
		{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
	}
}

func rootSchema(r model.Resource) (*apiextensionsv1.JSONSchemaProps, error) {
	spec, err := objectSchema(r.Vars)
	if err != nil {
		return nil, err
	}
	if _, taken := spec.Properties[EndpointField]; taken {
		return nil, fmt.Errorf("variable %s: the operator has a field of this name: choose another one", EndpointField)
	}
	spec.Description = "Variables of the playbook, and the z/OS endpoint to run it against."
	spec.Properties[EndpointField] = apiextensionsv1.JSONSchemaProps{
		Type:        "string",
		Title:       endpointTitle,
		Description: endpointDescription,
		MaxLength:   ptr.To[int64](253),
		Pattern:     endpointPattern,
	}
	spec.Required = sortedNames(append(spec.Required, EndpointField))
	// Consoles hide an object that has a title, the whole form included, behind a collapsed bar.
	return &apiextensionsv1.JSONSchemaProps{
		Type:        "object",
		Description: cmp.Or(r.Description, r.DisplayName),
		Required:    []string{"spec"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"apiVersion": {Type: "string"},
			"kind":       {Type: "string"},
			"metadata":   {Type: "object"},
			"spec":       spec,
			"status":     statusSchema(),
		},
	}, nil
}

// initialStatus is what the API server shows as the status of a custom resource while no operator has written one. Clients that
// compare observedGeneration, as kstatus asks, take a resource with this generation for one that is not ready.
//
// The bytes are as the API server returns them, so that nothing is written again.
const initialStatus = `{"message":"no operator has seen this resource yet: if that does not change within a minute, ` +
	`check whether the collection is installed in this namespace","observedGeneration":-1,"phase":"Pending"}`

// statusSchema declares the fields that the gate writes, loosely, and preserves unknown fields that playbooks add.
func statusSchema() apiextensionsv1.JSONSchemaProps {
	condition := looseSchema("", "lastTransitionTime", "message", "reason", "status", "type")
	run := func(description string) apiextensionsv1.JSONSchemaProps {
		return looseSchema(description, "started", "outcome")
	}
	past := run("A run of the playbook.")
	return apiextensionsv1.JSONSchemaProps{
		Type:                   "object",
		Description:            "State of the resource, and what the last runs of its playbook did.",
		XPreserveUnknownFields: ptr.To(true),
		Default:                &apiextensionsv1.JSON{Raw: []byte(initialStatus)},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{
			"phase":              {Type: "string"},
			"message":            {Type: "string"},
			"observedGeneration": {Type: "integer", Format: "int64", Description: "Generation of the spec that the status describes."},
			"waiting":            looseSchema("Why the next run of the playbook waits for its endpoint.", "reason", "message", "since", "until"),
			"migration":          looseSchema("The last successful run of the migration playbook: from and to which version.", "from", "to", "finished"),
			"drift":              looseSchema("Result of the last drift check.", "checkedAt", "diff"),
			"lastRun":            run("The last run of the playbook: when, why, against which endpoint, its outcome, and why it failed."),
			"lastSuccess":        run("The last successful run of the playbook."),
			"history": {
				Type:        "array",
				Description: "The last five runs of the playbook, the newest first.",
				Items:       &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &past},
			},
			"conditions": {
				Type:        "array",
				Description: conditionsDescription,
				Items:       &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &condition},
			},
		},
	}
}

// looseSchema is an object with some fields that are texts, and any others.
func looseSchema(description string, texts ...string) apiextensionsv1.JSONSchemaProps {
	schema := apiextensionsv1.JSONSchemaProps{
		Type: "object", Description: description, XPreserveUnknownFields: ptr.To(true),
		Properties: make(map[string]apiextensionsv1.JSONSchemaProps, len(texts)),
	}
	for _, name := range texts {
		schema.Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	return schema
}

func objectSchema(vars []model.Var) (apiextensionsv1.JSONSchemaProps, error) {
	schema := apiextensionsv1.JSONSchemaProps{
		Type: "object", Properties: make(map[string]apiextensionsv1.JSONSchemaProps, len(vars)),
	}
	for _, v := range vars {
		field, err := varSchema(v)
		if err != nil {
			return schema, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		schema.Properties[v.Name] = field
		if v.Required {
			schema.Required = append(schema.Required, v.Name)
		}
	}
	schema.Required = sortedNames(schema.Required)
	return schema, nil
}

// varSchema renders one variable (Operator Collection Specification, Resource Variables and Object Variables).
func varSchema(v model.Var) (apiextensionsv1.JSONSchemaProps, error) {
	element, err := elementSchema(v)
	if err != nil {
		return element, err
	}
	schema, def := element, v.Default
	switch {
	case v.Array:
		schema = apiextensionsv1.JSONSchemaProps{
			Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &element},
		}
	case def != nil:
	case v.CompletesItself():
		def = map[string]any{}
	}
	schema.Title, schema.Description = v.DisplayName, v.Description
	if def != nil {
		if schema.Default, err = jsonValue(def); err != nil {
			return schema, fmt.Errorf("default: %w", err)
		}
	}
	return schema, nil
}

// elementSchema returns the schema of one value of the variable's type: of the variable itself, or of an element if it is an
// array.
func elementSchema(v model.Var) (apiextensionsv1.JSONSchemaProps, error) {
	schema := apiextensionsv1.JSONSchemaProps{}
	switch v.Type {
	case model.String, model.Password:
		schema.Type = "string"
	case model.Number:
		schema.Type = "number"
	case model.Integer:
		schema.Type, schema.Format = "integer", "int64"
	case model.Boolean:
		schema.Type = "boolean"
	case model.Object:
		members, err := objectSchema(v.Fields)
		members.Required = sortedNames(slices.DeleteFunc(members.Required, func(name string) bool {
			// It is never absent, and the API server only accepts the default {} if no member is required.
			return members.Properties[name].Default != nil
		}))
		return members, err
	default:
		return schema, fmt.Errorf("type %q is not one of string, number, integer, boolean, password, object", v.Type)
	}
	for _, option := range v.Options {
		value, err := jsonValue(option)
		if err != nil {
			return schema, fmt.Errorf("option %q: %w", option, err)
		}
		schema.Enum = append(schema.Enum, *value)
	}
	return schema, nil
}

func jsonValue(v any) (*apiextensionsv1.JSON, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return &apiextensionsv1.JSON{Raw: raw}, nil
}

// sortedNames sorts names. It returns nil for no names, as in a schema that was read from the API server.
func sortedNames(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return slices.Compact(names)
}
