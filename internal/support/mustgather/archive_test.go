package mustgather

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/support/doctor"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// planted are secrets by where they are. None may be in an archive.
var planted = map[string]string{
	"Secret":                      "planted-in-secret",
	"last-applied configuration":  "planted-last-applied",
	"other annotation":            "planted-annotation",
	"run record":                  "planted-record",
	"token in a spec":             "planted-spec-token",
	"query of a URL":              "planted-query",
	"user of a URL":               "planted-userinfo",
	"password in a resource":      "planted password, \"quoted\"",
	"password in a list":          "planted-list",
	"password in an object":       "planted-object",
	"field with a telling name":   "planted-by-name",
	"resource of an unknown kind": "planted-unknown",
	"default of a password":       "planted-default",
	"status of an author":         "planted-status",
	"drift":                       "planted-drift",
	"variable as text":            "planted-variable1",
	"variable as assignment":      "planted-variable2",
	"variable as object":          "planted-variable3",
	"environment":                 "planted-env",
	"field without a meaning":     "planted-broker",
	"manifest in an InstallPlan":  "planted-manifest",
	"bundle of an InstallPlan":    "planted-bundle",
	"annotation of a pod":         "planted-pod-annotation",
	"annotation of a template":    "planted-template",
	"number in a status":          "424242424",
	"object in a status":          "planted-credentials",
	"secret in a status":          "planted-client-secret",
	"password of two versions":    "planted-versions",
	"log, begin of a key is cut":  "planted/cut/key",
	"log, JSON in JSON":           "planted-log1",
	"log, assignment":             "planted-log2;more",
	"log, header":                 "planted0bearer0token",
	"log, key":                    "planted+private+key",
	"log, quoted":                 "planted log3",
}

func plant(text string) string {
	for name, value := range planted {
		text = strings.ReplaceAll(text, "<"+name+">", value)
	}
	return text
}

