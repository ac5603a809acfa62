package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// OperatorGroupName is the name of the OperatorGroup that is created in a namespace without one if an administrator has
// allowed it. All installations in the namespace share it.
const OperatorGroupName = "collection-operator"

// SubscriptionOptions is the input of Subscribed in addition to InstallationOptions.
type SubscriptionOptions struct {
	// Source and SourceNamespace name the CatalogSource of the manager's catalog.
	Source, SourceNamespace string
	// Image of the catalog's ClusterServiceVersions.
	Image string
	// Approval of InstallPlans. Empty means automatic.
	Approval v2beta2.ApprovalMode
	// UserManaged is true if a user writes the Subscription. It need not pass on anything.
	UserManaged bool
}

// UnsupportedRuntimeError reports the fields of RuntimeSpec that a Subscription cannot pass on.
type UnsupportedRuntimeError struct {
	Fields []UnsupportedField
}

// UnsupportedField is one of them, and why.
type UnsupportedField struct {
	Field, Why string
}

func (e *UnsupportedRuntimeError) Error() string {
	return describeUnsupported(e.Fields, "cannot be set with the Operator Lifecycle Manager")
}

func describeUnsupported(fields []UnsupportedField, what string) string {
	var names, reasons []string
	for _, f := range fields {
		names = append(names, "runtime."+f.Field)
		if !slices.Contains(reasons, f.Why) {
			reasons = append(reasons, f.Why)
		}
	}
	return fmt.Sprintf("%s %s: %s", strings.Join(names, ", "), what, strings.Join(reasons, "; "))
}

// unsupportedBySubscription returns what a Subscription cannot pass on: what is refused, and what the manager's defaults set, or is set
// for a user-managed Subscription, which only has no effect.
func unsupportedBySubscription(o *InstallationOptions, s SubscriptionOptions) (refused, ignored []UnsupportedField) {
	const noField = "a Subscription has no such field"
	runtime, defaults := &o.Runtime, &o.Defaults
	isDefault := equality.Semantic.DeepEqual
	for _, f := range []struct {
		set, isDefault bool
		UnsupportedField
	}{
		{runtime.Image != s.Image, false, UnsupportedField{"image", "the catalog fixes the image of a version"}},
		{terminationSeconds(*runtime) != DefaultTerminationSeconds, isDefault(runtime.TerminationSeconds, defaults.TerminationSeconds),
			UnsupportedField{"terminationSeconds", fmt.Sprintf("the catalog fixes terminationSeconds to %d", DefaultTerminationSeconds)}},
		{len(runtime.ImagePullSecrets) > 0, isDefault(runtime.ImagePullSecrets, defaults.ImagePullSecrets),
			UnsupportedField{"imagePullSecrets", "OLM creates the ServiceAccount of the operator, to which imagePullSecrets can be added"}},
		{len(runtime.ServiceAccountAnnotations) > 0, isDefault(runtime.ServiceAccountAnnotations, defaults.ServiceAccountAnnotations),
			UnsupportedField{"serviceAccountAnnotations", noField}},
		{len(runtime.PodLabels) > 0, isDefault(runtime.PodLabels, defaults.PodLabels), UnsupportedField{"podLabels", noField}},
		{runtime.PriorityClassName != "", runtime.PriorityClassName == defaults.PriorityClassName, UnsupportedField{"priorityClassName", noField}},
		{len(runtime.TopologySpreadConstraints) > 0, isDefault(runtime.TopologySpreadConstraints, defaults.TopologySpreadConstraints),
			UnsupportedField{"topologySpreadConstraints", noField}},
	} {
		switch {
		case f.set && (f.isDefault || s.UserManaged):
			ignored = append(ignored, f.UnsupportedField)
		case f.set:
			refused = append(refused, f.UnsupportedField)
		}
	}
	return refused, ignored
}

// SubscriptionWarnings say which settings have no effect, because a Subscription cannot pass them on.
func SubscriptionWarnings(o InstallationOptions, s SubscriptionOptions) []string {
	_, ignored := unsupportedBySubscription(&o, s)
	if len(ignored) == 0 {
		return nil
	}
	verb := "has"
	if len(ignored) > 1 {
		verb = "have"
	}
	return []string{describeUnsupported(ignored, verb+" no effect with the Operator Lifecycle Manager")}
}

// ChannelName returns the name of the channel with the collection's version and all earlier ones.
func ChannelName(c *model.Collection) string { return "v" + c.VersionLabel() }

// OperatorGroupManifest returns the YAML of an OperatorGroup for a namespace, for an administrator to complete and to apply.
func OperatorGroupManifest(namespace string) string {
	return fmt.Sprintf(`apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata:
  name: %[1]s
  namespace: %[1]s
spec:
  targetNamespaces: [%[1]q]
  serviceAccountName: SERVICEACCOUNT`, namespace)
}

