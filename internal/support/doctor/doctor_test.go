package doctor

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

var update = flag.Bool("update", false, "rewrite golden files")

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// healthy are objects by a short name, of which everything works.
var healthy = map[string]string{
	"manager": `
apiVersion: apps/v1
kind: StatefulSet
metadata: {namespace: system, name: manager, labels: {app.kubernetes.io/name: collection-operator}}
spec: {replicas: 2, template: {spec: {containers: [{name: manager, image: "manager:1.0"}]}}}
status: {readyReplicas: 2}`,
	"claim": `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {namespace: system, name: archives-0, labels: {app.kubernetes.io/name: collection-operator}}
status: {phase: Bound}`,
	"manager pod": `
apiVersion: v1
kind: Pod
metadata: {namespace: system, name: manager-0, creationTimestamp: "2026-11-22T09:00:00Z", labels: {app.kubernetes.io/name: collection-operator}}
spec: {volumes: [{name: archives, persistentVolumeClaim: {claimName: archives-0}}]}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}`,
	"collection": `
apiVersion: zoscb.ibm.com/v2beta2
kind: OperatorCollection
metadata: {namespace: zos, name: files, generation: 1, creationTimestamp: "2026-11-22T09:00:00Z"}
spec: {credentialsSecret: download}
status:
  collection: {domain: acme, name: files, version: 1.0.0, apiVersion: suboperator.zoscb.ibm.com/v1minor0patch0, kinds: [DataFile]}
  conditions:
  - {type: Ready, status: "True", reason: Succeeded, observedGeneration: 1}
  - {type: Imported, status: "True", reason: Succeeded, observedGeneration: 1}`,
	"config": `
apiVersion: zoscb.ibm.com/v2beta2
kind: SubOperatorConfig
metadata: {namespace: zos, name: files-soc, generation: 1, creationTimestamp: "2026-11-22T09:00:00Z"}
spec: {operatorCollection: files, mapping: [{namespace: zos}]}
status:
  collection: {domain: acme, name: files}
  installations: [{namespace: zos, digest: "sha256:0", install: Direct, ready: true}]
  conditions: [{type: Ready, status: "True", reason: Succeeded, observedGeneration: 1}]`,
	"endpoint": `
apiVersion: zoscb.ibm.com/v2beta2
kind: ZosEndpoint
metadata: {namespace: zos, name: lpar1, generation: 1, creationTimestamp: "2026-11-22T09:00:00Z"}
spec: {host: lpar1.example.com, credentialName: logon}
status:
  conditions:
  - {type: Ready, status: "True", reason: Succeeded, observedGeneration: 1}
  - {type: Reachable, status: "True", reason: Succeeded, observedGeneration: 1}`,
	"definition": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: datafiles.suboperator.zoscb.ibm.com, labels: {managed-by: ibm-zos-cloud-broker, operator-domain: acme, operator-name: files}}
spec: {group: suboperator.zoscb.ibm.com, names: {kind: DataFile, plural: datafiles}, scope: Namespaced, versions: [{name: v1minor0patch0, served: true, storage: true}]}
status: {storedVersions: [v1minor0patch0], conditions: [{type: Established, status: "True"}]}`,
	"operator": `
apiVersion: apps/v1
kind: Deployment
metadata:
  namespace: zos
  name: acme-files-operator
  generation: 1
  annotations: {zoscb.ibm.com/suboperatorconfig: zos/files-soc}
  labels: {managed-by: ibm-zos-cloud-broker, operator-domain: acme, operator-name: files}
spec: {template: {spec: {containers: [{name: operator}]}}}
status: {observedGeneration: 1, conditions: [{type: Available, status: "True"}]}`,
	"pod": `
