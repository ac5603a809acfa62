// Package gitops judges objects as the GitOps tools do: as Argo CD with the health check that this project ships, in the Lua interpreter
// of Argo CD, and as Flux with its library.
package gitops

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Health is what a tool says about an object.
type Health struct {
	// Argo is a health status of Argo CD, Flux one of kstatus.
	Argo, Flux string
	// Message is that of Argo CD.
	Message string
}

// Checks are the health checks of Argo CD by group and kind, with wildcards.
type Checks map[string]struct {
	Lua string `json:"health.lua"`
}

// ReadChecks reads them from a ConfigMap argocd-cm.
func ReadChecks(configMap []byte) (Checks, error) {
	var content struct{ Data map[string]string }
	if err := yaml.UnmarshalStrict(configMap, &struct {
		APIVersion, Kind string
		Metadata         map[string]any
		Data             *map[string]string
	}{Data: &content.Data}); err != nil {
		return nil, err
	}
	checks := Checks{}
	return checks, yaml.UnmarshalStrict([]byte(content.Data["resource.customizations"]), &checks)
}

// Judge returns the health of an object. It fails if not exactly one check is meant for it, or if the check fails.
func (c Checks) Judge(object *unstructured.Unstructured) (Health, error) {
	result, err := status.Compute(object)
	if err != nil {
		return Health{}, err
	}
	health := Health{Flux: result.Status.String()}
	if object.GetDeletionTimestamp() != nil { // Argo CD asks no check.
		health.Argo = "Progressing"
		return health, nil
	}
	script, err := c.find(object)
	if err != nil {
		return Health{}, err
	}
	health.Argo, health.Message, err = run(script, object)
	return health, err
}

func (c Checks) find(object *unstructured.Unstructured) (string, error) {
	gvk := object.GroupVersionKind()
	var found []string
	for pattern, check := range c {
		matches, err := path.Match(pattern, gvk.Group+"/"+gvk.Kind)
		if err != nil {
			return "", fmt.Errorf("%s: %w", pattern, err)
		}
		if matches {
			found = append(found, check.Lua)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%d health checks match %s", len(found), gvk.GroupKind())
	}
	return found[0], nil
}

// run gives a script the libraries that Argo CD gives to scripts in its ConfigMap: base and table.
func run(script string, object *unstructured.Unstructured) (health, message string, err error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			return "", "", err
		}
	}
	state.SetGlobal("obj", value(state, object.Object))
	if err := state.DoString(script); err != nil {
		return "", "", err
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		return "", "", fmt.Errorf("the check returns %s instead of a table", state.Get(-1).Type())
	}
	for key, into := range map[string]*string{"status": &health, "message": &message} {
		text, ok := result.RawGetString(key).(lua.LString)
		if !ok {
			return "", "", fmt.Errorf("the check returns no text as %s", key)
		}
		*into = string(text)
	}
	return health, message, nil
}

// value converts a value of an unstructured object.
func value(state *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case bool:
		return lua.LBool(v)
	case string:
		return lua.LString(v)
	case json.Number:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	case []any:
		table := state.NewTable()
		for _, item := range v {
			table.Append(value(state, item))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for key, item := range v {
			table.RawSetString(key, value(state, item))
		}
		return table
	}
	return lua.LNil
}
