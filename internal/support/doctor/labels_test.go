package doctor

import (
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// The next step is a command that may be copied.
func TestCommandsThatLabelSecrets(t *testing.T) {
	secondOperator := strings.NewReplacer("files", "jobs", "DataFile", "Job", "datafile", "job").Replace
	both := change{
		"runtime": passwords, "hello": "spec: {logon: db}",
		"second runtime": secondOperator(passwords), "second operator": secondOperator(healthy["operator"]),
		"second definition": secondOperator(healthy["definition"]), "job": strings.Replace(secondOperator(resourceNamed("job")), "zosendpoint: lpar1", "zosendpoint: lpar1, logon: db", 1),
	}
	labelled := func(value string) snapshot.Secret {
		return snapshot.Secret{Namespace: "zos", Name: "db", Type: "Opaque", Keys: 1, Labels: map[string]string{v2beta2.LabelRuntime: value}}
	}
	exists := snapshot.Secret{Namespace: "zos", Name: "db", Type: "Opaque", Keys: 1}
	for name, tc := range map[string]struct {
		changes change
		secrets []snapshot.Secret
		want    string
	}{
		"one operator": {
			change{"runtime": passwords, "hello": "spec: {logon: db}"}, []snapshot.Secret{exists},
			"if playbooks may read it: kubectl label secret db -n zos " + v2beta2.LabelRuntime + "=acme-files-operator",
		},
		"two operators": {both, []snapshot.Secret{exists}, "if playbooks may read it: kubectl label secret db -n zos " + v2beta2.LabelRuntime + "=true"},
		"a Secret that another operator reads": {
			change{
				"runtime": passwords, "hello": "spec: {logon: db}",
				"second runtime": secondOperator(passwords), "second operator": secondOperator(healthy["operator"]), "second definition": secondOperator(healthy["definition"]),
			},
			[]snapshot.Secret{labelled("acme-jobs-operator")},
			"if playbooks may read it: kubectl label secret db -n zos " + v2beta2.LabelRuntime + "=true --overwrite",
		},
		"a Secret that nothing may read": {
			change{"runtime": passwords, "hello": "spec: {logon: db}"}, []snapshot.Secret{labelled("false")},
			"if playbooks may read it: kubectl label secret db -n zos " + v2beta2.LabelRuntime + "=acme-files-operator --overwrite",
		},
		"a Secret that does not exist": {
			change{"runtime": passwords, "hello": "spec: {logon: db}\n" + waiting("RuntimeObjectNotAllowed")}, nil,
			"create it; if playbooks may read it: kubectl label secret db -n zos " + v2beta2.LabelRuntime + "=acme-files-operator",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshotOf(t, tc.changes)
			s.Secrets = append(s.Secrets, tc.secrets...)
			report := Diagnose(s)
			if len(report.Findings) != 1 || report.Findings[0].Next != tc.want {
				t.Errorf("got %+v", report.Findings)
			}
		})
	}
}
