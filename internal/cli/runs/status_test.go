package runs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

const importedCollection = `
metadata: {namespace: zos, name: zos-files}
status:
  phase: Successful
  artifact: {digest: "sha256:0cc4d8f93ce2430e46e7f00441f107aee3816a8bdc6d276b3aaea2c5a36ff17f"}
  collection: {domain: example, name: zos-files, version: 1.0.0, apiVersion: suboperator.zoscb.ibm.com/v1minor0patch0, kinds: [DataFile]}
  conditions: [{type: Ready, status: "True", reason: Succeeded, message: all is well}]
`

const mappedTwice = `
metadata: {namespace: zos, name: zos-files-soc}
spec: {operatorCollection: zos-files, mapping: [{namespace: trading}, {namespace: zos}]}
status:
  message: namespace trading does not consent
  installations: [{namespace: zos, install: Direct, ready: true, digest: "sha256:0cc4d8f93ce2430e46e7f00441f107aee3816a8bdc6d276b3aaea2c5a36ff17f"}]
`

const drift = "{type: Drifted, status: 'True', reason: Drifted, message: 2 tasks would change the endpoint"

// resourceStatuses are statuses of resources by name.
var resourceStatuses = []struct{ name, status string }{
	{"changed", "{conditions: [{type: Ready, status: 'True', reason: Succeeded, message: the playbook ended successfully}, " + drift + "}], " +
		"drift: {checkedAt: '2026-11-22T09:11:00Z', diff: \"-a\\n+b\", checked: 4, unchecked: 1}, " + clitest.EndedRun + "}"},
	{"failed", "{conditions: [{type: Ready, status: 'False', reason: Failed, message: \"non-zero \\e[31mreturn code\\nsecond line\"}], " + clitest.RunningRun + ", outcome: Failed}}"},
	{"hello", "{phase: Author, conditions: [{type: Ready, status: 'True', reason: Outdated, message: the collection has changed since the last run}], " + clitest.EndedRun + "}"},
	{"known", "{conditions: [{type: Ready, status: 'True', reason: Outdated, message: the collection has changed since the last run}, " + drift + "}]}"},
	{"long", "{conditions: [{type: Ready, status: 'False', reason: Failed, message: " + strings.Repeat("x", 200) + "}]}"},
	{"new", "{}"},
	{"running", "{conditions: [{type: Ready, status: 'False', reason: Running, message: the playbook is running}], " + clitest.RunningRun + "}}"},
	{"strange", "{lastRun: 1}"},
}

// sampleReport is what the functions of status make of objects.
func sampleReport(t *testing.T) *statusReport {
	t.Helper()
	oc, failing, soc := &v2beta2.OperatorCollection{}, &v2beta2.OperatorCollection{}, &v2beta2.SubOperatorConfig{}
	for text, object := range map[string]any{importedCollection: oc, mappedTwice: soc} {
		if err := yaml.Unmarshal([]byte(text), object); err != nil {
			t.Fatal(err)
		}
	}
	failing.Namespace, failing.Name = "zos", "new"
	imported := describeCollection(oc)
	imported.Installations = describeInstallations(soc)
	zos := &imported.Installations[0]
	zos.Problems = []string{"you may not list filecopys in namespace zos"}
	zos.Endpoints = []endpointReport{{Name: "lpar1"}, {Name: "lpar2"}}
	for i, resource := range resourceStatuses {
		object := clitest.WithStatus(t, resource.status)
		object.SetName(resource.name)
		endpoint := &zos.Endpoints[i%2]
		endpoint.Resources = append(endpoint.Resources, describeResource(object))
	}
	return &statusReport{Collections: []collectionReport{imported, describeCollection(failing)}}
}

func TestStatusTree(t *testing.T) {
	var out bytes.Buffer
	if err := sampleReport(t).print(&out, time.Date(2026, 11, 22, 9, 12, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "status.txt", out.String())
}

func TestStatusJSON(t *testing.T) {
	var out bytes.Buffer
	if err := kit.EncodeJSON(&out, sampleReport(t)); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "status.json", out.String())
}
