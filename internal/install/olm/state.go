package olm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// listLimit is the maximum number of objects of a kind that are read from one namespace.
const listLimit = 500

// state is the state of one collection in one namespace in OLM.
type state struct {
	// subscription to the collection's package, or nil.
	subscription *operatorsv1alpha1.Subscription
	// userManaged is true if a user created the Subscription. The manager never deletes it and never changes its channel or
	// approval.
	userManaged bool
	// csvs are the ClusterServiceVersions of the collection.
	csvs []operatorsv1alpha1.ClusterServiceVersion
	// plan is the current InstallPlan of the Subscription, or nil.
	plan *operatorsv1alpha1.InstallPlan
	// groups are the OperatorGroups of the namespace.
	groups []operatorsv1.OperatorGroup
	// ownGroup is true if the OperatorGroup of the namespace is the one that the manager has created, or has to create.
	ownGroup bool
	// warnings about the Subscriptions and OperatorGroups in the namespace.
	warnings []string
}

// csv returns the ClusterServiceVersion of that name, or nil.
func (s *state) csv(name string) *operatorsv1alpha1.ClusterServiceVersion {
	for i := range s.csvs {
		if s.csvs[i].Name == name {
			return &s.csvs[i]
		}
	}
	return nil
}

func (s *state) name() string { return s.subscription.Namespace + "/" + s.subscription.Name }

// ready reports whether the runtime may get the configuration of a version. The pods of another version's
// ClusterServiceVersion, or of one that an earlier manager created, keep theirs until OLM replaces it, which may require
// approval. While the new ClusterServiceVersion is pending, the old pods may have to start again.
func (s *state) ready(name string) bool {
	csv := s.csv(name)
	switch {
	case len(s.csvs) == 0:
		return true
	case csv == nil || withoutGate(csv):
		return false
	}
	return len(s.csvs) == 1 || hasBegun(csv)
}

// hasBegun reports whether OLM may have changed the Deployment of a ClusterServiceVersion. Some reasons to fail are found before.
func hasBegun(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	switch csv.Status.Phase {
	case operatorsv1alpha1.CSVPhaseNone, operatorsv1alpha1.CSVPhasePending:
		return false
	case operatorsv1alpha1.CSVPhaseFailed:
		return slices.Contains([]operatorsv1alpha1.ConditionReason{
			operatorsv1alpha1.CSVReasonComponentFailed, operatorsv1alpha1.CSVReasonComponentFailedNoRetry,
			operatorsv1alpha1.CSVReasonInstallCheckFailed, operatorsv1alpha1.CSVReasonComponentUnhealthy,
		}, csv.Status.Reason)
	}
	return true
}

// orphaned reports whether OLM runs the operator for a deleted Subscription. While it does, OLM does not resolve another
// Subscription to the package, which may already exist.
func (s *state) orphaned() bool {
	if len(s.csvs) == 0 || s.userManaged || s.subscription == nil {
		return len(s.csvs) > 0 && !s.userManaged
	}
	status := s.subscription.Status
	return status.InstalledCSV == "" && status.CurrentCSV == "" &&
		!slices.ContainsFunc(s.csvs, func(csv operatorsv1alpha1.ClusterServiceVersion) bool {
			return !csv.CreationTimestamp.Before(&s.subscription.CreationTimestamp)
		})
}

// isBeingReplaced reports whether the removal of the operator has begun, and its Subscription is gone: it goes on until no pod is left.
func (s *state) isBeingReplaced(i *install.Installation) bool {
	recorded := install.Recorded(i.Owner, i.Namespace)
	return s.subscription == nil && recorded != nil && recorded.Install == v2beta2.InstallOLM && recorded.RemovalTime != nil
}

// goesBack reports whether OLM has to install an older version than it has installed. A user-managed Subscription is not deleted, and
// where a user approves InstallPlans, or the namespace keeps what it has, nothing that runs is removed before.
func (s *state) goesBack(i *install.Installation) bool {
	return !s.userManaged && i.Held == nil && i.Owner.Spec.InstallPlanApproval != v2beta2.ApprovalManual && s.newerCSV(i.Collection) != nil
}

