package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"
)

// property is a value of the chart: a row of its README, a field of values.yaml, and a schema.
type property struct {
	name, description string
	// schema is the JSON schema of a value without properties of its own.
	schema     map[string]any
	value      any
	properties []property
}

type schema = map[string]any

func text() schema         { return schema{"type": "string"} }
func boolean() schema      { return schema{"type": "boolean"} }
func like(p string) schema { return schema{"type": "string", "pattern": p} }
func listOf(items schema) schema {
	return schema{"type": "array", "items": items, "uniqueItems": true}
}
func mapOf(values schema) schema {
	return schema{"type": "object", "additionalProperties": values}
}

const (
	namespacePattern  = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	repositoryPattern = `^$|^[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*$`
	tagPattern        = `^$|^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$`
	digestPattern     = `^$|^sha256:[a-f0-9]{64}$`
	quantityPattern   = `^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$`
	// prefixPattern has no quotes, since prefixes become part of an expression.
	prefixPattern = `^[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*/$`
)

// values returns the chart's values. Those that the manifests have are taken from them.
func values(d defaults, images images, settings []property) []property {
	const flags = "Flags of the manager without --, such as fetch-timeout: 5m. docs/settings.md explains them. A change takes effect within seconds."
	return []property{
		{name: "image", description: "Image of the manager.", properties: append(imageProperties(images.manager),
			property{name: "pullPolicy", description: "When nodes pull the image.", schema: schema{"type": "string", "enum": []any{"Always", "IfNotPresent", "Never"}}, value: d.pullPolicy})},
		{name: "runtime", description: "What operators run in, unless spec.runtime of a collection says otherwise.", properties: []property{
			{name: "image", description: "Image of operators.", properties: imageProperties(images.runtime)},
			{name: "architectures", description: "Architectures of the image. Operators run on such nodes only.", value: d.architectures,
				schema: schema{"type": "array", "minItems": 1, "uniqueItems": true, "items": schema{"type": "string", "enum": []any{"amd64", "arm64", "ppc64le", "s390x"}}}},
		}},
		{name: "imagePullSecrets", description: "Secrets in the release's namespace with which nodes pull the manager's image, as [{name: registry}]. For the image of operators see docs/site.md.", value: []any{},
			schema: listOf(schema{"type": "object", "required": []any{"name"}, "additionalProperties": false, "properties": schema{"name": text()}})},
		{name: "replicas", description: "Number of managers. One of them leads, and all serve archives. With 1, nothing is reconciled while its pod is replaced, and starting operators wait.", value: d.replicas,
			schema: schema{"type": "integer", "minimum": 1}},
		{name: "settings", description: flags, properties: settings},
		{name: "resources", description: "Resources of each manager. It keeps its memory below the limit.", value: d.resources, schema: schema{"type": "object"}},
		{name: "env", description: "Further environment variables of the managers, such as HTTPS_PROXY, as in a container.", value: []any{},
			schema: schema{"type": "array", "items": schema{"type": "object", "required": []any{"name"}, "properties": schema{"name": text()}}}},
		{name: "podAnnotations", description: "Further annotations of the managers' pods.", value: schema{}, schema: mapOf(text())},
		{name: "nodeSelector", description: "Labels of the nodes on which managers run.", value: schema{}, schema: mapOf(text())},
		{name: "tolerations", description: "Taints of nodes on which managers run nevertheless, as in a Pod.", value: []any{}, schema: schema{"type": "array", "items": schema{"type": "object"}}},
		{name: "priorityClassName", description: "PriorityClass of the managers' pods.", value: "", schema: text()},
		{name: "persistence", description: "Volumes for archives, one for each manager. An installed StatefulSet does not accept a change of enabled, size and storageClassName: see the README.", properties: []property{
			{name: "enabled", description: "If false, a manager's archives are lost with its pod. They are then copied from another manager, or fetched again.", value: true, schema: boolean()},
			{name: "size", description: "Size of each volume.", value: d.size, schema: like(quantityPattern)},
			{name: "storageClassName", description: "StorageClass of the volumes. If empty, the cluster's default.", value: "", schema: text()},
			{name: "fsGroup", description: "Group that gets the volumes, such as 65532 where they belong to root. Leave it out on OpenShift, which sets one.", value: nil, schema: schema{"type": []any{"integer", "null"}, "minimum": 1}},
		}},
		{name: "namespaces", description: "Limits the manager to these namespaces, which must exist: elsewhere it can neither read Secrets nor install operators. If empty, it may in all. See docs/permissions.md.", value: []any{}, schema: listOf(like(namespacePattern))},
		{name: "allowedImages", description: "Prefixes of images that operators may have, such as registry.example.com/zos/. If empty, all. See docs/permissions.md.", value: []any{}, schema: listOf(like(prefixPattern))},
		{name: "requireVerification", description: "Forbids skipSignatureVerification in the whole cluster. See docs/verification.md.", value: false, schema: boolean()},
		{name: "administratorsOnly", description: "Only users with ClusterRole collection-operator-administrator may change OperatorCollections, SubOperatorConfigs and ZosEndpoints, for clusters in which the roles edit and admin include these.", value: false, schema: boolean()},
		{name: "monitoring", description: "Metrics and alerts for the Prometheus Operator, whose CRDs must exist. See docs/operations.md.", properties: []property{
			{name: "enabled", description: "Creates a ServiceMonitor, a PrometheusRule and what Prometheus needs to read metrics.", value: false, schema: boolean()},
			{name: "namespaces", description: "Namespaces in which Prometheus runs.", value: d.prometheus, schema: listOf(like(namespacePattern))},
			{name: "labels", description: "Labels by which Prometheus selects ServiceMonitors and PrometheusRules, such as release: kube-prometheus-stack.", value: schema{}, schema: mapOf(text())},
		}},
		{name: "olm", description: "For clusters with the Operator Lifecycle Manager (OLM). See docs/openshift.md.", properties: []property{
			{name: "enabled", description: "Collections become packages of a catalog, and OLM installs them. The manager may then create Subscriptions in all namespaces, which is nearly cluster-admin.", value: false, schema: boolean()},
			{name: "namespaces", description: "Namespaces in which OLM reads catalogs.", value: d.olm, schema: listOf(like(namespacePattern))},
		}},
		{name: "operands", description: "OperandRequests, as with the Operand Deployment Lifecycle Manager. See docs/operands.md.", properties: []property{
			{name: "enabled", description: "Installs their kinds, and what handles them, with an account of its own.", value: false, schema: boolean()},
		}},
		{name: "crds", description: "The CRDs of Collection Operator.", properties: []property{
			{name: "install", description: "Creates and upgrades them. They are kept when the release is uninstalled. If false, apply config/crd yourself, before each upgrade too.", value: true, schema: boolean()},
		}},
	}
}

