package monitoring

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

func readRules(t *testing.T) []Rule {
	t.Helper()
	all, err := ReadRules(filepath.Join(Component, "prometheusrule.yaml"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%d rules, %v", len(all), err)
	}
	return all
}

func newEngine(t *testing.T) *promql.Engine {
	t.Helper()
	return promqltest.NewTestEngine(t, false, 0, 1_000_000)
}

// alertsAt evaluates all rules each minute until a time, and returns the alerts that fire then, with their labels, and their texts.
func alertsAt(t *testing.T, series string, until time.Duration) (fired, texts []string) {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n"+regexp.MustCompile(`\n+`).ReplaceAllString(strings.TrimLeft(series, "\n"), "\n"))
	query := rules.EngineQueryFunc(newEngine(t), storage)
	for _, r := range readRules(t) {
		expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		hold, err := r.Hold()
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		rule := rules.NewAlertingRule(r.Alert, expr, hold, 0, labels.FromMap(r.Labels), labels.FromMap(r.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
		for at := time.Duration(0); at <= until; at += time.Minute {
			if _, err := rule.Eval(context.Background(), 0, time.Unix(0, 0).Add(at), query, nil, 0); err != nil {
				t.Fatalf("%s: %v", r.Alert, err)
			}
		}
		for _, alert := range rule.ActiveAlerts() {
			if alert.State != rules.StateFiring {
				continue
			}
			b := labels.NewBuilder(alert.Labels)
			b.Del("alertname", "severity")
			fired = append(fired, r.Alert+b.Labels().String())
			texts = append(texts, alert.Annotations.String())
		}
	}
	slices.Sort(fired)
	return fired, texts
}

// running are the series of two managers that are well.
const running = `
  up{job="collection-operator-metrics",pod="m-0"} 1x2000
  up{job="collection-operator-metrics",pod="m-1"} 1x2000
  leader_election_master_status{job="collection-operator-metrics",name="collection-operator.zoscb.ibm.com",pod="m-0"} 1x2000
  leader_election_master_status{job="collection-operator-metrics",name="collection-operator.zoscb.ibm.com",pod="m-1"} 0x2000
  controller_runtime_reconcile_errors_total{job="collection-operator-metrics",controller="operatorcollection",pod="m-0"} 0+1x2000
  collection_operator_serving_certificate_expiry_timestamp_seconds{pod="m-0"} 7776000x2000
  collection_operator_settings_valid{pod="m-0"} 1x2000
  collection_operator_collections{object_namespace="team",collection="acme/files",condition="Ready",status="True",reason="Succeeded",pod="m-0"} 3x2000
  collection_operator_installations{object_namespace="prod",collection="acme/files",method="Direct",ready="true",reason="",pod="m-0"} 1x2000
  collection_operator_fetches_total{result="Succeeded",pod="m-0"} 0+1x2000
  collection_operator_fetches_total{result="SourceUnreachable",pod="m-0"} 0+0.5x2000
  collection_operator_endpoint_reachable{object_namespace="team",zosendpoint="lpar1",pod="m-0"} 1x2000
  collection_operator_endpoint_credential_refused{object_namespace="team",zosendpoint="lpar1",pod="m-0"} 0x2000
  collection_operator_endpoint_waiting_operators{object_namespace="team",zosendpoint="lpar1",pod="m-0"} 0x2000
  collection_operator_runs_total{object_namespace="prod",collection="acme/files",kind="File",outcome="Succeeded",pod="m-0"} 0+1x2000
  collection_operator_runs_total{object_namespace="prod",collection="acme/files",kind="File",outcome="Failed",pod="m-0"} 0+0.5x2000
  collection_operator_budget_used{budget="kinds",pod="m-0"} 80x2000
  collection_operator_budget_limit{budget="kinds",pod="m-0"} 100x2000
`

// A sample of each alert: the series with which it fires, in addition to those that run or instead of them, after a time, and not a
// minute before.
var alerts = map[string]struct {
	series string
	after  time.Duration
	labels string
	// alone is true if nothing else is there.
	alone bool
}{
	"CollectionOperatorDown": {
		series: `up{job="collection-operator-metrics",pod="m-0"} 0x100`, after: 10 * time.Minute, labels: `{}`, alone: true,
	},
	"CollectionOperatorNoLeader": {
		series: `up{job="collection-operator-metrics",pod="m-0"} 1x100
  leader_election_master_status{job="collection-operator-metrics",name="collection-operator.zoscb.ibm.com",pod="m-0"} 0x100`,
		after: 10 * time.Minute, labels: `{}`, alone: true,
	},
	"CollectionOperatorManagerNotScraped": {
		series: `up{job="collection-operator-metrics",pod="m-2"} 0x2000`, after: 15 * time.Minute, labels: `{pod="m-2"}`,
	},
	"CollectionOperatorReconcileErrors": {
		series: `controller_runtime_reconcile_errors_total{job="collection-operator-metrics",controller="zosendpoint",pod="m-0"} 0+60x2000`,
		after:  32 * time.Minute, labels: `{controller="zosendpoint"}`,
	},
	"CollectionOperatorCertificateExpiring": {
		series: `collection_operator_serving_certificate_expiry_timestamp_seconds{pod="m-1"} 604700x2000`, after: time.Hour, labels: `{}`,
	},
	"CollectionOperatorSettingsInvalid": {
		series: `collection_operator_settings_valid{pod="m-1"} 0x2000`, after: 5 * time.Minute, labels: `{pod="m-1"}`,
	},
	"CollectionOperatorCollectionNotReady": {
		// Its reason changes, and so does the leader.
		series: `collection_operator_collections{object_namespace="team",collection="",condition="Ready",status="False",reason="FetchTimeout",pod="m-0"} 1x9 _x2000
  collection_operator_collections{object_namespace="team",collection="",condition="Ready",status="False",reason="SourceUnreachable",pod="m-1"} _x9 1x2000
  collection_operator_collections{object_namespace="other",collection="",condition="Ready",status="False",reason="NotInstalled",pod="m-0"} 1x2000`,
		after: 30 * time.Minute, labels: `{object_namespace="team"}`,
	},
	"CollectionOperatorInstallationNotReady": {
		series: `collection_operator_installations{object_namespace="prod",collection="acme/files",method="Direct",ready="false",reason="WorkloadUnavailable",pod="m-0"} 1x2000
  collection_operator_installations{object_namespace="next",collection="acme/files",method="Direct",ready="false",reason="UpgradePending",pod="m-0"} 1x2000`,
		after: 30 * time.Minute, labels: `{collection="acme/files", object_namespace="prod"}`,
	},
	"CollectionOperatorUpgradeBlocked": {
		series: `collection_operator_collections{object_namespace="team",collection="acme/files",condition="UpgradeBlocked",status="True",reason="UpgradeBlocked",pod="m-0"} 1x2000`,
		after:  time.Hour, labels: `{collection="acme/files", object_namespace="team"}`,
	},
	"CollectionOperatorMigrationFailed": {
		series: `collection_operator_suboperatorconfigs{object_namespace="team",collection="acme/files",condition="Migrated",status="False",reason="MigrationFailed",pod="m-0"} 1x2000`,
		after:  5 * time.Minute, labels: `{collection="acme/files", object_namespace="team"}`,
	},
	"CollectionOperatorFetchesFailing": {
		series: `collection_operator_fetches_total{result="ArchiveNotFound",pod="m-0"} 0+2x2000`, after: 61 * time.Minute, labels: `{}`,
	},
	"CollectionOperatorEndpointUnreachable": {
		series: `collection_operator_endpoint_reachable{object_namespace="team",zosendpoint="lpar2",pod="m-0"} 0x2000
  collection_operator_endpoint_reachable{object_namespace="team",zosendpoint="lpar3",pod="m-0"} 0x2000
  collection_operator_endpoint_held{object_namespace="team",zosendpoint="lpar3",pod="m-0"} 1x2000`,
		after: 15 * time.Minute, labels: `{object_namespace="team", zosendpoint="lpar2"}`,
	},
	"CollectionOperatorHostKeyMismatch": {
		series: `collection_operator_endpoints{object_namespace="team",condition="Reachable",status="False",reason="HostKeyMismatch",pod="m-0"} _ 1x2000`,
		after:  time.Minute, labels: `{object_namespace="team"}`,
	},
	"CollectionOperatorCredentialRefused": {
		series: `collection_operator_endpoint_credential_refused{object_namespace="team",zosendpoint="lpar2",pod="m-0"} 1x2000`,
		after:  time.Minute, labels: `{object_namespace="team", zosendpoint="lpar2"}`,
	},
	"CollectionOperatorEndpointHeld": {
		series: `collection_operator_endpoint_held{object_namespace="team",zosendpoint="lpar2",pod="m-0"} 1x2000`,
		after:  24 * time.Hour, labels: `{object_namespace="team", zosendpoint="lpar2"}`,
	},
	"CollectionOperatorRunsFailing": {
		series: `collection_operator_runs_total{object_namespace="prod",collection="acme/files",kind="Dataset",outcome="Succeeded",pod="m-0"} 0+0.1x2000
  collection_operator_runs_total{object_namespace="prod",collection="acme/files",kind="Dataset",outcome="Failed",pod="m-0"} 0+4x2000
  collection_operator_runs_total{object_namespace="prod",collection="acme/files",kind="Once",outcome="Failed",pod="m-0"} 0 1x2000`,
		after: 11 * time.Minute, labels: `{collection="acme/files", kind="Dataset", object_namespace="prod"}`,
	},
	"CollectionOperatorRunsWaiting": {
		series: `collection_operator_endpoint_waiting_operators{object_namespace="team",zosendpoint="lpar2",pod="m-0"} 2x2000`,
		after:  2 * time.Hour, labels: `{object_namespace="team", zosendpoint="lpar2"}`,
	},
	"CollectionOperatorBudgetExceeded": {
		series: `collection_operator_endpoints{object_namespace="team",condition="Reachable",status="False",reason="BudgetExceeded",pod="m-0"} 4x2000`,
		after:  10 * time.Minute, labels: `{object_namespace="team"}`,
	},
	"CollectionOperatorBudgetNearlyUsed": {
		series: `collection_operator_budget_used{budget="kinds",pod="m-0"} 95x2000
  collection_operator_budget_limit{budget="kinds",pod="m-0"} 100x2000`,
		after: time.Hour, labels: `{budget="kinds"}`,
	},
}

func TestNoAlertWhileAllIsWell(t *testing.T) {
	if fired, _ := alertsAt(t, running, 3*time.Hour); len(fired) > 0 {
		t.Error(fired)
	}
}

func TestAlertsFireInTime(t *testing.T) {
	for _, rule := range readRules(t) {
		t.Run(rule.Alert, func(t *testing.T) {
			sample, known := alerts[rule.Alert]
			if !known {
				t.Fatal("there is no sample")
			}
			series := "  " + sample.series + "\n"
			if !sample.alone {
				series += running
			}
			if fired, _ := alertsAt(t, series, sample.after-time.Minute); len(fired) > 0 {
				t.Errorf("a minute before: %v", fired)
			}
			fired, texts := alertsAt(t, series, sample.after)
			if want := []string{rule.Alert + sample.labels}; !slices.Equal(fired, want) {
				t.Errorf("got %v, want %v", fired, want)
			}
			for _, text := range texts {
				if strings.Contains(text, "<no value>") || strings.Contains(text, "error expanding") {
					t.Error(text)
				}
			}
		})
	}
	if len(alerts) != len(readRules(t)) {
		t.Errorf("%d samples of %d alerts", len(alerts), len(readRules(t)))
	}
}

// Whoever is not read may be the leader.
func TestALeaderThatIsNotReadIsThere(t *testing.T) {
	fired, _ := alertsAt(t, `  up{job="collection-operator-metrics",pod="m-0"} 1x2000
  up{job="collection-operator-metrics",pod="m-1"} 0x2000
  leader_election_master_status{job="collection-operator-metrics",name="collection-operator.zoscb.ibm.com",pod="m-0"} 0x2000
`, time.Hour)
	if want := []string{`CollectionOperatorManagerNotScraped{pod="m-1"}`}; !slices.Equal(fired, want) {
		t.Errorf("got %v, want %v", fired, want)
	}
}

// A leader begins to report what the former one reported, and counters do not jump.
func TestNoAlertWhenTheLeaderChanges(t *testing.T) {
	former := regexp.MustCompile(`(?m)^(  collection_operator_.*)pod="m-0"} (\S+)x2000$`)
	changed := former.ReplaceAllStringFunc(running, func(line string) string {
		parts := former.FindStringSubmatch(line)
		_, step, _ := strings.Cut(parts[2], "+")
		after := parts[2]
		if step != "" {
			var by float64
			_, _ = fmt.Sscan(step, &by)
			after = fmt.Sprintf("%g+%s", 90*by, step)
		}
		return parts[1] + `pod="m-0"} ` + parts[2] + "x89 _x2000\n" + parts[1] + `pod="m-1"} _x89 ` + after + "x2000"
	})
	if changed == running {
		t.Fatal("nothing has changed")
	}
	if fired, _ := alertsAt(t, changed, 3*time.Hour); len(fired) > 0 {
		t.Error(fired)
	}
}

func TestEachAlertHasItsRunbook(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range readRules(t) {
		_, anchor, _ := strings.Cut(rule.Annotations["runbook_url"], "/docs/operations.md#")
		if anchor != strings.ToLower(rule.Alert) || !strings.Contains(string(page), "\n### "+rule.Alert+"\n") {
			t.Errorf("%s: docs/operations.md has no heading for %s", rule.Alert, rule.Annotations["runbook_url"])
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
			t.Errorf("%s: severity %q", rule.Alert, rule.Labels["severity"])
		}
	}
}
