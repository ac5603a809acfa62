package preflight

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestReportIsBounded(t *testing.T) {
	fits := []upgrade.Problem{{Kind: "Thing", Namespace: "team", Name: "old", Message: "a warning"}}
	report := Report{Version: "2.0.0"}
	report.Add(nil)
	report.Add(fits)
	if err := report.Err(); err != nil || report.Resources != 2 || report.Warned != 1 || report.Blocked != 0 {
		t.Errorf("%v, %+v", err, report)
	}
	for i := range 100 {
		p := upgrade.Problem{Kind: "Thing", Namespace: "team", Name: fmt.Sprintf("t%d", i), Field: "spec.a", Message: "must be set", Refused: true}
		second := p
		second.Field = "spec.b"
		report.Add(append([]upgrade.Problem{p, second}, fits...))
	}
	if report.Blocked != 100 || report.Resources != 102 || report.Warned != 101 || len(report.Problems) != maxProblems || len(report.Warnings) != maxProblems {
		t.Errorf("%d of %d, %d warned, %d problems, %d warnings", report.Blocked, report.Resources, report.Warned, len(report.Problems), len(report.Warnings))
	}
	e := status.AsError(report.Err())
	want := "version 2.0.0 does not fit 100 of 102 custom resources: Thing team/t0: spec.a: must be set; Thing team/t1: spec.a: must be set; "
	if e.Reason != v2beta2.ReasonUpgradeBlocked || e.Stalled || !strings.HasPrefix(e.Error(), want) ||
		!strings.Contains(e.Error(), "team/t4: spec.a: must be set; and 95 more. Change or delete them") {
		t.Errorf("%s: %v", e.Reason, e)
	}
	merged := Report{}
	merged.Merge(report)
	merged.Merge(Report{Version: "2.0.0", Resources: 1})
	report.Resources++
	if diff := cmp.Diff(report, merged); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
}

func TestKindsThatAreServed(t *testing.T) {
	definition := func(kind string, versions ...apiextensionsv1.CustomResourceDefinitionVersion) apiextensionsv1.CustomResourceDefinition {
		return apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind}, Versions: versions,
		}}
	}
	version := func(name string, served, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: served, Storage: storage}
	}
	got := Kinds([]apiextensionsv1.CustomResourceDefinition{
		definition("A", version("v2", true, false), version("v1", true, true)),
		definition("B", version("v2", false, true), version("v1", true, false)),
		definition("C", version("v1", false, true)),
	})
	want := []schema.GroupVersionKind{{Group: "example.com", Version: "v1", Kind: "A"}, {Group: "example.com", Version: "v1", Kind: "B"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}