var objects = []string{`
apiVersion: v1
kind: Secret
metadata: {namespace: zos, name: logon}
stringData: {password: "<Secret>"}`, `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: zos, name: acme-files-operator-runtime}
data:
  runs.json: '{"group":"suboperator.zoscb.ibm.com","kinds":{"DataFile":{"plural":"datafiles","variables":[{"name":"content"},{"name":"secret","secret":true,"default":"<default of a password>"},
    {"name":"secrets","secret":true},{"name":"db","fields":[{"name":"user"},{"name":"logon","secret":true}]},{"name":"api_key"},{"name":"old"}]}}}'`, `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: zos, name: acme-files-canary-operator-runtime}
data:
  runs.json: '{"group":"suboperator.zoscb.ibm.com","kinds":{"DataFile":{"variables":[{"name":"old","secret":true}]}}}'`, `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: other, name: acme-files-operator-runtime}
data:
  runs.json: '{"group":"other.domain.suboperator.zoscb.ibm.com","kinds":{"Unknown":{"variables":[{"name":"text"}]}}}'`, `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: zos, name: anything}
data:
  runs.json: '{"group":"other.domain.suboperator.zoscb.ibm.com","kinds":{"Unknown":{"variables":[{"name":"text"}]}}}'`, `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: zos, name: acme-files-operator}
spec: {template: {metadata: {annotations: {vault.example.com/x: "<annotation of a template>"}}, spec: {automountServiceAccountToken: false}}}`, `
apiVersion: zoscb.ibm.com/v2beta2
kind: OperatorCollection
metadata:
  namespace: zos
  name: files
  managedFields: [{manager: kubectl}]
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"collectionURLToken":"<last-applied configuration>"}}'
    example.com/note: <other annotation>
    zoscb.ibm.com/retry: shown
spec:
  collectionURL: https://<user of a URL>:x@example.com/files.tar.gz?sig=<query of a URL>
  collectionURLToken: <token in a spec>
  credentialsSecret: download
  runtime: {podAnnotations: {vault.example.com/x: "<annotation of a pod>", zoscb.ibm.com/y: shown-annotation}, env: [{name: DB_PASSWORD, value: <environment>}]}
status: {message: "GET https://example.com/files.tar.gz?sig=<query of a URL>: the server answered 403; token <token in a spec>"}`, `
apiVersion: zoscb.ibm.com/v2beta2
kind: ZosEndpoint
metadata: {namespace: zos, name: lpar1}
spec:
  host: lpar1.example.com
  variables: ["ansible_password: <variable as text>", "ansible_become_pass=<variable as assignment>", {name: my_token, value: [<variable as object>]}, "pyz: /usr/lpp/python", "zoau=/usr/lpp/zoau"]`, `
apiVersion: zoscb.ibm.com/v2beta1
kind: ZosCloudBroker
metadata: {namespace: system, name: broker}
spec: {logLevel: debug, unknown: {key: <field without a meaning>}}`, `
apiVersion: suboperator.zoscb.ibm.com/v1
kind: DataFile
metadata: {namespace: zos, name: hello, annotations: {zoscb.ibm.com/run-record: "<run record>"}}
spec:
  zosendpoint: lpar1
  content: shown content
  secret: '<password in a resource>'
  secrets: [logon, <password in a list>]
  db: {user: shown-user, logon: <password in an object>}
  api_key: <field with a telling name>
  old: <password of two versions>
status:
  message: Secret "<password in a resource>" was not found
  drift: {diff: "-<drift>"}
  generated_password: <status of an author>
  pin_token: <number in a status>
  has_password: true
  client_secret: <secret in a status>
  credentials: {user: [<object in a status>]}`, `
apiVersion: other.domain.suboperator.zoscb.ibm.com/v1
kind: Unknown
metadata: {namespace: zos, name: hello}
spec: {zosendpoint: lpar1, text: <resource of an unknown kind>}`, `
apiVersion: operators.coreos.com/v1alpha1
kind: InstallPlan
metadata: {namespace: zos, name: install-1}
status:
  phase: Failed
  bundleLookups: [{path: "<bundle of an InstallPlan>"}]
  plan:
  - {resolving: files, resource: {kind: Secret, name: shown-step, manifest: '{"kind":"Secret","stringData":{"a":"<manifest in an InstallPlan>"}}'}}
  - broken`, `
apiVersion: v1
kind: Event
metadata: {namespace: zos, name: e1}
involvedObject: {kind: DataFile, namespace: zos, name: hello}
type: Warning
reason: Failed
count: 3
lastTimestamp: "2026-11-22T10:00:00Z"
message: Secret <password in a list> was not found`, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "../zoscb:zos:acme"}`,
}

const operatorLog = `<log, begin of a key is cut>
-----END OPENSSH PRIVATE KEY-----
{"level":"info","line":"ok: [lpar1]"}
{"level":"info","line":"fatal: {\"invocation\": {\"module_args\": {\"password\": \"<log, JSON in JSON>\"}}}"}
TSO_PASSWORD=<log, assignment> and db_password: "<log, quoted>"
Authorization: Bearer <log, header>
-----BEGIN OPENSSH PRIVATE KEY-----
<log, key>
-----END OPENSSH PRIVATE KEY-----
the variable was <variable as object>, the field <field with a telling name>, the URL https://<user of a URL>@example.com/x
`

func content(t *testing.T) Content {
	t.Helper()
	s := snapshot.New(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	s.ServesAPI, s.ServerVersion = true, "v1.36.0"
	s.Completed(snapshot.ManagerSets, "")
	s.Completed(snapshot.ManagerDeployments, "")
	for _, text := range objects {
		text = strings.ReplaceAll(text, "'<password in a resource>'", `'planted password, "quoted"'`)
		text = strings.ReplaceAll(text, `message: Secret "<password in a resource>" was not found`, `message: 'Secret planted password, "quoted" was not found'`)
		raw, err := yaml.YAMLToJSON([]byte(plant(text)))
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(raw); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		s.Add(object)
	}
	s.Secrets = []snapshot.Secret{{Namespace: "zos", Name: "download"}, {Namespace: "zos", Name: "logon", Type: "kubernetes.io/ssh-auth", Annotations: []string{"kubectl.kubernetes.io/last-applied-configuration"}}}
	s.Unread = []string{"you may not read pods in namespace other"}
	return Content{
		Snapshot: s, Report: doctor.Diagnose(s), ToolVersion: "1.0.0",
		Logs: []snapshot.Log{
			{Namespace: "zos", Pod: "operator-0", Container: "operator", Text: []byte(plant(operatorLog))},
			{Namespace: "zos", Pod: "operator-0", Container: "operator", Previous: true, Text: []byte("previous\n")},
		},
	}
}

// unpack returns the files of an archive.
func unpack(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	uncompressed, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(uncompressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}

func gather(t *testing.T, c Content, limit int) (files map[string]string, archive []byte) {
	t.Helper()
	var out bytes.Buffer
	result, err := write(&out, "gathered", c, limit)
	if err != nil {
		t.Fatal(err)
	}
	files = unpack(t, out.Bytes())
	if result.Files != len(files) {
		t.Errorf("the result is %+v, and there are %d files", result, len(files))
	}
	return files, out.Bytes()
}

func TestArchiveHasNoSecret(t *testing.T) {
	files, _ := gather(t, content(t), MaxBytes)
	for name, text := range files {
		for where, value := range planted {
			for _, form := range []string{value, base64.StdEncoding.EncodeToString([]byte(value)), strings.ReplaceAll(value, `"`, `\"`)} {
				if strings.Contains(text, form) || strings.Contains(name, form) {
					t.Errorf("%s has the secret planted in: %s\n%s", name, where, text)
				}
			}
		}
	}
}

