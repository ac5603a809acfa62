package operandrequest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/merge"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// mappings adds namespaces to the mappings of SubOperatorConfigs, which install operators of OperatorCollections there, and removes them.
type mappings struct {
	*cluster.Access
	users *users
}

// resolve finds the SubOperatorConfig of an OperatorCollection that maps a namespace, or is to map it: the oldest one.
func (m *mappings) resolve(ctx context.Context, s *scope, id plan.ID, wanted plan.Install) (*install, error) {
	list := &v2beta2.SubOperatorConfigList{}
	if err := m.Client.List(ctx, list, client.InNamespace(wanted.Collection.Namespace)); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	candidates := slices.DeleteFunc(list.Items, func(soc v2beta2.SubOperatorConfig) bool {
		return soc.Spec.OperatorCollection != wanted.Collection.Name || soc.DeletionTimestamp != nil
	})
	slices.SortFunc(candidates, func(a, b v2beta2.SubOperatorConfig) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	i := &install{Install: wanted, phase: v1alpha1.OperatorInstalling}
	for c := range candidates {
		if i.soc == nil || mappingOf(i.soc, wanted.Namespace) == nil && mappingOf(&candidates[c], wanted.Namespace) != nil {
			i.soc = &candidates[c]
		}
	}
	if i.soc == nil {
		return i, waitingFor("OperatorCollection %q has no SubOperatorConfig: create one, with an empty mapping if it is not to be installed elsewhere", wanted.Collection)
	}
	if mappingOf(i.soc, wanted.Namespace) != nil && !isOurs(i.soc, wanted.Namespace) {
		return i, nil
	}
	err := m.CheckConsent(ctx, plan.AnnotationConsent, i.soc.Namespace, wanted.Namespace)
	if err == nil {
		err = m.checkEndpoints(ctx, s, i)
	}
	if err != nil {
		return &install{Install: wanted, phase: v1alpha1.OperatorFailed}, err
	}
	i.entry = &v1alpha1.InventoryEntry{
		Registry: id.Registry.String(), Operand: id.Name, Origin: v1alpha1.OriginOperator, APIVersion: v2beta2.GroupVersion.String(), Kind: "SubOperatorConfig",
		Namespace: i.soc.Namespace, Name: i.soc.Name, UID: string(i.soc.UID), Mapping: wanted.Namespace, Collection: wanted.Collection.Name,
	}
	return i, nil
}

// checkEndpoints fails if others want the same mapping with other ZosEndpoints, and come first.
func (m *mappings) checkEndpoints(ctx context.Context, s *scope, i *install) error {
	for _, operand := range s.operands {
		for _, theirs := range operand.installs {
			if theirs.Place() == i.Place() && !equality.Semantic.DeepEqual(theirs.ZosEndpoints, i.ZosEndpoints) {
				return status.Waiting(v1alpha1.ReasonInvalidOperand, status.Watched,
					"operand %q wants the operator of OperatorCollection %q in namespace %q with other zosendpoints: request one of the two", operand.ID.Name, i.Collection, i.Namespace)
			}
		}
	}
	if err := s.loadOthers(ctx, m.Reader); err != nil {
		return err
	}
	for _, other := range s.others {
		if other.ends() {
			continue
		}
		for _, operand := range other.operands {
			for _, theirs := range operand.Installs {
				if theirs.Place() == i.Place() && !equality.Semantic.DeepEqual(theirs.ZosEndpoints, i.ZosEndpoints) && isBefore(other.request, s.request) {
					return status.Waiting(v1alpha1.ReasonInvalidOperand, intervals.Missing,
						"an OperandRequest in namespace %q wants the operator of OperatorCollection %q in namespace %q with other zosendpoints: use the same OperandRegistry",
						other.request.Namespace, i.Collection, i.Namespace)
				}
			}
		}
	}
	return nil
}

func isBefore(a, b client.Object) bool {
	created := b.GetCreationTimestamp()
	return cmp.Or(a.GetCreationTimestamp().Compare(created.Time), strings.Compare(string(a.GetUID()), string(b.GetUID()))) < 0
}

// ensure adds the mapping if nobody else has, and returns the phase of the operator.
func (m *mappings) ensure(ctx context.Context, i *install) (v1alpha1.OperatorPhase, error) {
	if i.soc == nil { // Its error was reported.
		return i.phase, nil
	}
	if i.entry != nil {
		mapping := v2beta2.NamespaceMapping{Namespace: i.Namespace, ZosEndpoints: i.ZosEndpoints}
		live := mappingOf(i.soc, i.Namespace)
		if live == nil || !equality.Semantic.DeepEqual(*live, mapping) {
			if err := m.apply(ctx, i.soc, i.Namespace, &mapping); err != nil {
				return v1alpha1.OperatorFailed, err
			}
		}
	}
	return phaseOf(i.soc, i.Namespace)
}

// remove removes the mapping that we have added, once no resource of the collection is left in the namespace.
func (m *mappings) remove(ctx context.Context, s *scope, e v1alpha1.InventoryEntry) (awaited string, err error) {
	soc, err := liveConfig(ctx, m.Reader, e)
	if err != nil || soc == nil || soc.Labels[v1alpha1.LabelKeep] == "true" {
		return "", err
	}
	if isOurs(soc, e.Mapping) {
		if users, err := m.users.ofMapping(ctx, s, e); err != nil || len(users) > 0 {
			return status.JoinNames(users), err
		}
		if err := m.apply(ctx, soc, e.Mapping, nil); err != nil {
			return "", err
		}
	}
	if mappingOf(soc, e.Mapping) != nil { // Others map it, too.
		return "", nil
	}
	if ends, err := m.IsEnding(ctx, e.Mapping); err != nil || ends { // The operator goes with its namespace.
		return "", err
	}
	for _, i := range soc.Status.Installations {
		if i.Namespace == e.Mapping {
			return fmt.Sprintf("the operator of OperatorCollection %q in namespace %q to end", e.Collection, e.Mapping), nil
		}
	}
	return "", nil
}

// apply adds or changes the mapping of a namespace, or removes ours if it is nil. It updates soc.
func (m *mappings) apply(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string, mapping *v2beta2.NamespaceMapping) error {
	applied := unstructuredOf(v2beta2.GroupVersion.WithKind("SubOperatorConfig"), client.ObjectKeyFromObject(soc))
	applied.SetUID(soc.UID)
	if mapping != nil {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(mapping)
		if err != nil {
			return err
		}
		applied.Object["spec"] = map[string]any{"mapping": []any{fields}}
	}
	err := m.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(mappingOwner(namespace)))
	if err != nil {
		return m.Explain(err, applied)
	}
	updated := &v2beta2.SubOperatorConfig{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, updated); err != nil {
		return err
	}
	*soc = *updated
	return nil
}