// newerCSV returns the ClusterServiceVersion that OLM has installed for the Subscription, or is installing if there was none before, if
// it is newer than the requested version, or nil. OLM does not go back.
func (s *state) newerCSV(c *model.Collection) *operatorsv1alpha1.ClusterServiceVersion {
	if s.subscription == nil {
		return nil
	}
	present := s.csv(cmp.Or(s.subscription.Status.InstalledCSV, s.subscription.Status.CurrentCSV))
	if present == nil {
		return nil
	}
	if version, err := semver.NewVersion(present.Spec.Version.String()); err != nil || !version.GreaterThan(c.Version) {
		return nil
	}
	return present
}

// installedCSV returns the name of the ClusterServiceVersion that OLM installed for the Subscription, or "".
func (s *state) installedCSV() string {
	if s.subscription == nil {
		return ""
	}
	return s.subscription.Status.InstalledCSV
}

// annotation returns the hash with which the Subscription annotates the pods, or "".
func (s *state) annotation() string {
	if s.subscription == nil || s.subscription.Spec.Config == nil {
		return ""
	}
	return s.subscription.Spec.Config.Annotations[render.RuntimeHashAnnotation]
}

// runtimeHash returns the hash of the configuration that the pods have, from the Subscription or from the ClusterServiceVersion that it
// has installed, or "".
func (s *state) runtimeHash() string {
	return cmp.Or(s.annotation(), catalogHash(s.csv(s.installedCSV())))
}

// wantedAnnotation returns the hash with which the Subscription has to annotate the pods of a version. It is "" if their
// ClusterServiceVersion has the same, or does not exist yet.
func (s *state) wantedAnnotation(name, hash string) string {
	csv := s.csv(name)
	switch {
	case !s.ready(name):
		return s.annotation()
	case csv == nil || catalogHash(csv) == hash:
		return ""
	}
	return hash
}

// runtimeImageOf returns the image of the operator container in a ClusterServiceVersion, or "".
func runtimeImageOf(csv *operatorsv1alpha1.ClusterServiceVersion) string {
	if container := operatorContainerOf(csv); container != nil {
		return container.Image
	}
	return ""
}

// catalogHash returns the hash of the configuration that the pods of a ClusterServiceVersion have without a Subscription, or "".
func catalogHash(csv *operatorsv1alpha1.ClusterServiceVersion) string {
	if csv == nil {
		return ""
	}
	for _, deployment := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		if hash := deployment.Spec.Template.Annotations[render.CatalogHashAnnotation]; hash != "" {
			return hash
		}
	}
	return ""
}

// withoutGate reports whether the pods of a ClusterServiceVersion do not know runs.json.
func withoutGate(csv *operatorsv1alpha1.ClusterServiceVersion) bool {
	container := operatorContainerOf(csv)
	return container != nil && !render.HasGate(container)
}

// operatorContainerOf returns the operator container in a ClusterServiceVersion, or nil.
func operatorContainerOf(csv *operatorsv1alpha1.ClusterServiceVersion) *corev1.Container {
	for _, deployment := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for i, container := range deployment.Spec.Template.Spec.Containers {
			if container.Name == render.OperatorContainer {
				return &deployment.Spec.Template.Spec.Containers[i]
			}
		}
	}
	return nil
}

// list reads live objects of OLM. If the cluster does not have their kind, the list is empty.
func list(ctx context.Context, reader client.Reader, into client.ObjectList, options ...client.ListOption) error {
	return apply.ConfirmAbsence(ctx, reader, reader.List(ctx, into, append(options, client.Limit(listLimit))...))
}

