package runner

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// situation is a resource at the time of a decision.
type situation struct {
	live     *unstructured.Unstructured
	input    gate.Input
	decision gate.Decision
}

// readInput reads what the decision depends on.
func readInput(ctx context.Context, r *scope, live *unstructured.Unstructured) (gate.Input, error) {
	f, supply := r.files, r.supplyOf(live)
	handed, _ := supply.Declared(gate.ReceivedSpec(f.Given))
	wanted, _ := supply.Declared(specOf(live))
	var err error
	facts := gate.Facts{Event: f.Event, Variables: handed, Digest: f.Settings.Digest}
	if facts.References, err = readReferences(ctx, r, f.Kind.References(handed)); err != nil {
		return gate.Input{}, err
	}
	if facts.Secrets, err = readSecrets(ctx, r, f.Kind.SecretNames(handed)); err != nil {
		return gate.Input{}, err
	}
	if facts.EndpointVariables, err = f.EndpointVariables(endpointOf(handed)); err != nil {
		return gate.Input{}, err
	}
	annotations := live.GetAnnotations()
	period, err := time.ParseDuration(gate.Annotation(annotations, gate.AnnotationReconcilePeriod))
	if err != nil {
		period = 0
	}
	return gate.Input{
		Settings: f.Settings, Kind: f.Kind, Now: time.Now(), Event: f.Event, Current: supply.Fingerprint(f.Key, facts),
		Installation: r.installation, Defaults: supply.RanWith(handed), Accepts: r.accepts(live),
		Stale:  !reflect.DeepEqual(handed, wanted) || deleting(live) != (f.Event == gate.EventDelete),
		Record: r.record(live), Baseline: runstatus.IsBaseline(statusOf(live), live.GetGeneration()), LastRun: runstatus.LastRun(statusOf(live)),
		Applied: runstatus.Applied(statusOf(live)), Migrated: runstatus.LastMigration(statusOf(live)),
		UID: live.GetUID(), Requested: annotations[gate.AnnotationRequestedAt], Period: period,
		CheckAsked: annotations[gate.AnnotationCheckRequestedAt],
		Abandon:    annotations[gate.AnnotationAbandon] == "true", RunNow: annotations[endpoint.AnnotationRunNow],
	}, nil
}

// readSecrets returns the contents of Secrets; nil for one that does not exist.
func readSecrets(ctx context.Context, r *scope, names []string) (map[string]map[string][]byte, error) {
	secrets := map[string]map[string][]byte{}
	for _, name := range names {
		secret, err := r.readSecret(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case secret == nil:
			secrets[name] = nil
		case secret.Data == nil:
			secrets[name] = map[string][]byte{}
		default:
			secrets[name] = secret.Data
		}
	}
	return secrets, nil
}

// readReferences returns the declared variables of resources that are named plural/name; nil for one that does not exist.
func readReferences(ctx context.Context, r *scope, references []string) (map[string]map[string]any, error) {
	variables := map[string]map[string]any{}
	for _, reference := range references {
		plural, name, _ := strings.Cut(reference, "/")
		object, err := r.lookUp(ctx, kindResource(r.files, plural), name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", reference, err)
		}
		variables[reference] = nil
		if object != nil {
			variables[reference] = referenced(r, plural, object)
		}
	}
	return variables, nil
}

// referenced returns the variables of a resource that another one names. Defaults that its last run did not have are left out: they
// change nothing for the others before it runs with them.
func referenced(r *scope, plural string, live *unstructured.Unstructured) map[string]any {
	for name, kind := range r.files.Settings.Kinds {
		if kind.Plural != plural {
			continue
		}
		id := gate.Identity{Group: r.files.Settings.Group, Kind: name, Namespace: live.GetNamespace(), Name: live.GetName()}
		supply := r.supply(kind, id, live)
		vars, _ := supply.Declared(specOf(live))
		return supply.WithoutNew(vars)
	}
	return map[string]any{}
}
