package lint

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// What names look like that [model.Load] takes.
const (
	variableName = `^[A-Za-z_][A-Za-z0-9_]*$`
	groupName    = `^[A-Za-z_][A-Za-z0-9_-]*$`
	pascalCase   = `^[A-Z][A-Za-z0-9]*$`
	kindName     = `^[A-Za-z][A-Za-z0-9]*$`
	falseWord    = `^([Ff][Aa][Ll][Ss][Ee]|[Nn][Oo]|[Oo][Ff][Ff])?$`
	booleanWord  = `^([Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]|[Oo][Nn]|[Ff][Aa][Ll][Ss][Ee]|[Nn][Oo]|[Oo][Ff][Ff])?$`
	// artifacts is a number from 1 to 20.
	artifacts = `^(\+?0*([1-9]|1[0-9]|20))?$`
	// semanticVersion is the pattern of semver.org.
	semanticVersion = `^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`
	reservedName    = `^(ansible_|zoscb_|k8s_|zosendpoint$|_.*suboperator_zoscb_ibm_com)`
	// maxKindLength leaves room for "List".
	maxKindLength = 59
)

var varTypes = []model.VarType{
	model.String, model.Number, model.Integer, model.Boolean, model.Password, model.Object,
}

// schema is a JSON Schema.
type schema map[string]any

// keySchemas are the schemas of the values of a mapping, by key.
type keySchemas map[string]schema

