package metrics

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
)

// collected returns the series that a function sends, as label values and value, sorted.
func collected(t *testing.T, send func(to chan<- prometheus.Metric)) []string {
	t.Helper()
	to := make(chan prometheus.Metric, 1000)
	send(to)
	close(to)
	var lines []string
	name := regexp.MustCompile(`fqName: "` + prefix + `([^"]+)"`)
	for metric := range to {
		written := &dto.Metric{}
		if err := metric.Write(written); err != nil {
			t.Fatal(err)
		}
		var labels []string
		for _, pair := range written.Label {
			labels = append(labels, pair.GetName()+"="+pair.GetValue())
		}
		value := written.GetGauge().GetValue() + written.GetCounter().GetValue()
		if histogram := written.GetHistogram(); histogram != nil {
			value = float64(histogram.GetSampleCount())
		} else if summary := written.GetSummary(); summary != nil {
			value = summary.GetSampleSum()
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %g", name.FindStringSubmatch(metric.Desc().String())[1], strings.Join(labels, ","), value))
	}
	slices.Sort(lines)
	return lines
}

func soc(namespace, name string, ready bool, reason string, installed ...string) v2beta2.SubOperatorConfig {
	s := v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	s.Spec.OperatorCollection = "oc"
	s.Status.Collection = &v2beta2.CollectionReference{Domain: "acme", Name: "files"}
	for _, n := range installed {
		s.Status.Installations = append(s.Status.Installations, v2beta2.InstallationStatus{
			Namespace: n, Ready: ready, Reason: reason, Install: v2beta2.InstallDirect,
		})
	}
	return s
}

func TestObjectsAreCountedByCondition(t *testing.T) {
	failing := []metav1.Condition{
		{Type: "Ready", Status: "False", Reason: "ArchiveNotFound"}, {Type: "Strange", Status: "True", Reason: "X"},
		{Type: "Imported", Status: "False", Reason: strings.Repeat("x", 2000)},
	}
	ocs := make([]v2beta2.OperatorCollection, 3)
	for i := range ocs {
		ocs[i].Namespace, ocs[i].Name, ocs[i].Status.Conditions = "team", fmt.Sprint(i), failing
	}
	ocs[2].Status.Collection = &v2beta2.ImportedCollection{Domain: "acme", Name: "files"}
	got := collected(t, func(to chan<- prometheus.Metric) { countCollections(ocs).send(to, collections) })
	want := []string{
		"collections{collection=,condition=Imported,object_namespace=team,reason=Other,status=False} 2",
		"collections{collection=,condition=Ready,object_namespace=team,reason=ArchiveNotFound,status=False} 2",
		"collections{collection=acme/files,condition=Imported,object_namespace=team,reason=Other,status=False} 1",
		"collections{collection=acme/files,condition=Ready,object_namespace=team,reason=ArchiveNotFound,status=False} 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got = collected(t, func(to chan<- prometheus.Metric) {
		countInstallations([]v2beta2.SubOperatorConfig{soc("team", "a", true, "", "dev", "prod"), soc("other", "b", false, "MappingConflict", "prod")}).send(to, installations)
	})
	want = []string{
		"installations{collection=acme/files,method=Direct,object_namespace=dev,ready=true,reason=} 1",
		"installations{collection=acme/files,method=Direct,object_namespace=prod,ready=false,reason=MappingConflict} 1",
		"installations{collection=acme/files,method=Direct,object_namespace=prod,ready=true,reason=} 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Whoever writes the Lease of an operator adds no series but those of what is installed, and none twice.
func TestRunsOfInstalledOperators(t *testing.T) {
	oc := v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "oc"}}
	oc.Status.Collection = &v2beta2.ImportedCollection{Domain: "acme", Name: "files", Kinds: []string{"File"}}
	probed := []Endpoint{{Namespace: "team", Name: "lpar1"}, {Namespace: "other", Name: "gone1"}}
	operators := operatorsOf([]v2beta2.OperatorCollection{oc},
		[]v2beta2.SubOperatorConfig{soc("other", "a", false, "MappingConflict", "prod"), soc("team", "b", true, "", "prod")}, probed)
	if len(operators) != 1 || !operators[0].ready {
		t.Fatalf("got %+v", operators)
	}
	counts := &runcount.Counts{}
	for _, kind := range []string{"File", "Strange"} {
		for _, endpoint := range []string{"lpar1", "gone1", "gone2"} {
			for _, outcome := range []string{"Succeeded", "Strange"} {
				counts.Run(kind, endpoint, outcome, 10*time.Second, time.Second)
			}
		}
	}
	counts.Skip("File", 5)
	got := collected(t, func(to chan<- prometheus.Metric) { operators[0].send(to, counts) })
	// A ZosEndpoint that is deleted or created again changes no number of all runs.
	of := "collection=acme/files,kind=File,object_namespace=prod"
	want := []string{
		"endpoint_runs_total{collection=acme/files,kind=File,object_namespace=prod,outcome=Succeeded,zosendpoint=lpar1} 1",
		"run_duration_seconds{" + of + "} 6",
		"run_wait_seconds{" + of + "} 6",
		"runs_total{collection=acme/files,kind=File,object_namespace=prod,outcome=Succeeded} 3",
		"skipped_runs_total{" + of + "} 5",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEndpoints(t *testing.T) {
	away := Endpoint{Namespace: "team", Name: "lpar2", Held: true, Refused: true}
	busy := Endpoint{
		Namespace: "team", Name: "lpar1", Reachable: true, Answered: time.Unix(1000, 500e6), Took: 20 * time.Millisecond, Limit: 2, Running: 2, Waiting: 3,
	}
	got := collected(t, func(to chan<- prometheus.Metric) {
		away.send(to)
		busy.send(to)
	})
	of := func(name string) string { return "{object_namespace=team,zosendpoint=" + name + "} " }
	want := []string{
		"endpoint_credential_refused" + of("lpar1") + "0",
		"endpoint_credential_refused" + of("lpar2") + "1",
		"endpoint_held" + of("lpar2") + "1",
		"endpoint_last_success_timestamp_seconds" + of("lpar1") + "1000.5",
		"endpoint_probe_duration_seconds" + of("lpar1") + "0.02",
		"endpoint_reachable" + of("lpar1") + "1",
		"endpoint_reachable" + of("lpar2") + "0",
		"endpoint_run_limit" + of("lpar1") + "2",
		"endpoint_running_runs" + of("lpar1") + "2",
		"endpoint_waiting_operators" + of("lpar1") + "3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestAllOutcomesAreKnown(t *testing.T) {
	source := read(t, "../../run/gate/record.go")
	found := regexp.MustCompile(`(?m)^\tOutcome\w+ +Outcome = "(\w+)"`).FindAllStringSubmatch(source, -1)
	var names []string
	for _, match := range found {
		names = append(names, match[1])
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(slices.Values(outcomes))); len(names) == 0 || diff != "" {
		t.Error(diff)
	}
}

func TestAllConditionTypesAreCounted(t *testing.T) {
	source := read(t, "../../../api/v2beta2/conditions.go")
	for _, match := range regexp.MustCompile(`(?m)^\tCondition\w+ = "(\w+)"`).FindAllStringSubmatch(source, -1) {
		if !slices.Contains(conditionTypes, match[1]) {
			t.Errorf("condition %s is not counted", match[1])
		}
	}
	for _, match := range regexp.MustCompile(`(?m)^\tReason\w+ = "(\w+)"`).FindAllStringSubmatch(source, -1) {
		if reasonLabel(match[1]) != match[1] {
			t.Errorf("reason %s is not a label", match[1])
		}
	}
}

var metricName = regexp.MustCompile(`\b` + prefix + `[a-z_]+[a-z]\b`)

// names returns the names of all metrics of this package.
func names(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, collector := range collectors(&State{}) {
		to := make(chan *prometheus.Desc, 100)
		collector.Describe(to)
		close(to)
		for description := range to {
			name := metricName.FindString(description.String())
			if all[name] {
				t.Errorf("%s is described twice", name)
			}
			all[name] = true
		}
	}
	return all
}

func TestEveryMetricIsExplained(t *testing.T) {
	known, page := names(t), read(t, "../../../docs/operations.md")
	rows := regexp.MustCompile("(?m)^\\| `("+prefix+`\w+)`+"` \\|").FindAllStringSubmatch(page, -1)
	explained := map[string]bool{}
	for _, row := range rows {
		explained[row[1]] = true
	}
	if diff := cmp.Diff(known, explained); diff != "" {
		t.Error("docs/operations.md explains other metrics:", diff)
	}
	for _, description := range descriptions {
		labels := regexp.MustCompile(`variableLabels: {([^}]*)}`).FindStringSubmatch(description.String())[1]
		name := metricName.FindString(description.String())
		want := "none"
		if labels != "" {
			want = "`" + strings.ReplaceAll(labels, ",", "`, `") + "`"
		}
		if !strings.Contains(page, "| `"+name+"` | "+want+" |") {
			t.Errorf("docs/operations.md does not say that %s has the labels %s", name, want)
		}
	}
}

func TestRulesAndDashboardUseMetricsThatExist(t *testing.T) {
	known := names(t)
	for _, file := range []string{"prometheusrule.yaml", "dashboard.json"} {
		used := metricName.FindAllString(read(t, "../../../config/components/monitoring/"+file), -1)
		if len(used) == 0 {
			t.Errorf("%s uses no metrics", file)
		}
		for _, name := range used {
			base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if !known[name] && !known[base] {
				t.Errorf("%s uses %s, which does not exist", file, name)
			}
		}
	}
}
