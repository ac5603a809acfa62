package scenario

import (
	"bytes"
	"encoding/json"
)

// key is one of a mapping, with its schema.
type key struct {
	name   string
	schema map[string]any
}

func keys(of []key) []string {
	names := make([]string, len(of))
	for i, k := range of {
		names[i] = k.name
	}
	return names
}

// words are what YAML 1.1 and Ansible take for a boolean.
var words = []any{true, false, nil, "true", "false", "yes", "no", "on", "off", "True", "False", "Yes", "No", "On", "Off", "TRUE", "FALSE", "YES", "NO", "ON", "OFF"}

func boolean(description string) map[string]any {
	return map[string]any{"enum": words, "description": description}
}

var rootKeys = []key{
	{"description", map[string]any{"type": []string{"string", "number", "boolean", "null"}, "description": "What the scenario shows."}},
	{"resource", map[string]any{"type": "object", "required": []string{"kind"}, "description": "The custom resource that is run. apiVersion may be left out."}},
	{"objects", map[string]any{"type": []string{"array", "null"}, "items": map[string]any{"type": "object"}, "description": "Other objects of Kubernetes that the playbook reads, such as Secrets."}},
	{"expect", map[string]any{
		"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties(expectKeys),
		"description": "What is true after the first run.",
	}},
	{"idempotence", boolean("A second run changes nothing. The default is true.")},
	{"check", boolean("A drift check after the second run works, and finds nothing; one after the deletion finds a difference, and changes nothing. The default is supportsCheckMode of the kind.")},
	{"deletion", boolean("The finalizer playbook succeeds, and leaves none of the objects in Kubernetes that the playbook made. The default is true if the kind has a finalizer.")},
	{"recreation", boolean("A run after the deletion changes as many tasks as the first one, and is deleted again. The default is deletion.")},
	{"unreachable", boolean("A run fails if the endpoint does not answer. The default is true.")},
}

var expectKeys = []key{
	{"outcome", map[string]any{"enum": []any{"Succeeded", "Requeued", "Failed", nil, ""}, "description": "Outcome of the run. The default is Succeeded."}},
	{"status", map[string]any{"type": []string{"object", "null"}, "description": "Fields that the status has. It may have more, and lists more items."}},
}

func properties(of []key) map[string]any {
	out := map[string]any{}
	for _, k := range of {
		out[k.name] = k.schema
	}
	return out
}

// Schema returns the JSON Schema (draft 7) of a scenario.
func Schema() ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "scenario of an operator collection",
		"description": "A custom resource, and what has to be true of its runs, for kubectl collection test.",
		"type":        "object", "required": []string{"resource"}, "additionalProperties": false, "properties": properties(rootKeys),
	})
	return b.Bytes(), err
}
