package mustgather

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/support/doctor"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// minScrubbed is the length from which on a value that was replaced is replaced in all other texts too. Shorter ones are parts of words.
const minScrubbed = 4

// minScrubbedNumber is the same for numbers, which are often sizes and ports.
const minScrubbedNumber = 6

var (
	// sensitive matches names of values that are secret.
	sensitive = regexp.MustCompile(`(?i)pass|pwd|secret|token|(?:api|private|access)[_-]?key|credential|authorization`)
	// reference are names of fields of Kubernetes and of ours that match, and that hold names or are no secrets.
	reference = regexp.MustCompile(`(?i)(secrets|name|type|kind|path|policy|ref|accepted|expirationseconds)$|^(credentialsSecret|signatureSecret|serviceAccountToken)$`)

	// annotations whose values are shown. Others may hold anything, such as the whole object as it was applied.
	shownAnnotations = regexp.MustCompile(`^([a-z0-9.-]+\.)?(zoscb\.ibm\.com|operatorframework\.io|openshift\.io)/|^(olm\.|deployment\.kubernetes\.io/)`)
	hiddenAnnotation = "zoscb.ibm.com/run-record"

	// shownVariables are variables of ZosEndpoints that Ansible and the z/OS collections need, and that are no secrets.
	shownVariables = []string{
		"ansible_connection", "ansible_host", "ansible_port", "ansible_python_interpreter", "ansible_remote_tmp", "ansible_user", "pyz", "zoau",
	}
	// shownBrokerFields are fields of a ZosCloudBroker that the manager uses.
	shownBrokerFields = []string{"license", "logLevel", "multiNamespace", "galaxyConfig"}
)

// redactor replaces secrets.
type redactor struct {
	// secrets are the names of Secrets by namespace, and those of all under the empty one.
	secrets map[string]map[string]bool
	// variables that the collections of a namespace declare.
	variables map[doctor.NamespacedKind][]gate.Variable
	// values that were replaced, which are secrets wherever they are.
	values map[string]bool
	// replacer replaces them. It is made for the first text.
	replacer *strings.Replacer
}

// newRedactor learns from the runtime ConfigMaps which fields hold the names of Secrets.
func newRedactor(s *snapshot.Snapshot) *redactor {
	r := &redactor{secrets: map[string]map[string]bool{"": {}}, variables: map[doctor.NamespacedKind][]gate.Variable{}, values: map[string]bool{}}
	for _, secret := range s.Secrets {
		if r.secrets[secret.Namespace] == nil {
			r.secrets[secret.Namespace] = map[string]bool{}
		}
		r.secrets[secret.Namespace][secret.Name], r.secrets[""][secret.Name] = true, true
	}
	doctor.EachKind(s, func(kind doctor.NamespacedKind, of gate.KindSettings) {
		r.variables[kind] = merged(r.variables[kind], of.Variables)
		r.defaults(of.Variables)
	})
	return r
}

// merged returns the variables of two versions. What one of them declares as a secret is one.
func merged(into, from []gate.Variable) []gate.Variable {
	for _, variable := range from {
		i := slices.IndexFunc(into, func(v gate.Variable) bool { return v.Name == variable.Name })
		if i < 0 {
			into = append(into, variable)
			continue
		}
		into[i].Secret = into[i].Secret || variable.Secret
		into[i].Fields = merged(into[i].Fields, variable.Fields)
	}
	return into
}

// defaults learns the defaults of passwords: authors may have mistaken them for secrets.
func (r *redactor) defaults(variables []gate.Variable) {
	for _, variable := range variables {
		r.defaults(variable.Fields)
		var text string
		if variable.Secret && json.Unmarshal(variable.Default, &text) == nil && !r.isSecretName("", text) {
			r.remember(text)
		}
	}
}

// isSecretName reports whether a Secret has the name, in a namespace or in any.
func (r *redactor) isSecretName(namespace, name string) bool { return r.secrets[namespace][name] }

// words are values that say nothing.
var words = []string{"true", "false", "null", "none"}

func (r *redactor) remember(value string) {
	if len(value) >= minScrubbed && !slices.Contains(words, strings.ToLower(value)) && value != redacted {
		r.values[value] = true
	}
}

