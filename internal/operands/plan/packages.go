package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

// PackageOf returns where the package of an operator is installed, or nil if the operator has none.
func PackageOf(registry *v1alpha1.OperandRegistry, operator *v1alpha1.Operator, source *Source) *PackageKey {
	if operator.Collection != nil || operator.PackageName == "" {
		return nil
	}
	key := PackageKey{cmp.Or(operator.Namespace, registry.Namespace), operator.PackageName}
	if operator.InstallMode == v1alpha1.InstallModeCluster {
		key.Namespace = source.GlobalNamespace
	}
	return &key
}

// annotationExamples is that of a ClusterServiceVersion with examples, as a list in JSON.
const annotationExamples = "alm-examples"

// InstalledBy reads a ClusterServiceVersion. Examples without kind, name or spec are ignored.
func InstalledBy(csv *operatorsv1alpha1.ClusterServiceVersion) (*Installed, error) {
	installed := &Installed{}
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(owned.Name, ".")
		installed.Kinds = append(installed.Kinds, schema.GroupKind{Group: group, Kind: owned.Kind})
	}
	text := csv.Annotations[annotationExamples]
	if text == "" {
		return installed, nil
	}
	var examples []any
	if err := json.Unmarshal([]byte(text), &examples); err != nil {
		return nil, fmt.Errorf("annotation %s of ClusterServiceVersion %q: %w", annotationExamples, csv.Name, err)
	}
	for _, item := range examples {
		fields, _ := item.(map[string]any)
		metadata, _ := fields["metadata"].(map[string]any)
		apiVersion, _ := fields["apiVersion"].(string)
		kind, _ := fields["kind"].(string)
		name, _ := metadata["name"].(string)
		spec, hasSpec := fields["spec"].(map[string]any)
		if apiVersion != "" && kind != "" && name != "" && hasSpec {
			installed.Examples = append(installed.Examples, Example{schema.FromAPIVersionAndKind(apiVersion, kind), name, spec})
		}
	}
	return installed, nil
}

// newPackage returns the package that the operator of an OperandRegistry specifies.
func newPackage(id ID, operator *v1alpha1.Operator, key PackageKey, installed *Installed) (*Package, error) {
	if operator.Channel == "" {
		return nil, fmt.Errorf("operator %q: packageName needs channel", operator.Name)
	}
	approval := cmp.Or(operator.InstallPlanApproval, string(operatorsv1alpha1.ApprovalAutomatic))
	if !slices.Contains([]string{string(operatorsv1alpha1.ApprovalAutomatic), string(operatorsv1alpha1.ApprovalManual)}, approval) {
		return nil, fmt.Errorf("operator %q: installPlanApproval must be Automatic or Manual, but is %q", operator.Name, approval)
	}
	p := &Package{
		PackageKey: key, Channels: append([]string{operator.Channel}, operator.FallbackChannels...),
		Source: operator.SourceName, SourceNamespace: operator.SourceNamespace, Global: operator.InstallMode == v1alpha1.InstallModeCluster,
	}
	if installed != nil {
		p.Kinds = installed.Kinds
	}
	spec := map[string]any{"name": key.Name, "channel": operator.Channel, "installPlanApproval": approval}
	for name, value := range map[string]string{"source": p.Source, "sourceNamespace": p.SourceNamespace, "startingCSV": operator.StartingCSV} {
		if value != "" {
			spec[name] = value
		}
	}
	if operator.SubscriptionConfig != nil {
		config, err := object(operator.SubscriptionConfig.Raw)
		if err != nil {
			return nil, fmt.Errorf("operator %q: subscriptionConfig: %w", operator.Name, err)
		}
		spec["config"] = config
	}
	p.Subscription = operatorObject(SubscriptionKind, key.Namespace, key.Name, id.String(), spec)
	if p.Global {
		return p, nil
	}
	p.Targets = []string{key.Namespace}
	if len(operator.TargetNamespaces) > 0 {
		p.Targets = slices.Compact(slices.Sorted(slices.Values(operator.TargetNamespaces)))
	}
	targets := make([]any, len(p.Targets))
	for i, target := range p.Targets {
		targets[i] = target
	}
	p.Group = operatorObject(OperatorGroupKind, key.Namespace, GroupName, GroupName, map[string]any{"targetNamespaces": targets})
	return p, nil
}

func operatorObject(kind schema.GroupVersionKind, namespace, name, owner string, spec map[string]any) Object {
	o := Object{
		Origin: v1alpha1.OriginOperator, Kind: kind, Owner: owner,
		Key: types.NamespacedName{Namespace: namespace, Name: name}, Config: map[string]any{"spec": spec},
	}
	o.mark(nil, nil)
	return o
}
