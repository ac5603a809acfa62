package render

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// DefaultRunTimeout is the limit of a run in new installations for which no setting has one.
const DefaultRunTimeout = 24 * time.Hour

// DefaultMaxArtifacts is the default number of runs of an instance whose files are kept in the pod.
const DefaultMaxArtifacts int32 = 5

// runsJSON returns the settings of the gate that decides when playbooks run.
func runsJSON(c *model.Collection, o InstallationOptions) (string, error) {
	settings := gate.Settings{
		Version: c.Version.String(), Digest: o.Digest.String(),
		Operator: c.OperatorName(), Group: o.Group, APIVersion: c.APIVersion(),
		RerunOn:      rerunOn(o.Runtime),
		MaxRetries:   int(ptr.Deref(o.Runtime.MaxRetries, gate.DefaultMaxRetries)),
		MaxArtifacts: maxArtifacts(o.Runtime, model.Resource{}),
		Kinds:        make(map[string]gate.KindSettings, len(c.Resources)),
	}
	if c.MigrationPlaybook != "" {
		settings.MigrationPlaybook = path.Join(contentDir, c.MigrationPlaybook)
	}
	if timeout := o.Runtime.RunTimeout; timeout != nil {
		settings.RunTimeoutSeconds = wholeSeconds(timeout.Duration)
	}
	if period := o.Runtime.DriftCheckPeriod; period != nil {
		settings.DriftCheckPeriodSeconds = wholeSeconds(period.Duration)
	}
	settings.DriftCheckSkipModules = slices.Compact(slices.Sorted(slices.Values(o.Runtime.DriftCheckSkipModules)))
	for _, r := range c.Resources {
		variables, err := GateVariables(c, r.Vars)
		if err != nil {
			return "", fmt.Errorf("%s: kind %s: %w", gate.SettingsFile, r.Kind, err)
		}
		kind := gate.KindSettings{
			Plural:                 r.Plural(),
			ReconcilePeriodSeconds: wholeSeconds(reconcilePeriod(o.Runtime, r)),
			CheckMode:              r.SupportsCheckMode,
			ShowDiff:               r.SupportsCheckMode && r.ShowDiff,
			Variables:              variables,
		}
		if most := maxArtifacts(o.Runtime, r); most != settings.MaxArtifacts {
			kind.MaxArtifacts = most
		}
		settings.Kinds[r.Kind] = kind
	}
	out, err := JSON(settings, "  ")
	if err != nil {
		return "", fmt.Errorf("%s: %w", gate.SettingsFile, err)
	}
	return string(out) + "\n", nil
}

// rerunOn returns the changes that start playbooks, without duplicates, in the order of the API's documentation.
func rerunOn(runtime v2beta2.RuntimeSpec) []gate.Trigger {
	if len(runtime.RerunOn) == 0 {
		return gate.DefaultRerunOn()
	}
	all := []gate.Trigger{gate.TriggerSpec, gate.TriggerSecret, gate.TriggerCollection, gate.TriggerEndpoint}
	return slices.DeleteFunc(all, func(t gate.Trigger) bool {
		return !slices.Contains(runtime.RerunOn, v2beta2.RerunTrigger(t))
	})
}

// maxArtifacts returns the number of administrators, else that of the author, else the default.
func maxArtifacts(runtime v2beta2.RuntimeSpec, r model.Resource) int {
	most := cmp.Or(r.MaxArtifacts, int(DefaultMaxArtifacts))
	if runtime.MaxArtifacts != nil {
		most = int(*runtime.MaxArtifacts)
	}
	return min(max(most, 1), gate.MaxArtifacts)
}

// reconcilePeriod returns the interval between runs of a kind, or 0: that of administrators, else that of the author. A shorter one than gate.MinReconcilePeriod, from an
// object that was created before there was a minimum, is replaced with the minimum.
func reconcilePeriod(runtime v2beta2.RuntimeSpec, r model.Resource) time.Duration {
	period := ptr.Deref(runtime.ReconcilePeriod, metav1.Duration{Duration: r.ReconcilePeriod})
	for _, p := range runtime.ReconcilePeriods {
		if p.Kind == r.Kind {
			period = p.Period
		}
	}
	if period.Duration <= 0 {
		return 0
	}
	return max(period.Duration, gate.MinReconcilePeriod)
}

func wholeSeconds(d time.Duration) int64 { return int64(d.Round(time.Second) / time.Second) }

// GateVariables converts declared variables. Their defaults are those of the CRD.
func GateVariables(c *model.Collection, vars []model.Var) ([]gate.Variable, error) {
	variables := make([]gate.Variable, 0, len(vars))
	for _, v := range vars {
		schema, err := varSchema(v)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		variable := gate.Variable{Name: v.Name, Secret: v.Type == model.Password}
		if schema.Default != nil {
			variable.Default = schema.Default.Raw
		}
		if r, own := c.Resource(v.KindReference); own {
			variable.Reference = r.Plural()
		}
		if len(v.Fields) > 0 {
			if variable.Fields, err = GateVariables(c, v.Fields); err != nil {
				return nil, fmt.Errorf("variable %s: %w", v.Name, err)
			}
		}
		variables = append(variables, variable)
	}
	return variables, nil
}
