package gitops

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func projectChecks(t *testing.T) Checks {
	t.Helper()
	checks, err := ProjectChecks()
	if err != nil {
		t.Fatal(err)
	}
	return checks
}

// recorded is what both tools say about what the specs recorded. A resource that Argo CD calls Suspended waits for a user or a time.
var recorded = map[string]Health{
	"resource-pending":      {"Progressing", "InProgress", "no operator has seen this resource yet"},
	"resource-running":      {"Progressing", "InProgress", "the playbook is running"},
	"resource-succeeded":    {"Healthy", "Current", "the playbook ended successfully"},
	"resource-outdated":     {"Healthy", "Current", "of the collection is installed"},
	"resource-changed":      {"Progressing", "InProgress", "the last change has not been seen yet"},
	"resource-retry":        {"Progressing", "InProgress", "the run exceeded the time limit runtime.runTimeout"},
	"resource-cancelled":    {"Degraded", "Failed", "it is not tried again"},
	"resource-held":         {"Suspended", "InProgress", "ZosEndpoint lpar1 is on hold"},
	"resource-window":       {"Suspended", "InProgress", "run window"},
	"resource-refused":      {"Degraded", "Failed", "Permission denied"},
	"resource-unreachable":  {"Progressing", "InProgress", "cannot be reached since"},
	"resource-deleting":     {"Progressing", "Terminating", ""},
	"resource-no-operator":  {"Degraded", "Failed", "no operator runs for this resource"},
	"collection-ready":      {"Healthy", "Current", ""},
	"collection-refused":    {"Degraded", "Failed", "digest"},
	"collection-unfetched":  {"Progressing", "InProgress", "404"},
	"collection-installing": {"Progressing", "InProgress", ""},
	"config-ready":          {"Healthy", "Current", "version 1.0.0"},
	"config-waiting":        {"Progressing", "InProgress", "OperatorCollection \"oc\""},
	"endpoint-ready":        {"Healthy", "Current", ""},
	"endpoint-refused":      {"Degraded", "Failed", "spec.hostKeys[0]"},
}

func TestHealthOfRecordedObjects(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if _, expected := recorded[name]; !expected {
			t.Errorf("nothing is expected of %s", file)
		}
	}
	checks := projectChecks(t)
	for name, want := range recorded {
		t.Run(name, func(t *testing.T) {
			object, err := Recorded(name)
			if err != nil {
				t.Fatal(err)
			}
			got, err := checks.Judge(object)
			if err != nil {
				t.Fatal(err)
			}
			if got.Argo != want.Argo || got.Flux != want.Flux || !strings.Contains(got.Message, want.Message) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// Both tools may be used in one cluster: they agree about what is well and what needs a user.
func TestBothToolsAgree(t *testing.T) {
	same := map[string][]string{
		"Healthy": {"Current"}, "Degraded": {"Failed"}, "Suspended": {"InProgress"}, "Progressing": {"InProgress", "Terminating"},
	}
	for name, health := range recorded {
		agree := false
		for _, flux := range same[health.Argo] {
			agree = agree || flux == health.Flux
		}
		if !agree {
			t.Errorf("%s: %s and %s", name, health.Argo, health.Flux)
		}
	}
}

func object(apiVersion, kind string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "a", "generation": int64(2)}, "spec": map[string]any{},
	}}
}

func TestOneCheckForEachKind(t *testing.T) {
	checks := projectChecks(t)
	for apiVersion, kind := range map[string]string{
		"zoscb.ibm.com/v2beta2":                                      "ZosEndpoint",
		"suboperator.zoscb.ibm.com/v1minor0patch0":                   "DataFile",
		"things.acme.example.suboperator.zoscb.ibm.com/v1":           "Thing",
		"zos-files.example.suboperator.zoscb.ibm.com/v1minor0patch0": "Job",
	} {
		got, err := checks.Judge(object(apiVersion, kind))
		if diff := cmp.Diff(Health{"Progressing", "Current", "there is no status yet"}, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", apiVersion, err, diff)
		}
	}
	for _, apiVersion := range []string{"apps/v1", "example.com/v1", "xzoscb.ibm.com/v1"} {
		if _, err := checks.Judge(object(apiVersion, "Thing")); err == nil {
			t.Errorf("there is a check for %s", apiVersion)
		}
	}
}

// Flux takes an object without status for one that is current.
func TestNewObjectsOfTheManagerAreNotReady(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("../..", "config", "crd", "bases", "*.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	checks := projectChecks(t)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, crd); err != nil {
			t.Fatal(err)
		}
		version, internal := crd.Spec.Versions[0], &apiextensions.JSONSchemaProps{}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, internal, nil); err != nil {
			t.Fatal(err)
		}
		structural, err := schema.NewStructural(internal)
		if err != nil {
			t.Fatal(err)
		}
		fresh := object(crd.Spec.Group+"/"+version.Name, crd.Spec.Names.Kind)
		delete(fresh.Object, "spec")
		defaulting.Default(fresh.Object, structural)
		message := "there is no status yet"
		if crd.Spec.Names.Kind == "ZosEndpoint" {
			message = "the manager has not seen this object yet"
			if _, found, _ := unstructured.NestedFieldNoCopy(fresh.Object, "status", "observedGeneration"); found {
				t.Error("managers that are older than the CRD would not restore the pinned host keys of a ZosEndpoint")
			}
		}
		got, err := checks.Judge(fresh)
		if diff := cmp.Diff(Health{"Progressing", "InProgress", message}, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", crd.Spec.Names.Kind, err, diff)
		}
	}
}

// A variable or a kind of a collection may have any name.
func TestSuspendIsThatOfCollections(t *testing.T) {
	checks := projectChecks(t)
	for apiVersion, want := range map[string]string{"zoscb.ibm.com/v2beta2": "Suspended", "suboperator.zoscb.ibm.com/v1": "Progressing"} {
		suspended := object(apiVersion, "OperatorCollection")
		suspended.Object["spec"] = map[string]any{"suspend": true}
		got, err := checks.Judge(suspended)
		if err != nil || got.Argo != want {
			t.Errorf("%s: %+v, %v", apiVersion, got, err)
		}
	}
}

func TestChecksThatCannotBeUsedAreFound(t *testing.T) {
	for want, script := range map[string]string{
		"instead of a table": "return 1",
		"no text as":         "return {status = 1}",
		"non-function":       "return string_of(obj)",
		"non-table":          "return obj.status.phase",
		"syntax error":       "return {",
	} {
		if _, _, err := run(script, object("a/v1", "B")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestDocsShowTheCheck(t *testing.T) {
	content, err := os.ReadFile("../../docs/gitops.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), checksFile) {
		t.Errorf("docs/gitops.md does not name %s", checksFile)
	}
}
