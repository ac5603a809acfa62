// Package monitoring tests the rules and the dashboard of config/components/monitoring with the engine of Prometheus, and draws the
// picture of the dashboard. It is a module of its own: nothing else needs Prometheus.
package monitoring

import (
	"os"
	"time"

	"sigs.k8s.io/yaml"
)

// Component is the folder with the rules and the dashboard.
const Component = "../../config/components/monitoring"

// Rule is an alert of the PrometheusRule.
type Rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// ReadRules returns the alerts of a PrometheusRule.
func ReadRules(path string) ([]Rule, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var object struct {
		Spec struct {
			Groups []struct {
				Rules []Rule `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(content, &object); err != nil {
		return nil, err
	}
	var all []Rule
	for _, group := range object.Spec.Groups {
		all = append(all, group.Rules...)
	}
	return all, nil
}

// Hold returns how long the expression must be true before the alert fires.
func (r Rule) Hold() (time.Duration, error) { return time.ParseDuration(r.For) }