apiVersion: v1
kind: Pod
metadata: {namespace: zos, name: operator-0, creationTimestamp: "2026-11-22T09:00:00Z", labels: {managed-by: ibm-zos-cloud-broker, operator-domain: acme, operator-name: files}}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}`,
	"hello": resourceNamed("hello"),
	"world": resourceNamed("world"),
}

func resourceNamed(name string) string {
	return `
apiVersion: suboperator.zoscb.ibm.com/v1minor0patch0
kind: DataFile
metadata: {namespace: zos, name: ` + name + `, generation: 1, creationTimestamp: "2026-11-22T09:00:00Z", finalizers: [suboperator.zoscb.ibm.com/finalizer]}
spec: {zosendpoint: lpar1}
status: {conditions: [{type: Ready, status: "True", reason: Succeeded, observedGeneration: 1}], lastRun: {id: r1, event: create, reason: New, started: "2026-11-22T10:00:00Z", outcome: Succeeded}}`
}

const subscription = `
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {namespace: zos, name: files}
spec: {name: acme-files-operator, source: collection-operator-catalog, sourceNamespace: system}
status: {currentCSV: acme-files-operator.v1.0.0, installPlanRef: {name: install-1}}`

// change is what differs from the healthy objects: a merge patch in YAML by short name, "-" to remove one, or a new object.
type change map[string]string

func parseObject(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// unstructuredOf returns an object with the types that a client gives to values.
func unstructuredOf(t *testing.T, fields map[string]any) *unstructured.Unstructured {
	t.Helper()
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(raw); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return object
}

// merge applies a merge patch.
func merge(into, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		present, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(present, inner)
		default:
			into[key] = value
		}
	}
}

func snapshotOf(t *testing.T, changes change) *snapshot.Snapshot {
	t.Helper()
	s := snapshot.New(now)
	s.ServesAPI, s.ServerVersion = true, "v1.36.0"
	for _, set := range []snapshot.Complete{snapshot.ManagerSets, snapshot.ManagerDeployments, snapshot.Operators, snapshot.OperatorGroups, snapshot.Secrets} {
		if string(set) != changes["unread"] {
			s.Completed(set, "")
		}
	}
	s.Secrets = []snapshot.Secret{
		{Namespace: "zos", Name: "download", Type: "Opaque", Labels: map[string]string{"zoscb.ibm.com/credential": "true"}, Keys: 1},
		{Namespace: "zos", Name: "logon", Type: "kubernetes.io/ssh-auth", Keys: 1},
	}
	for _, name := range slices.Sorted(maps.Keys(healthy)) {
		if changes[name] == "-" {
			continue
		}
		object := parseObject(t, healthy[name])
		if patch := changes[name]; patch != "" {
			merge(object, parseObject(t, patch))
		}
		s.Add(unstructuredOf(t, object))
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if _, exists := healthy[name]; !exists && name != "unread" && changes[name] != "-" {
			s.Add(unstructuredOf(t, parseObject(t, changes[name])))
		}
	}
	return s
}

// conditions is a status with one or more conditions: "Type Status Reason message".
func conditions(all ...string) string {
	text := "status: {conditions: ["
	for _, c := range all {
		parts := strings.SplitN(c, " ", 4)
		text += fmt.Sprintf("{type: %s, status: %q, reason: %s, message: %q, observedGeneration: 1},", parts[0], parts[1], parts[2], parts[3])
	}
	return text + "]}"
}

// waiting is the status of a resource whose run waits.
func waiting(reason string) string {
	return `status: {conditions: [{type: Ready, status: "False", reason: Waiting, message: it waits, observedGeneration: 1}],` +
		`waiting: {reason: ` + reason + `, message: it waits for ` + reason + `, since: "2026-11-22T11:00:00Z"}}`
}

// settingsStatus is what the manager says about wrong settings, with those that were used last, and whether it waits.
func settingsStatus(waiting string) string {
	return `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: system, name: collection-operator-settings-status}, ` +
		`data: {valid: "false", message: "key max-kins: there is no such setting", inUse: "{\"max-kinds\":\"9\"}", waiting: "` + waiting + `"}}`
}

const deleted = `metadata: {deletionTimestamp: "2026-11-22T11:00:00Z"}` + "\n"

var crashing = `status: {phase: Running, conditions: null, containerStatuses: [{name: manager, ready: false, restartCount: 9,` +
	`state: {waiting: {reason: CrashLoopBackOff, message: back-off 5m}}, lastState: {terminated: {exitCode: 2, reason: Error}}}]}`

// passwords is the ConfigMap of an operator whose kind has variables of type password.
const passwords = `{apiVersion: v1, kind: ConfigMap, metadata: {namespace: zos, name: acme-files-operator-runtime}, data: {runs.json: '` +
	`{"group": "suboperator.zoscb.ibm.com", "kinds": {"DataFile": {"plural": "datafiles", "variables": [{"name": "logon", "secret": true},` +
	`{"name": "others", "fields": [{"name": "token", "secret": true}]}]}}}'}}`

const unavailable = `status: {conditions: [{type: Available, status: "False"}]}`

// diagnoses are findings by what differs from healthy.
var diagnoses = map[string]struct {
	changes change
	prepare func(*snapshot.Snapshot)
	want    []string
}{
	"healthy": {},
	"nothing is installed": {
		changes: change{"manager": "-", "collection": "-", "config": "-", "endpoint": "-", "operator": "-", "definition": "-", "hello": "-", "world": "-"},
		prepare: func(s *snapshot.Snapshot) { s.ServesAPI = false },
		want:    []string{"error manager/collection-operator: NotInstalled"},
	},
	"no manager": {changes: change{"manager": "-"}, want: []string{"error manager/collection-operator: NotFound"}},
	"a manager that may not be seen": {
		changes: change{"manager": "-", "unread": string(snapshot.ManagerSets)},
	},
	"a manager that crashes, and what it leaves alone": {
		changes: change{"manager": "status: {readyReplicas: 0}", "manager pod": crashing, "collection": "metadata: {generation: 2}", "endpoint": "status: {conditions: null}"},
		want:    []string{"error statefulset/manager in system: NotReady; affects operatorcollection/files in zos, zosendpoint/lpar1 in zos"},
	},
	"one manager of two": {changes: change{"manager": "status: {readyReplicas: 1}"}, want: []string{"warning statefulset/manager in system: NotReady"}},
	"an OperatorCollection that is suspended": {
		changes: change{"collection": "{metadata: {generation: 2}, spec: {suspend: true}}"},
		want:    []string{"info operatorcollection/files in zos: Suspended"},
	},
	"an OperatorCollection that was suspended before it was seen": {
		changes: change{"collection": "{spec: {suspend: true}, status: null}", "config": conditions("Ready False CollectionNotImported files")},
		want:    []string{"info operatorcollection/files in zos: Suspended; affects suboperatorconfig/files-soc in zos"},
	},
	"a manager without a volume": {
		changes: change{"manager": "status: {readyReplicas: 0}", "claim": "status: {phase: Pending}"},
		want:    []string{"error persistentvolumeclaim/archives-0 in system: NotBound; affects statefulset/manager in system"},
	},
	"a manager that is scaled to zero": {
		changes: change{"manager": "spec: {replicas: 0}\nstatus: {readyReplicas: 0}"}, want: []string{"error statefulset/manager in system: ScaledToZero"},
	},
	"settings that are wrong": {
		changes: change{"settings": settingsStatus("false")},
		want:    []string{"warning configmap/collection-operator-settings in system: SettingsInvalid"},
	},
	"a manager that waits for settings": {
		changes: change{"settings": settingsStatus("true"), "manager": "status: {readyReplicas: 0}", "collection": "metadata: {generation: 2}"},
		want: []string{"error configmap/collection-operator-settings in system: SettingsInvalid; " +
			"affects statefulset/manager in system, operatorcollection/files in zos"},
	},
	"two managers": {
		changes: change{"other": strings.NewReplacer("namespace: system", "namespace: tools", "StatefulSet", "Deployment").Replace(healthy["manager"])},
		want:    []string{"warning deployment/manager in tools: TwoManagers"},
	},
	"two managers that run and one that does not": {
		changes: change{
			"manager": "status: {readyReplicas: 0}",
			"other":   strings.NewReplacer("namespace: system", "namespace: tools", "StatefulSet", "Deployment").Replace(healthy["manager"]),
			"third":   strings.NewReplacer("namespace: system", "namespace: apps", "StatefulSet", "Deployment").Replace(healthy["manager"]),
		},
		want: []string{"error statefulset/manager in system: NotReady", "warning deployment/manager in tools: TwoManagers"},
	},
	"a fetch that fails, and what waits for it": {
		changes: change{
			"collection": conditions("Ready False SourceUnreachable no such host", "Imported False SourceUnreachable no such host"),
			"config":     conditions("Ready False CollectionNotImported it is not imported"),
			"operator":   "-", "pod": "-", "hello": "status: null",
		},
		want: []string{"error operatorcollection/files in zos: SourceUnreachable; affects datafile/hello in zos, suboperatorconfig/files-soc in zos"},
	},
	"a Secret that is missing": {
		changes: change{"collection": conditions("Ready False CredentialsInvalid Secret download", "Imported False CredentialsInvalid Secret download")},
		prepare: func(s *snapshot.Snapshot) { s.Secrets = s.Secrets[1:] },
		want:    []string{"error secret/download in zos: NotFound; affects operatorcollection/files in zos"},
	},
	"Secrets that may not be read": {changes: change{"unread": string(snapshot.Secrets)}, prepare: func(s *snapshot.Snapshot) { s.Secrets = nil }},
	"a Secret without its label": {
		changes: change{"config": conditions("Ready False CredentialInvalid Secret logon is not labelled")},
		prepare: func(s *snapshot.Snapshot) { s.Secrets[1].Type = "Opaque" },
		want:    []string{"error secret/logon in zos: NotLabelled; affects suboperatorconfig/files-soc in zos"},
	},
	"a Secret without keys": {
		prepare: func(s *snapshot.Snapshot) { s.Secrets[1].Keys = 0 }, want: []string{"error secret/logon in zos: Empty"},
	},
	"a credential as old clients make it": {prepare: func(s *snapshot.Snapshot) { s.Secrets[1].Type, s.Secrets[1].Keys = "Opaque", 3 }},
	"a Secret of a resource without the label": {
		changes: change{"runtime": passwords, "hello": "spec: {logon: db}", "world": "spec: {logon: db, others: [{token: for-all}, {token: acme-files-operator-endpoints}]}"},
		prepare: func(s *snapshot.Snapshot) {
			s.Secrets = append(s.Secrets, snapshot.Secret{Namespace: "zos", Name: "db", Type: "Opaque", Keys: 1},
				snapshot.Secret{Namespace: "zos", Name: "for-all", Type: "Opaque", Keys: 1, Labels: map[string]string{v2beta2.LabelRuntime: "true"}},
				snapshot.Secret{Namespace: "zos", Name: "acme-files-operator-endpoints", Type: "Opaque", Keys: 2})
		},
		want: []string{"warning secret/db in zos: RuntimeObjectNotAllowed"},
	},
	"a Secret of a resource that is labelled for another operator, and a run that waits for it": {
		changes: change{"runtime": passwords, "hello": "spec: {logon: db}\n" + waiting("RuntimeObjectNotAllowed")},
		prepare: func(s *snapshot.Snapshot) {
			s.Secrets = append(s.Secrets, snapshot.Secret{
				Namespace: "zos", Name: "db", Type: "Opaque", Keys: 1, Labels: map[string]string{v2beta2.LabelRuntime: "other-operator"},
			})
		},
		want: []string{"error secret/db in zos: RuntimeObjectNotAllowed; affects datafile/hello in zos"},
	},
	"a run that waits for a Secret of another resource": {
		changes: change{"runtime": passwords, "hello": "spec: {logon: logon}\n" + waiting("RuntimeObjectNotAllowed")},
		want:    []string{"error datafile/hello in zos: RuntimeObjectNotAllowed"},
	},
	"permissions that are not granted": {
		changes: change{
			"config":     conditions("Ready False PermissionsNotGranted the collection asks"),
			"collection": conditions("Ready False PermissionsNotGranted the collection asks", "Imported True Succeeded fine"),
		},
		want: []string{"error suboperatorconfig/files-soc in zos: PermissionsNotGranted; affects operatorcollection/files in zos"},
	},
	"a pod that cannot pull its image": {
		changes: change{
			"operator": unavailable, "config": conditions("Ready False WorkloadUnavailable not available"),
			"collection": conditions("Ready False Progressing SubOperatorConfig", "Imported True Succeeded fine"), "hello": "status: null",
			"pod": `status: {phase: Pending, conditions: null, containerStatuses: [{name: operator, state: {waiting: {reason: ImagePullBackOff, message: no such image}}}]}`,
		},
		want: []string{"error deployment/acme-files-operator in zos: WorkloadUnavailable; affects datafile/hello in zos, operatorcollection/files in zos, suboperatorconfig/files-soc in zos"},
	},
	"a pod that starts": {
		changes: change{"operator": unavailable, "pod": `{metadata: {creationTimestamp: "2026-11-22T11:59:00Z"}, status: {phase: Pending, conditions: null}}`},
		want:    []string{"info deployment/acme-files-operator in zos: Progressing"},
	},
	"a Deployment without a pod": {
		changes: change{"operator": `status: {conditions: [{type: ReplicaFailure, status: "True", message: exceeded quota}]}`, "pod": "-"},
		want:    []string{"error deployment/acme-files-operator in zos: WorkloadUnavailable"},
	},
	"a CRD that is being deleted": {
		changes: change{"definition": deleted + `status: {conditions: [{type: Terminating, status: "True", reason: InstanceDeletionInProgress, message: instances}]}`},
		want:    []string{"error customresourcedefinition/datafiles.suboperator.zoscb.ibm.com: Terminating"},
	},
	"a CRD with a stored version that it does not have": {
		changes: change{"definition": `status: {storedVersions: [v0, v1minor0patch0]}`},
		want:    []string{"warning customresourcedefinition/datafiles.suboperator.zoscb.ibm.com: StoredVersions"},
	},
	"a CRD whose names are taken": {
		changes: change{"definition": `status: {conditions: [{type: NamesAccepted, status: "False", reason: ListKindConflict, message: taken}]}`},
		want:    []string{"error customresourcedefinition/datafiles.suboperator.zoscb.ibm.com: NamesNotAccepted"},
	},
	"a CRD of another product": {
		changes: change{"foreign": "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: zosendpoints.zoscb.ibm.com}, spec: {group: zoscb.ibm.com}}"},
		want:    []string{"error customresourcedefinition/zosendpoints.zoscb.ibm.com: ForeignObject"},
	},
	"a host that is away, with the runs that wait for it": {
		changes: change{
			"endpoint": conditions("Ready True Succeeded fine", "Reachable False HostUnreachable connection refused"),
			"hello":    waiting("EndpointUnreachable"), "world": conditions("Ready False Failed EndpointUnreachable: no answer"),
		},
		want: []string{"error zosendpoint/lpar1 in zos: HostUnreachable; affects datafile/hello in zos, datafile/world in zos"},
	},
	"a host that only the operator cannot reach": {
		changes: change{"hello": waiting("EndpointUnreachable")},
		want:    []string{"error zosendpoint/lpar1 in zos: EndpointUnreachable; affects datafile/hello in zos"},
	},
	"a refused credential": {
		changes: change{
			"endpoint": conditions("Ready True Succeeded fine", "CredentialAccepted False CredentialRefused permission denied"), "hello": waiting("CredentialRefused"),
		},
		want: []string{"error zosendpoint/lpar1 in zos: CredentialRefused; affects datafile/hello in zos"},
	},
	"a hold": {
		changes: change{"endpoint": `spec: {hold: IPL}`, "hello": waiting("EndpointHeld")},
		want:    []string{"info zosendpoint/lpar1 in zos: EndpointHeld; affects datafile/hello in zos"},
	},
	"closed windows and a busy system": {
		changes: change{"hello": waiting("OutsideRunWindow"), "world": waiting("EndpointBusy")},
		want: []string{
			"info zosendpoint/lpar1 in zos: OutsideRunWindow; affects datafile/hello in zos", "info zosendpoint/lpar1 in zos: EndpointBusy; affects datafile/world in zos",
		},
	},
	"a playbook that fails, while another one drifted": {
		changes: change{"hello": conditions("Ready False Failed disk is full"), "world": conditions("Ready True Succeeded fine", "Drifted True Drifted 2 tasks")},
		want:    []string{"error datafile/hello in zos: Failed", "warning datafile/world in zos: Drifted"},
	},
	"a deletion playbook that fails": {
		changes: change{"hello": deleted + conditions("Ready False Failed disk is full")}, want: []string{"error datafile/hello in zos: Failed"},
	},
	"a deletion that waits for a host, and the collection for it": {
		changes: change{
			"endpoint": conditions("Ready True Succeeded fine", "Reachable False HostUnreachable connection refused"),
			"hello":    deleted + waiting("EndpointUnreachable"), "collection": deleted + conditions("Ready False InstancesExist DataFile zos/hello"),
		},
		want: []string{"error zosendpoint/lpar1 in zos: HostUnreachable; affects datafile/hello in zos, operatorcollection/files in zos"},
	},
	"a finalizer without an operator": {
		changes: change{"hello": deleted, "operator": "-", "pod": "-", "config": "-"}, want: []string{"error datafile/hello in zos: Finalizer"},
	},
	"a finalizer whose playbook does not run": {
		changes: change{"hello": deleted + conditions("Ready False Deleting it is being deleted")}, want: []string{"warning datafile/hello in zos: Finalizer"},
	},
	"an operator that was removed": {
		changes: change{"hello": conditions("Ready False NoOperator no operator runs")}, want: []string{"error datafile/hello in zos: NoOperator"},
	},
	"operators that may not be seen": {
		changes: change{"operator": "-", "pod": "-", "hello": deleted + "status: null", "unread": string(snapshot.Operators)},
		want:    []string{"warning datafile/hello in zos: Finalizer"},
	},
	"a run that takes long": {
		changes: change{"hello": `status: {conditions: [{type: Ready, status: "False", reason: Running, observedGeneration: 1}], lastRun: {outcome: null}}`, "world": "status: null"},
		want:    []string{"warning datafile/hello in zos: LongRun; affects datafile/world in zos"},
	},
	"a resource that never ran": {changes: change{"hello": "status: null"}, want: []string{"warning datafile/hello in zos: NotRun"}},
	"a namespace that is being deleted": {
		changes: change{
			"namespace": "{apiVersion: v1, kind: Namespace, metadata: {name: zos, deletionTimestamp: '2026-11-22T11:00:00Z'}, status: {conditions: [{type: X, status: 'True', message: finalizers}]}}",
			"config":    conditions("Ready False MappingNotAllowed it is being deleted"),
		},
		want: []string{"error namespace/zos: Terminating; affects suboperatorconfig/files-soc in zos"},
	},
	"an InstallPlan that waits for approval": {
		changes: change{
			"subscription": subscription,
			"group":        "{apiVersion: operators.coreos.com/v1, kind: OperatorGroup, metadata: {namespace: zos, name: g}}",
			"plan": "{apiVersion: operators.coreos.com/v1alpha1, kind: InstallPlan, metadata: {namespace: zos, name: install-1}, " +
				"spec: {clusterServiceVersionNames: [acme-files-operator.v1.0.0]}, status: {phase: RequiresApproval}}",
			"config": conditions("Ready False WaitingForApproval install-1"),
		},
		want: []string{"info installplan/install-1 in zos: WaitingForApproval; affects suboperatorconfig/files-soc in zos"},
	},
	"no OperatorGroup": {
		changes: change{"subscription": subscription, "config": conditions("Ready False OperatorGroupMissing create one")},
		want:    []string{"error operatorgroup/* in zos: OperatorGroupMissing; affects suboperatorconfig/files-soc in zos"},
	},
	"a ClusterServiceVersion that failed": {
		changes: change{
			"subscription": subscription, "group": "{apiVersion: operators.coreos.com/v1, kind: OperatorGroup, metadata: {namespace: zos, name: g}}",
			"csv": "{apiVersion: operators.coreos.com/v1alpha1, kind: ClusterServiceVersion, metadata: {namespace: zos, name: acme-files-operator.v1.0.0}, " +
				"status: {phase: Failed, reason: UnsupportedOperatorGroup, message: not supported}}",
			"config": conditions("Ready False ClusterServiceVersionFailed no"), "operator": unavailable,
		},
		want: []string{"error clusterserviceversion/acme-files-operator.v1.0.0 in zos: ClusterServiceVersionFailed; " +
			"affects deployment/acme-files-operator in zos, suboperatorconfig/files-soc in zos"},
	},
}

func TestDiagnose(t *testing.T) {
	for name, test := range diagnoses {
		t.Run(name, func(t *testing.T) {
			s := snapshotOf(t, test.changes)
			if test.prepare != nil {
				test.prepare(s)
			}
			var got []string
			for _, f := range Diagnose(s).Findings {
				line := fmt.Sprintf("%s %s: %s", f.Severity, f.Object, f.Reason)
				if f.Affected > 0 {
					line += "; affects " + f.affected()
				}
				if f.Next == "" || f.Check == "" {
					t.Errorf("%s has no next step or check", line)
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryReasonHasANextStep(t *testing.T) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "../../../api/v2beta2/conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		found++
		reason := strings.TrimPrefix(spec.Names[0].Name, "Reason")
		if _, next := advise(reason, Ref{}); reason != v2beta2.ReasonSucceeded && (reasons[reason].next == "" || strings.Contains(next, "%!")) {
			t.Errorf("reason %s has no next step: %q", reason, next)
		}
		return true
	})
	if found == 0 {
		t.Fatal("no reasons found: has the file moved?")
	}
}

// hopeless is a cluster in which much is wrong.
func hopeless(t *testing.T) *snapshot.Snapshot {
	changes := change{
		"manager":  "status: {readyReplicas: 1}",
		"config":   conditions("Ready False PermissionsNotGranted the collection asks for permissions that are not granted to it:\n- get pods\napiVersion: v1"),
		"endpoint": conditions("Ready True Succeeded fine", "CredentialAccepted False CredentialRefused lpar1 refused\x1b[31m the credential of user IBMUSER"),
		"hello":    waiting("CredentialRefused"),
	}
	for i := range 25 {
		name := fmt.Sprintf("file%02d", i)
		object := parseObject(t, resourceNamed(name))
		merge(object, parseObject(t, conditions("Ready False Failed disk is full")))
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		changes[name] = string(text)
	}
	s := snapshotOf(t, changes)
	s.Unread = []string{"you may not read clusterroles"}
	return s
}

func printed(t *testing.T, s *snapshot.Snapshot) string {
	t.Helper()
	var out bytes.Buffer
	report := Diagnose(s)
	if err := report.Print(&out, func(s findings.Severity) string { return string(s) }); err != nil {
		t.Fatal(err)
	}
	return out.String() + report.Summary() + "\n"
}

func TestPrint(t *testing.T) {
	got := printed(t, hopeless(t))
	const file = "testdata/report.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, diff)
	}
}

func TestGuideShowsWhatIsPrinted(t *testing.T) {
	const rests = "disk is full; attempt 6 of 6, it is not tried again until the resource is changed or a run is requested"
	s := snapshotOf(t, change{
		"endpoint": "spec: {hold: 'IPL on Sunday, call 4711'}", "hello": waiting("EndpointHeld"), "world": conditions("Ready False Failed " + rests),
		"config":     conditions("Ready False CredentialInvalid Secret logon does not exist"),
		"collection": conditions("Ready False Progressing SubOperatorConfig files-soc is not ready", "Imported True Succeeded fine"),
	})
	s.Secrets = s.Secrets[:1]
	guide, err := os.ReadFile("../../../docs/kubectl-collection.md")
	if err != nil {
		t.Fatal(err)
	}
	if got := printed(t, s); !strings.Contains(string(guide), "$ kubectl collection doctor -n zos\n"+got+"```\n") {
		t.Errorf("docs/kubectl-collection.md does not show this:\n%s", got)
	}
}

func TestSelect(t *testing.T) {
	other := strings.NewReplacer("name: files,", "name: jobs,", "kinds: [DataFile]", "kinds: [Job]", "domain: acme, name: files", "domain: acme, name: jobs",
		"credentialsSecret: download", "credentialsSecret: absent").Replace(healthy["collection"])
	changes := change{
		"other": other, "hello": conditions("Ready False Failed disk is full"), "world": waiting("EndpointBusy"),
		"job": strings.NewReplacer("DataFile", "Job", "name: hello", "name: one", `status: "True", reason: Succeeded`, `status: "False", reason: Failed`).Replace(healthy["hello"]),
	}
	for argument, want := range map[string][]string{
		"":                {"secret/absent in zos", "datafile/hello in zos", "zosendpoint/lpar1 in zos", "job/one in zos"},
		"files":           {"datafile/hello in zos", "zosendpoint/lpar1 in zos"},
		"jobs":            {"secret/absent in zos", "job/one in zos"},
		"datafile/hello":  {"datafile/hello in zos"},
		"DataFiles/world": {"zosendpoint/lpar1 in zos"},
		"datafiles.suboperator.zoscb.ibm.com/world": {"zosendpoint/lpar1 in zos"},
	} {
		s := snapshotOf(t, changes)
		if argument != "" {
			if err := Select(s, "zos", argument); err != nil {
				t.Errorf("%s: %v", argument, err)
			}
		}
		var got []string
		for _, f := range Diagnose(s).Findings {
			got = append(got, f.Object.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", argument, diff)
		}
	}
	for _, argument := range []string{"absent", "datafile/absent", "job/hello", "/", "a/b/c"} {
		if err := Select(snapshotOf(t, changes), "zos", argument); err == nil {
			t.Errorf("%q is selected", argument)
		}
	}
	if err := Select(snapshotOf(t, changes), "elsewhere", "files"); err == nil {
		t.Error("the collection of another namespace is selected")
	}
}

// The objects may have been written by anybody.
func TestStrangeObjects(t *testing.T) {
	for _, patch := range []string{"{status: 1}", "{spec: [], status: {conditions: x}}", "{status: {conditions: [1, null]}}", "{spec: null, status: null}", "{metadata: {labels: null, annotations: {zoscb.ibm.com/suboperatorconfig: /}}}"} {
		changes := change{}
		for name := range healthy {
			changes[name] = patch
		}
		Diagnose(snapshotOf(t, changes))
	}
}