// Subscribed renders an installation by the Operator Lifecycle Manager, in the order in which the objects must be applied.
// OLM creates ServiceAccount, RBAC and Deployment from the ClusterServiceVersion, except the permission to read personal credentials,
// which depends on the SubOperatorConfig. EndpointsSecret renders the Secret
// with the endpoints. The OperatorGroup is for a namespace without one. The error is an *UnsupportedRuntimeError, or names
// what cannot be rendered.
func Subscribed(c *model.Collection, o InstallationOptions, s SubscriptionOptions) ([]Object, error) {
	if refused, _ := unsupportedBySubscription(&o, s); len(refused) > 0 {
		return nil, &UnsupportedRuntimeError{Fields: refused}
	}
	if err := CheckMounts(&o.Runtime); err != nil {
		return nil, err
	}
	o.Architectures = slices.Compact(slices.Sorted(slices.Values(o.Architectures)))
	config, err := configMap(c, o)
	if err != nil {
		return nil, err
	}
	var objects []Object
	if o.PersonalCredentials {
		objects = append(objects, personalRole(c, o), roleBinding(c, o))
	}
	if usesDependencySecret(c, o) {
		objects = append(objects, dependenciesSecret(c, o))
	}
	pods, err := subscriptionConfig(c, o, config)
	if err != nil {
		return nil, err
	}
	return append(objects, networkPolicy(c, o), config, operatorGroup(o), subscription(c, o, s, pods)), nil
}

// Roles renders the roles of an operator, which the manager or OLM creates.
func Roles(c *model.Collection, o InstallationOptions) []Object {
	roles := []Object{role(c, o)}
	if len(c.ClusterRoles) > 0 {
		roles = append(roles, clusterRole(c, o))
	}
	return roles
}

func operatorGroup(o InstallationOptions) *operatorsv1.OperatorGroup {
	return &operatorsv1.OperatorGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: operatorsv1.GroupVersion.String(), Kind: operatorsv1.OperatorGroupKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: OperatorGroupName, Labels: map[string]string{LabelManagedBy: ManagedBy},
		},
		Spec: operatorsv1.OperatorGroupSpec{TargetNamespaces: []string{o.Namespace}},
	}
}

func subscription(c *model.Collection, o InstallationOptions, s SubscriptionOptions, config *operatorsv1alpha1.SubscriptionConfig) *operatorsv1alpha1.Subscription {
	return &operatorsv1alpha1.Subscription{
		TypeMeta:   metav1.TypeMeta{APIVersion: operatorsv1alpha1.SubscriptionCRDAPIVersion, Kind: operatorsv1alpha1.SubscriptionKind},
		ObjectMeta: objectMeta(c, o.Namespace, c.OperatorName()),
		Spec: &operatorsv1alpha1.SubscriptionSpec{
			CatalogSource: s.Source, CatalogSourceNamespace: s.SourceNamespace,
			Package: PackageName(c),
			// Upgrades follow the channel. A new installation starts with this version. It is updated with the channel,
			// since the starting version must exist in the catalog.
			Channel: ChannelName(c), StartingCSV: c.CSVName(),
			InstallPlanApproval: operatorsv1alpha1.Approval(cmp.Or(s.Approval, v2beta2.ApprovalAutomatic)),
			Config:              config,
		},
	}
}

// subscriptionConfig returns what the user sets for the pods, and the hash of their whole configuration: OLM replaces the pods when
// one of them changes.
func subscriptionConfig(c *model.Collection, o InstallationOptions, config *corev1.ConfigMap) (*operatorsv1alpha1.SubscriptionConfig, error) {
	runtime := MergeRuntime(&o.Runtime, nil)
	set := &operatorsv1alpha1.SubscriptionConfig{
		NodeSelector: runtime.NodeSelector, Tolerations: runtime.Tolerations, Resources: runtime.Resources, Env: subscriptionEnv(c, o),
		EnvFrom: envFrom(runtime), Volumes: userVolumes(runtime), VolumeMounts: userMounts(runtime), Annotations: runtime.PodAnnotations,
	}
	if runtime.Affinity != nil {
		set.Affinity = affinity(runtime.Affinity, o.Architectures)
	}
	text, err := JSON(set, "")
	if err != nil {
		return nil, err
	}
	if string(text) == "{}" {
		text = nil // Nothing is set.
	}
	set.Annotations = mergeMaps(set.Annotations, map[string]string{RuntimeHashAnnotation: runtimeHash(config.Data, text)})
	return set, nil
}

// subscriptionEnv omits variables that the ClusterServiceVersion sets, since those of a Subscription would replace them.
func subscriptionEnv(c *model.Collection, o InstallationOptions) []corev1.EnvVar {
	reserved := append(operatorEnv(o.podOptions(c)), corev1.EnvVar{Name: maxConcurrentReconciles})
	env := slices.DeleteFunc(MergeRuntime(&o.Runtime, nil).Env, func(e corev1.EnvVar) bool {
		return slices.ContainsFunc(reserved, func(r corev1.EnvVar) bool { return r.Name == e.Name })
	})
	if o.Runtime.MaxConcurrentReconciles != nil {
		env = append(env, corev1.EnvVar{Name: maxConcurrentReconciles, Value: concurrency(o.Runtime)})
	}
	return env
}