// hide returns what is shown instead of a value. The texts in it are secrets wherever they are.
func (r *redactor) hide(value any) any {
	switch value := value.(type) {
	case string:
		r.remember(value)
	case int64, float64:
		if text := fmt.Sprint(value); len(text) >= minScrubbedNumber {
			r.remember(text)
		}
	case map[string]any:
		for _, inner := range value {
			r.hide(inner)
		}
	case []any:
		for _, inner := range value {
			r.hide(inner)
		}
	}
	return redacted
}

// object returns a copy of an object without secrets. Values that it hides are to be removed from all texts afterwards, with text.
func (r *redactor) object(object *unstructured.Unstructured) map[string]any {
	copied := object.DeepCopy()
	kind := copied.GroupVersionKind().GroupKind()
	copied.SetManagedFields(nil)
	if annotations, ok, _ := unstructured.NestedFieldNoCopy(copied.Object, "metadata", "annotations"); ok {
		fields, _ := annotations.(map[string]any)
		hideAnnotations(fields)
	}
	spec, _ := copied.Object["spec"].(map[string]any)
	switch {
	case kind == snapshot.ZosEndpoint:
		r.endpointVariables(spec)
	case kind == snapshot.ZosCloudBroker:
		r.brokerFields(spec)
	case kind == snapshot.InstallPlan:
		withoutManifests(copied.Object)
	case kind == snapshot.ClusterServiceVersion:
		delete(spec, "icon")
	case kind == snapshot.OperatorCollection && spec["collectionURLToken"] != nil:
		spec["collectionURLToken"] = r.hide(spec["collectionURLToken"])
	case doctor.IsCollectionGroup(kind.Group):
		r.resourceSpec(kind, copied.GetNamespace(), spec)
		unstructured.RemoveNestedField(copied.Object, "status", "drift", "diff") // Parts of files.
		r.fields(copied.Object["status"])
	}
	if kind.Group != "apiextensions.k8s.io" && !doctor.IsCollectionGroup(kind.Group) {
		r.fields(copied.Object)
	}
	return copied.Object
}

// withoutManifests removes from an InstallPlan the manifests of what it installs: texts that may be those of Secrets.
func withoutManifests(plan map[string]any) {
	unstructured.RemoveNestedField(plan, "status", "bundleLookups")
	status, _ := plan["status"].(map[string]any)
	steps, _ := status["plan"].([]any)
	for _, step := range steps {
		if fields, ok := step.(map[string]any); ok {
			unstructured.RemoveNestedField(fields, "resource", "manifest")
		}
	}
}

// hideAnnotations replaces values that may be anything.
func hideAnnotations(annotations map[string]any) {
	for name := range annotations {
		if !shownAnnotations.MatchString(name) || name == hiddenAnnotation {
			annotations[name] = redacted
		}
	}
}

// brokerFields hides what the manager does not use: the API server keeps it unchecked.
func (r *redactor) brokerFields(spec map[string]any) {
	for name, value := range spec {
		if !slices.Contains(shownBrokerFields, name) {
			spec[name] = r.hide(value)
		}
	}
}

// endpointVariables hides values that are not known to be harmless.
func (r *redactor) endpointVariables(spec map[string]any) {
	variables, _ := spec["variables"].([]any)
	for i, variable := range variables {
		switch variable := variable.(type) {
		case string:
			at := strings.IndexAny(variable, ":=")
			name := strings.TrimSpace(variable[:max(at, 0)])
			if at < 0 || !slices.Contains(shownVariables, name) {
				r.hideSensitive(name, strings.Trim(strings.TrimSpace(variable[at+1:]), `"'`))
				variables[i] = name + ": " + redacted
			}
		case map[string]any:
			if name, _ := variable["name"].(string); !slices.Contains(shownVariables, name) {
				variable["value"] = r.hideSensitive(name, variable["value"])
			}
		default:
			variables[i] = redacted
		}
	}
}

// hideSensitive hides a value, and removes it from other texts only if its name is that of a secret: others may be common words.
func (r *redactor) hideSensitive(name string, value any) any {
	if sensitive.MatchString(name) {
		return r.hide(value)
	}
	return redacted
}