// mappingOwner is the field manager of a mapping, so that each mapping can be applied and removed alone.
func mappingOwner(namespace string) string { return plan.FieldOwner + "/" + namespace }

// isOurs reports whether we have added the mapping of a namespace.
func isOurs(soc *v2beta2.SubOperatorConfig, namespace string) bool {
	return merge.Owns(soc.ManagedFields, mappingOwner(namespace), "f:spec", "f:mapping", fmt.Sprintf(`k:{"namespace":%q}`, namespace))
}

func mappingOf(soc *v2beta2.SubOperatorConfig, namespace string) *v2beta2.NamespaceMapping {
	for i := range soc.Spec.Mapping {
		if soc.Spec.Mapping[i].Namespace == namespace {
			return &soc.Spec.Mapping[i]
		}
	}
	return nil
}

// phaseOf returns the phase of the operator in a namespace, by the status of its SubOperatorConfig.
func phaseOf(soc *v2beta2.SubOperatorConfig, namespace string) (v1alpha1.OperatorPhase, error) {
	for _, i := range soc.Status.Installations {
		if i.Namespace != namespace {
			continue
		}
		if i.Ready && i.RemovalTime == nil {
			return v1alpha1.OperatorRunning, nil
		}
		return notReady(soc, namespace, i.Reason, i.Message)
	}
	ready := meta.FindStatusCondition(soc.Status.Conditions, v2beta2.ConditionReady)
	if ready == nil || ready.ObservedGeneration != soc.Generation || ready.Status == "True" {
		return notReady(soc, namespace, v2beta2.ReasonProgressing, "")
	}
	return notReady(soc, namespace, ready.Reason, ready.Message)
}

func notReady(soc *v2beta2.SubOperatorConfig, namespace, reason, message string) (v1alpha1.OperatorPhase, error) {
	text := fmt.Sprintf("SubOperatorConfig %q installs the operator in namespace %q", client.ObjectKeyFromObject(soc), namespace)
	if message != "" {
		text += ": " + printable.Line(message, 1024)
	}
	if reason == "" || reason == v2beta2.ReasonWorkloadUnavailable || status.IsProgress(reason) {
		return v1alpha1.OperatorInstalling, waitingFor("%s", text)
	}
	return v1alpha1.OperatorFailed, status.Waiting(v1alpha1.ReasonOperatorFailed, status.Watched, "%s", text)
}