func imageProperties(i image) []property {
	return []property{
		{name: "repository", description: "Registry and name, without tag.", value: i.repository, schema: like(repositoryPattern)},
		{name: "tag", description: "Tag. If empty, v and the chart's appVersion.", value: i.tag, schema: like(tagPattern)},
		{name: "digest", description: "Digest, such as sha256:0f1e... It has precedence over the tag.", value: i.digest, schema: like(digestPattern)},
	}
}

// schemaOf returns the JSON schema of an object with properties.
func schemaOf(properties []property) schema {
	all := schema{}
	for _, p := range properties {
		s := maps.Clone(p.schema)
		if p.properties != nil {
			s = schemaOf(p.properties)
		} else if p.value != nil {
			s["default"] = p.value
		}
		s["description"] = p.description
		all[p.name] = s
	}
	return schema{"type": "object", "additionalProperties": false, "properties": all}
}

// schemaFile is values.schema.json. Helm passes `global` to charts that are part of others.
func schemaFile(properties []property) ([]byte, error) {
	root := schemaOf(properties)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Values of the chart collection-operator"
	root["properties"].(schema)["global"] = schema{"type": "object", "description": "Not used."}
	file, err := json.MarshalIndent(root, "", "  ")
	return append(file, '\n'), err
}

// valuesFile is values.yaml: all values with their defaults and descriptions. Settings have no defaults here: the manager has.
func valuesFile(properties []property, indent int) (string, error) {
	var b strings.Builder
	space := strings.Repeat(" ", indent)
	for _, p := range properties {
		for _, line := range wrapped(p.description, 117-indent) {
			fmt.Fprintf(&b, "%s# %s\n", space, line)
		}
		if p.name != "settings" && p.properties != nil {
			inner, err := valuesFile(p.properties, indent+2)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%s%s:\n%s", space, p.name, inner)
			continue
		}
		value := p.value
		if p.name == "settings" {
			value = schema{}
		}
		text, err := yaml.Marshal(schema{p.name: value})
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(text)) {
			b.WriteString(space + line)
		}
	}
	return b.String(), nil
}

func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// table is the table of values in the README.
func table(prefix string, properties []property) (string, error) {
	var b strings.Builder
	for _, p := range properties {
		name := prefix + p.name
		if p.name == "settings" {
			fmt.Fprintf(&b, "| `%s` | `{}` | %s |\n", name, p.description)
			continue
		}
		if p.properties != nil {
			rows, err := table(name+".", p.properties)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "| `%s` | | %s |\n%s", name, p.description, rows)
			continue
		}
		value, err := json.Marshal(p.value)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", name, value, p.description)
	}
	return b.String(), nil
}