// resourceSpec hides passwords in the spec of a custom resource. If its variables are not known, it hides all texts.
func (r *redactor) resourceSpec(kind schema.GroupKind, namespace string, spec map[string]any) {
	variables, known := r.variables[doctor.NamespacedKind{Namespace: namespace, GroupKind: kind}]
	for name, value := range spec {
		if name == render.EndpointField {
			continue
		}
		i := slices.IndexFunc(variables, func(v gate.Variable) bool { return v.Name == name })
		switch {
		case !known || i < 0:
			spec[name] = r.hideSensitive(name, value)
		default:
			spec[name] = r.variable(&variables[i], namespace, value)
		}
	}
}

func (r *redactor) variable(variable *gate.Variable, namespace string, value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = r.variable(variable, namespace, value[i])
		}
	case map[string]any:
		for name, inner := range value {
			i := slices.IndexFunc(variable.Fields, func(v gate.Variable) bool { return v.Name == name })
			if i < 0 {
				value[name] = r.hideSensitive(name, inner)
				continue
			}
			value[name] = r.variable(&variable.Fields[i], namespace, inner)
		}
	case string:
		if variable.Secret && !r.isSecretName(namespace, value) || !variable.Secret && sensitive.MatchString(variable.Name) {
			return r.hide(value)
		}
	case int64, float64:
		if variable.Secret || sensitive.MatchString(variable.Name) {
			return r.hide(value)
		}
	}
	return value
}

// fields hides environment variables, annotations, and fields whose name is that of a secret, at any depth.
func (r *redactor) fields(value any) {
	switch value := value.(type) {
	case []any:
		for _, inner := range value {
			r.fields(inner)
		}
	case map[string]any:
		for name, inner := range value {
			list, isList := inner.([]any)
			fields, isMap := inner.(map[string]any)
			switch {
			case name == "env" && isList:
				r.environment(list)
			case isMap && strings.HasSuffix(strings.ToLower(name), "annotations"):
				hideAnnotations(fields)
			case strings.EqualFold(name, "secret") && isMap: // A volume.
				r.fields(inner)
			case isSecretField(name, inner):
				value[name] = r.hide(inner)
			default:
				r.fields(inner)
			}
		}
	}
}

// isSecretField reports whether a field holds a secret: by its name, and whatever it is but true, false or nothing.
func isSecretField(name string, value any) bool {
	if value == nil || value == "" || value == true || value == false {
		return false
	}
	return sensitive.MatchString(name) && !reference.MatchString(name)
}

func (r *redactor) environment(list []any) {
	for _, item := range list {
		variable, _ := item.(map[string]any)
		name, _ := variable["name"].(string)
		if value, ok := variable["value"].(string); ok && value != "" {
			variable["value"] = r.hideSensitive(name, value)
		}
	}
}

// text returns a text without secrets: those that were found in objects, and what looks like one. No objects may follow.
func (r *redactor) text(text string) string {
	text = withoutSecrets(text)
	if r.replacer == nil {
		r.replacer = r.newReplacer()
	}
	return r.replacer.Replace(text)
}

// leaves removes secrets from all texts in a value.
func (r *redactor) leaves(value any) any {
	switch value := value.(type) {
	case string:
		return r.text(value)
	case []any:
		for i := range value {
			value[i] = r.leaves(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = r.leaves(value[name])
		}
	}
	return value
}

// newReplacer replaces the values that were hidden so far, also in JSON. A value may be part of another one, which goes first.
func (r *redactor) newReplacer() *strings.Replacer {
	var pairs []string
	for _, value := range slices.SortedFunc(maps.Keys(r.values), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) }) {
		pairs = append(pairs, value, redacted)
		if quoted, err := json.Marshal(value); err == nil {
			pairs = append(pairs, string(quoted[1:len(quoted)-1]), redacted)
		}
	}
	return strings.NewReplacer(pairs...)
}

// isShown reports whether objects of a kind are in archives. Secrets never are.
func isShown(kind schema.GroupKind) bool {
	return kind != schema.GroupKind{Kind: "Secret"}
}