func TestArchive(t *testing.T) {
	files, first := gather(t, content(t), MaxBytes)
	want := []string{
		"gathered/cluster/clusterrole.rbac.authorization.k8s.io/.._zoscb_zos_acme.yaml",
		"gathered/doctor.json", "gathered/doctor.txt",
		"gathered/namespaces/other/configmap/acme-files-operator-runtime.yaml",
		"gathered/namespaces/system/zoscloudbroker.zoscb.ibm.com/broker.yaml",
		"gathered/namespaces/zos/configmap/acme-files-canary-operator-runtime.yaml",
		"gathered/namespaces/zos/configmap/acme-files-operator-runtime.yaml",
		"gathered/namespaces/zos/configmap/anything.yaml",
		"gathered/namespaces/zos/datafile.suboperator.zoscb.ibm.com/hello.yaml",
		"gathered/namespaces/zos/deployment.apps/acme-files-operator.yaml",
		"gathered/namespaces/zos/events.txt",
		"gathered/namespaces/zos/installplan.operators.coreos.com/install-1.yaml",
		"gathered/namespaces/zos/logs/operator-0/operator.log", "gathered/namespaces/zos/logs/operator-0/operator.previous.log",
		"gathered/namespaces/zos/operatorcollection.zoscb.ibm.com/files.yaml",
		"gathered/namespaces/zos/secrets-without-content.yaml",
		"gathered/namespaces/zos/unknown.other.domain.suboperator.zoscb.ibm.com/hello.yaml",
		"gathered/namespaces/zos/zosendpoint.zoscb.ibm.com/lpar1.yaml",
		"gathered/not-in-this-archive.txt", "gathered/versions.yaml",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for name, texts := range map[string][]string{
		"namespaces/zos/datafile.suboperator.zoscb.ibm.com/hello.yaml":   {"content: shown content", "- logon\n", "user: shown-user", "zosendpoint: lpar1", "secret: REDACTED", "has_password: true"},
		"namespaces/zos/operatorcollection.zoscb.ibm.com/files.yaml":     {"https://REDACTED@example.com/files.tar.gz?REDACTED\n", "zoscb.ibm.com/y: shown-annotation", "credentialsSecret: download", "zoscb.ibm.com/retry: shown", "name: DB_PASSWORD"},
		"namespaces/zos/zosendpoint.zoscb.ibm.com/lpar1.yaml":            {"pyz: /usr/lpp/python", "zoau=/usr/lpp/zoau", "host: lpar1.example.com"},
		"namespaces/zos/deployment.apps/acme-files-operator.yaml":        {"automountServiceAccountToken: false"},
		"namespaces/zos/secrets-without-content.yaml":                    {"type: kubernetes.io/ssh-auth", "- kubectl.kubernetes.io/last-applied-configuration"},
		"namespaces/zos/events.txt":                                      {"2026-11-22T10:00:00Z Warning Failed datafile/hello x3: Secret REDACTED was not found\n"},
		"namespaces/zos/logs/operator-0/operator.log":                    {`"line":"ok: [lpar1]"`, `\"password\": \"REDACTED\"`},
		"namespaces/zos/installplan.operators.coreos.com/install-1.yaml": {"name: shown-step", "phase: Failed"},
		"doctor.txt":              {"error manager/collection-operator: NotFound"},
		"not-in-this-archive.txt": {"you may not read pods in namespace other"},
		"versions.yaml":           {"server: v1.36.0", "kubectl-collection: 1.0.0"},
	} {
		for _, text := range texts {
			if got := files["gathered/"+name]; !strings.Contains(got, text) {
				t.Errorf("%s does not have %q:\n%s", name, text, got)
			}
		}
	}
	if _, second := gather(t, content(t), MaxBytes); !bytes.Equal(first, second) {
		t.Error("the same content gives another archive")
	}
}

func TestArchiveIsBounded(t *testing.T) {
	c := content(t)
	large := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "zos", "name": "large"},
		"data": map[string]any{"a": strings.Repeat("x", maxObjectBytes)},
	}}
	c.Snapshot.Add(large)
	const limit = 64 << 10
	text := bytes.Repeat([]byte("a line of a log\n"), 1024)
	for _, container := range []string{"a", "b", "c", "d", "e"} {
		c.Logs = append(c.Logs, snapshot.Log{Namespace: "zos", Pod: "p", Container: container, Text: text})
	}
	files, _ := gather(t, c, limit)
	size := 0
	for name, text := range files {
		if name != "gathered/not-in-this-archive.txt" {
			size += len(text)
		}
	}
	if size > limit || size < limit/2 {
		t.Errorf("the files have %d bytes", size)
	}
	left := files["gathered/not-in-this-archive.txt"]
	for _, name := range []string{"namespaces/zos/configmap/large.yaml", "namespaces/zos/logs/p/e.log"} {
		if !strings.Contains(left, name+" is too large, or the archive is\n") {
			t.Errorf("%s is not named as left out: %s", name, left)
		}
	}
}