// ConfigSchema returns the JSON Schema (draft 7, which editors understand) of an operator-config: which keys there are, what
// they mean and what they may hold. It takes what [model.Load] takes without an error, in whatever spelling, but for unknown keys: most are misspelt,
// and only at the root do collections have keys of their own. It requires what Load requires, also where a cluster only warns. What depends on several places of the file, or on other
// files, only Load knows.
func ConfigSchema() ([]byte, error) {
	root := objectOf("An operator-config, as the Operator Collection Specification has it.", rootSchemas(), "domain", "name", "version", "displayName", "resources")
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "operator-config"
	root["additionalProperties"] = true
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func rootSchemas() keySchemas {
	return keySchemas{
		"domain":              subdomainSchema("First half of the collection's identity. Should be the namespace in galaxy.yml, with - instead of _."),
		"name":                subdomainSchema("Second half of the collection's identity. Should be the name in galaxy.yml, with - instead of _."),
		"version":             {"type": "string", "pattern": semanticVersion, "description": "Semantic version, such as 1.2.0. Should be the version in galaxy.yml. The kinds are served at an API version that is made of it."},
		"displayName":         text("What the collection is called in catalogs."),
		"description":         optionalText("Text of the collection's page in catalogs, in markdown. Each heading stands on a line of its own."),
		"resources":           listOf("The kinds that the collection offers.", resourceSchema(), 1),
		"roles":               permissionSchema("What the operator may do in its namespace, beyond the collection's own kinds."),
		"clusterRoles":        permissionSchema("What the operator may do in the whole cluster."),
		"icon":                listOf("Images for the collection's tile.", objectOf("", iconSchemas(), "base64data", "mediatype"), 0),
		"provider":            {"type": append(slices.Clone(scalarTypes), "object", "null"), "properties": keySchemas{"name": optionalText(""), "url": optionalText("")}, "description": "Who offers the collection: a name, or name and url. Not in the specification."},
		"inventoryName":       {"type": []string{"string", "null"}, "pattern": `^$|` + groupName, "not": schema{"enum": []string{"all", "ungrouped"}}, "description": "Ansible group that the endpoint joins, for playbooks with hosts: that group. Not in the specification."},
		"replaces":            optionalText("Collection whose kinds and custom resources this one takes over: domain/name, or a name in the same domain; or the name of the ClusterServiceVersion that a bundle of this version replaces. Not in the specification."),
		"migrationPlaybook":   optionalText("Playbook that runs once for each custom resource that an older version of the collection managed, before its first run under this one. Path from the collection's root, hosts: all. Not in the specification."),
		"migrationReversible": booleanSchema("An older version of the collection can manage custom resources that were migrated to this one. Not in the specification."),
		"capabilities":        optionalText("What the operator can do, for its tile: Basic Install, Seamless Upgrades, Full Lifecycle, Deep Insights or Auto Pilot. Not in the specification."),
		"support":             optionalText("Who supports the collection, for its tile. The provider if left out. Not in the specification."),
		"categories":          {"type": append(slices.Clone(scalarTypes), "array", "null"), "items": schema{"type": scalarTypes}, "description": "Categories of OperatorHub that the tile is in. Not in the specification."},
		"collectionPath":      optionalText("Nothing reads it. Not in the specification."),
	}
}

func iconSchemas() keySchemas {
	return keySchemas{
		"base64data": {"type": "string", "minLength": 1, "description": "The image, in base64."},
		"mediatype":  {"type": "string", "pattern": `^[Ii][Mm][Aa][Gg][Ee]/`, "description": "Media type of the image, such as image/svg+xml."},
	}
}

func resourceSchema() schema {
	return objectOf("One kind, and the playbooks that manage its instances.", resourceSchemas(), "kind", "playbook")
}

func resourceSchemas() keySchemas {
	return keySchemas{
		"kind":         {"type": "string", "pattern": pascalCase, "maxLength": maxKindLength, "description": "Name of the kind, in Pascal case, such as SomeMiddleware."},
		"displayName":  optionalText("What the kind is called in forms. The kind if left out."),
		"description":  optionalText("What the kind is for."),
		"playbook":     text("Playbook that runs when an instance is created or changed: path from the collection's root, hosts: all."),
		"finalizer":    optionalText("Playbook that runs when an instance is deleted. Without one the instance goes at once, and what it made stays."),
		"vars":         listOf("Inputs of the playbook: fields of the kind's spec.", varSchema(), 0),
		"hideResource": booleanSchema("Do not offer the kind in consoles."),

		"reconcilePeriod":    optionalText("How often the playbook runs without a change, such as 12h; at least 5m. Administrators can set another interval. Not in the specification."),
		"maxRunnerArtifacts": {"type": []string{"integer", "string", "null"}, "minimum": 1, "maximum": 20, "pattern": artifacts, "description": "How many runs of an instance have their files kept. Administrators can set another number. Not in the specification."},
		"supportsCheckMode":  booleanSchema("The playbook can run in Ansible's check mode: resources can be checked for drift. Not in the specification."),
		"showDiff":           booleanSchema("The status of a resource shows what a drift check finds: parts of files, to everybody who can read the resource. Not in the specification."),
	}
}

func varSchema() schema {
	s := objectOf("One input, passed to the playbook as an extra variable.", varSchemas(), "name", "displayName", "type")
	noArray := schema{"properties": schema{"array": noList()}}
	s["allOf"] = []schema{
		{"if": isType(model.Object), "then": schema{"required": []string{"objectVariables"}, "properties": schema{"objectVariables": schema{"type": "array", "minItems": 1}}}},
		{"if": isType(model.Boolean, model.Password), "then": noArray},
		optionsOfStrings(),
	}
	s["properties"].(keySchemas)["name"]["not"] = schema{"pattern": reservedName}
	return s
}

func isType(types ...model.VarType) schema {
	return schema{"properties": schema{"type": schema{"enum": types}}}
}

func noList() schema {
	return schema{"anyOf": []schema{{"enum": []any{false, nil}}, {"type": "string", "pattern": falseWord}}}
}

func optionsOfStrings() schema {
	return schema{"if": isType(model.String), "else": schema{"properties": schema{"options": schema{"maxItems": 0}}}}
}

// fieldSchema is that of a variable inside an object.
func fieldSchema() schema {
	s := objectOf("One field of the object.", fieldSchemas(), "name", "displayName", "type")
	s["allOf"] = []schema{optionsOfStrings()}
	return s
}

func varSchemas() keySchemas {
	schemas := fieldSchemas()
	schemas["type"] = typeSchema(varTypes)
	schemas["array"] = booleanSchema("The value is a list. For string, number, integer and object.")
	schemas["objectVariables"] = listOf("The fields of an object.", fieldSchema(), 0)
	return schemas
}

// fieldSchemas are those of the keys of a variable inside an object.
func fieldSchemas() keySchemas {
	return keySchemas{
		"name":            {"type": "string", "pattern": variableName, "description": "Name of the Ansible variable. It is not converted."},
		"displayName":     text("Label of the input in forms."),
		"type":            typeSchema(slices.DeleteFunc(slices.Clone(varTypes), func(t model.VarType) bool { return t == model.Object })),
		"options":         listOf("The allowed values of a string.", schema{"type": scalarTypes}, 0),
		"required":        booleanSchema("A user must give a value."),
		"default":         {"description": "The value if a user gives none. It must fit the type, as a text or as what it is."},
		"description":     optionalText("Help for the input in forms."),
		"kindReference":   {"type": []string{"string", "null"}, "pattern": `^$|` + kindName, "maxLength": maxKindLength, "description": "The value is the name of an instance of this kind: forms offer those that exist."},
		"array":           described("Fields of an object are no lists.", noList()),
		"objectVariables": {"enum": []any{"", nil}, "description": "There are no objects inside objects."},
	}
}

func typeSchema(types []model.VarType) schema {
	return schema{"enum": types, "description": "Type of the value. A password is the name of a Secret."}
}

func permissionSchema(description string) schema {
	rule := objectOf("A Kubernetes policy rule.", ruleSchemas(), "verbs")
	rule["anyOf"] = []schema{{"required": []string{"apiGroups", "resources"}}, {"required": []string{"nonResourceURLs"}}}
	nested := objectOf("Policy rules.", keySchemas{"rules": listOf("", rule, 0)})
	one := schema{"anyOf": []schema{nested, rule}}
	return described(description, schema{"anyOf": []schema{listOf("", one, 0), one}})
}

func described(description string, s schema) schema {
	s["description"] = description
	return s
}

func ruleSchemas() keySchemas {
	schemas := keySchemas{}
	for _, key := range []string{"apiGroups", "resources", "verbs", "resourceNames", "nonResourceURLs"} {
		schemas[key] = listOf("See the Kubernetes documentation of Role.", schema{"type": scalarTypes}, 0)
	}
	schemas["verbs"] = listOf("See the Kubernetes documentation of Role.", schema{"type": scalarTypes}, 1)
	return schemas
}

func subdomainSchema(description string) schema {
	return schema{"type": []string{"string", "number"}, "minimum": 0, "pattern": `^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`, "maxLength": 63, "description": description}
}

// scalarTypes are what stands for a text: YAML sees numbers and booleans in some.
var scalarTypes = []string{"string", "number", "boolean"}

func text(description string) schema {
	return schema{"type": scalarTypes, "minLength": 1, "description": description}
}

func optionalText(description string) schema {
	return schema{"type": append(slices.Clone(scalarTypes), "null"), "description": description}
}

func booleanSchema(description string) schema {
	return described(description, schema{"anyOf": []schema{{"enum": []any{true, false, nil}}, {"type": "string", "pattern": booleanWord}}})
}

func listOf(description string, items schema, atLeast int) schema {
	s := schema{"type": []string{"array", "string", "null"}, "maxLength": 0, "items": items}
	if atLeast > 0 {
		s = schema{"type": "array", "minItems": atLeast, "items": items}
	}
	if description != "" {
		s["description"] = description
	}
	return s
}

func objectOf(description string, keys keySchemas, required ...string) schema {
	s := schema{"type": "object", "properties": maps.Clone(keys), "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	if description != "" {
		s["description"] = description
	}
	return s
}