// findSubscription looks for a Subscription to the collection's package. A user-managed one from the manager's catalog is
// used. One from another catalog is an error: it would install a second operator for the same kinds.
func (c *Cluster) findSubscription(ctx context.Context, i *install.Installation) (*state, error) {
	subscriptions := &operatorsv1alpha1.SubscriptionList{}
	if err := list(ctx, c.Reader, subscriptions, client.InNamespace(i.Namespace)); err != nil {
		return nil, fmt.Errorf("listing Subscriptions in namespace %q: %w", i.Namespace, err)
	}
	slices.SortFunc(subscriptions.Items, func(a, b operatorsv1alpha1.Subscription) int { return strings.Compare(a.Name, b.Name) })
	s, ours := &state{}, install.OwnedBy(i.Owner)
	for n := range subscriptions.Items {
		subscription := &subscriptions.Items[n]
		if subscription.Spec == nil || subscription.Spec.Package != i.Collection.OperatorName() {
			continue
		}
		switch {
		case ours(subscription):
			if s.subscription != nil {
				s.warnings = append(s.warnings, secondSubscription(s.subscription))
			}
			s.subscription, s.userManaged = subscription, false
		case !c.Offers(subscription):
			return nil, status.Waiting(v2beta2.ReasonForeignObject, intervals.Missing,
				"Subscription %q subscribes to package %s of another catalog, %s/%s: delete it and its ClusterServiceVersion",
				i.Namespace+"/"+subscription.Name, subscription.Spec.Package, subscription.Spec.CatalogSourceNamespace, subscription.Spec.CatalogSource)
		case s.subscription != nil:
			s.warnings = append(s.warnings, secondSubscription(subscription))
		default:
			s.subscription, s.userManaged = subscription, true
		}
	}
	return s, nil
}

func secondSubscription(s *operatorsv1alpha1.Subscription) string {
	return fmt.Sprintf("Subscription %q is a second Subscription to package %s, which OLM does not resolve: delete it", s.Namespace+"/"+s.Name, s.Spec.Package)
}

// read reads the state of OLM in a namespace, live: the cache lacks objects that users created. It fails with a reason if
// OLM cannot install anything in the namespace.
func (c *Cluster) read(ctx context.Context, i *install.Installation, s *state) error {
	csvs, err := listCSVs(ctx, c.Reader, i.Collection.ID(), i.Namespace)
	if err != nil {
		return err
	}
	s.csvs = csvs
	own, warning, err := chooseOperatorGroup(i.Namespace, s.groups, c.CreateOperatorGroups)
	s.ownGroup = own
	if warning != "" {
		s.warnings = append(s.warnings, warning)
	}
	if err != nil || s.subscription == nil || s.subscription.Status.InstallPlanRef == nil {
		return err
	}
	plan := &operatorsv1alpha1.InstallPlan{}
	key := types.NamespacedName{Namespace: i.Namespace, Name: s.subscription.Status.InstallPlanRef.Name}
	if err := c.Reader.Get(ctx, key, plan); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading InstallPlan %q: %w", key, err)
	} else if err == nil {
		s.plan = plan
	}
	return nil
}

// listGroups returns the OperatorGroups of a namespace, live.
func (c *Cluster) listGroups(ctx context.Context, namespace string) ([]operatorsv1.OperatorGroup, error) {
	groups := &operatorsv1.OperatorGroupList{}
	if err := list(ctx, c.Reader, groups, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing OperatorGroups in namespace %q: %w", namespace, err)
	}
	return groups.Items, nil
}

// listCSVs returns the ClusterServiceVersions of a collection in a namespace, without copies of those in other namespaces.
func listCSVs(ctx context.Context, reader client.Reader, id model.ID, namespace string) ([]operatorsv1alpha1.ClusterServiceVersion, error) {
	csvs := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := list(ctx, reader, csvs, client.InNamespace(namespace), client.MatchingLabels(render.IdentityLabels(id))); err != nil {
		return nil, fmt.Errorf("listing ClusterServiceVersions in namespace %q: %w", namespace, err)
	}
	return slices.DeleteFunc(csvs.Items, func(csv operatorsv1alpha1.ClusterServiceVersion) bool { return csv.IsCopied() }), nil
}

// chooseOperatorGroup reports whether the OperatorGroup of a namespace with these OperatorGroups is the manager's own. If
// create is false, the manager neither creates nor changes one.
func chooseOperatorGroup(namespace string, groups []operatorsv1.OperatorGroup, create bool) (own bool, warning string, err error) {
	conflict := func(format string, args ...any) error {
		return status.Waiting(v2beta2.ReasonOperatorGroupConflict, intervals.Missing, "namespace %q: %s", namespace, fmt.Sprintf(format, args...))
	}
	var names []string
	for _, group := range groups {
		names = append(names, group.Name)
	}
	slices.Sort(names)
	switch {
	case create && (len(groups) == 0 || len(groups) == 1 && install.IsSharedGroup(&groups[0])):
		return true, "", nil
	case len(groups) == 0:
		return false, "", missingGroup(namespace)
	case len(groups) > 1:
		return false, "", conflict("it has the OperatorGroups %s, and OLM installs nothing in a namespace with more than one: delete all but one",
			strings.Join(names, ", "))
	}
	group := &groups[0]
	if targets := targetsOf(group); !slices.Equal(targets, []string{namespace}) {
		return false, "", conflict("its OperatorGroup %s is for %s, and the operator can only be for its own namespace: map another namespace, or set install: Direct",
			group.Name, describeTargets(targets))
	}
	if account := group.Spec.ServiceAccountName; account != "" {
		for _, condition := range group.Status.Conditions {
			if condition.Type == operatorsv1.OperatorGroupServiceAccountCondition && condition.Reason == operatorsv1.OperatorGroupServiceAccountReason {
				return false, "", conflict("its OperatorGroup %s names the ServiceAccount %s, which does not exist: create it, or remove it from the OperatorGroup", group.Name, account)
			}
		}
		warning = fmt.Sprintf("OperatorGroup %q lets OLM install with the permissions of ServiceAccount %s: it needs all permissions of the operator", namespace+"/"+group.Name, account)
	}
	return install.IsSharedGroup(group), warning, nil
}

// missingGroup returns the error for a namespace without OperatorGroup, with the one to create.
func missingGroup(namespace string) error {
	return status.Waiting(v2beta2.ReasonOperatorGroupMissing, intervals.Missing,
		"namespace %q has no OperatorGroup, without which OLM installs nothing there. With one, users who can create Subscriptions in the namespace can install any package "+
			"with all permissions that it requests, unless the OperatorGroup names a ServiceAccount: OLM then installs only what that ServiceAccount may do. "+
			"Create this OperatorGroup, with the name of such a ServiceAccount or without the line serviceAccountName, or set install: Direct:\n%s",
		namespace, render.OperatorGroupManifest(namespace))
}

// targetsOf returns the target namespaces of an OperatorGroup, sorted. An empty name stands for all namespaces. The targets
// of a selector are unknown until OLM reports them in status.
func targetsOf(group *operatorsv1.OperatorGroup) []string {
	targets := slices.Clone(group.Spec.TargetNamespaces)
	switch {
	case len(targets) > 0:
	case group.Spec.Selector != nil:
		targets = slices.Clone(group.Status.Namespaces)
	default:
		targets = []string{corev1.NamespaceAll}
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}

func describeTargets(targets []string) string {
	switch {
	case len(targets) == 0:
		return "no namespace"
	case slices.Contains(targets, corev1.NamespaceAll):
		return "all namespaces"
	}
	return "the namespaces " + status.JoinNames(targets)
}

// checkPublished fails with a reason unless the version of an OperatorCollection is in the catalog.
func checkPublished(oc *v2beta2.OperatorCollection, version string) error {
	published := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionPublished)
	if published == nil || published.ObservedGeneration != oc.Generation {
		return status.Waiting(v2beta2.ReasonProgressing, intervals.Missing, "waiting for version %s to be published in the catalog", version)
	}
	if published.Status == metav1.ConditionTrue {
		return nil
	}
	reason := v2beta2.ReasonNotPublished
	if published.Reason == v2beta2.ReasonPermissionsNotGranted {
		reason = published.Reason
	}
	return status.Waiting(reason, intervals.Missing, "version %s is not in the catalog: %s", version, published.Message)
}
