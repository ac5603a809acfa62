package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// olmListLimit bounds how many objects of OLM are read from one namespace.
const olmListLimit = 500

// subscribed is what OLM has, and is about to have, of one collection in one namespace.
type subscribed struct {
	// subscription to the collection's package. Nil means that there is none yet.
	subscription *operatorsv1alpha1.Subscription
	// byHand says that the Subscription is a person's. It is never deleted, and its channel and approval are not ours.
	byHand bool
	// csvs are the ClusterServiceVersions of the collection.
	csvs []operatorsv1alpha1.ClusterServiceVersion
	// plan is the InstallPlan that the Subscription has come to, if any.
	plan *operatorsv1alpha1.InstallPlan
	// ownGroup says that the namespace needs an OperatorGroup of ours.
	ownGroup bool
	// warnings about what was found.
	warnings []string
}

// csv returns the ClusterServiceVersion of that name, or nil.
func (s *subscribed) csv(name string) *operatorsv1alpha1.ClusterServiceVersion {
	for i := range s.csvs {
		if s.csvs[i].Name == name {
			return &s.csvs[i]
		}
	}
	return nil
}

// ready says whether the runtime may get the configuration of a version: another version's ClusterServiceVersion keeps
// its own until OLM replaces it, for which it may need somebody's approval.
func (s *subscribed) ready(csv string) bool { return len(s.csvs) == 0 || s.csv(csv) != nil }

// orphaned says that OLM runs the operator for a Subscription that is gone. OLM does not resolve another one then, which may
// be there already: somebody may have deleted the first while it was being written.
func (s *subscribed) orphaned() bool {
	if len(s.csvs) == 0 || s.byHand || s.subscription == nil {
		return len(s.csvs) > 0 && !s.byHand
	}
	status := s.subscription.Status
	return status.InstalledCSV == "" && status.CurrentCSV == "" &&
		!slices.ContainsFunc(s.csvs, func(csv operatorsv1alpha1.ClusterServiceVersion) bool {
			return !csv.CreationTimestamp.Before(&s.subscription.CreationTimestamp)
		})
}

// installedCSV is what the Subscription has brought about.
func (s *subscribed) installedCSV() string {
	if s.subscription == nil {
		return ""
	}
	return s.subscription.Status.InstalledCSV
}

// runtimeHash is what the pods were told last.
func (s *subscribed) runtimeHash() string {
	if s.subscription == nil || s.subscription.Spec.Config == nil {
		return ""
	}
	return s.subscription.Spec.Config.Annotations[render.RuntimeHashAnnotation]
}

// listInOLM reads live objects of OLM. A cluster that does not serve their kind has none.
func (r *SubOperatorConfigReconciler) listInOLM(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := r.Reader.List(ctx, list, append(options, client.Limit(olmListLimit))...)
	if meta.IsNoMatchError(err) {
		return nil
	}
	return client.IgnoreNotFound(err)
}

// findSubscription looks for a Subscription to the collection's package. One that a person made from the manager's
// catalog is used; one of another catalog would bring a second operator for the same kinds.
func (r *SubOperatorConfigReconciler) findSubscription(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts, namespace string) (*subscribed, error) {
	list := &operatorsv1alpha1.SubscriptionList{}
	if err := r.listInOLM(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Subscriptions in namespace %q: %w", namespace, err)
	}
	slices.SortFunc(list.Items, func(a, b operatorsv1alpha1.Subscription) int { return strings.Compare(a.Name, b.Name) })
	state, ours := &subscribed{}, ownedBy(soc)
	for i := range list.Items {
		subscription := &list.Items[i]
		if subscription.Spec == nil || subscription.Spec.Package != render.PackageName(facts.collection) {
			continue
		}
		switch {
		case ours(subscription):
			if state.subscription != nil {
				state.warnings = append(state.warnings, secondSubscription(state.subscription))
			}
			state.subscription, state.byHand = subscription, false
		case !r.OLM.offers(subscription):
			return nil, status.Waiting(v2beta2.ReasonForeignObject, status.MissingInterval,
				"Subscription %q subscribes to package %s of another catalog, %s/%s: delete it and its ClusterServiceVersion",
				namespace+"/"+subscription.Name, subscription.Spec.Package, subscription.Spec.CatalogSourceNamespace, subscription.Spec.CatalogSource)
		case state.subscription != nil:
			state.warnings = append(state.warnings, secondSubscription(subscription))
		default:
			state.subscription, state.byHand = subscription, true
		}
	}
	return state, nil
}

func secondSubscription(s *operatorsv1alpha1.Subscription) string {
	return fmt.Sprintf("Subscription %q is a second one to package %s, which OLM does not resolve: delete it", s.Namespace+"/"+s.Name, s.Spec.Package)
}

// survey reads what decides about an installation by OLM, live: caches know nothing of what others made. It fails with a
// reason if OLM could not install anything in the namespace.
func (r *SubOperatorConfigReconciler) survey(ctx context.Context, facts *installationFacts, namespace string, state *subscribed) error {
	csvs, err := r.listCSVs(ctx, facts.collection.ID(), namespace)
	if err != nil {
		return err
	}
	state.csvs = csvs
	if err := r.checkOperatorGroups(ctx, namespace, state); err != nil {
		return err
	}
	if state.subscription == nil || state.subscription.Status.InstallPlanRef == nil {
		return nil
	}
	plan := &operatorsv1alpha1.InstallPlan{}
	key := types.NamespacedName{Namespace: namespace, Name: state.subscription.Status.InstallPlanRef.Name}
	if err := r.Reader.Get(ctx, key, plan); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading InstallPlan %q: %w", key, err)
	} else if err == nil {
		state.plan = plan
	}
	return nil
}

// listCSVs reads the ClusterServiceVersions of a collection in a namespace, without the copies that OLM makes of those of
// other namespaces.
func (r *SubOperatorConfigReconciler) listCSVs(ctx context.Context, key collection.ID, namespace string) ([]operatorsv1alpha1.ClusterServiceVersion, error) {
	list := &operatorsv1alpha1.ClusterServiceVersionList{}
	if err := r.listInOLM(ctx, list, client.InNamespace(namespace), client.MatchingLabels(render.IdentityLabels(key))); err != nil {
		return nil, fmt.Errorf("listing ClusterServiceVersions in namespace %q: %w", namespace, err)
	}
	return slices.DeleteFunc(list.Items, func(csv operatorsv1alpha1.ClusterServiceVersion) bool { return csv.IsCopied() }), nil
}

// checkOperatorGroups decides which OperatorGroup the operator gets: the one that is there, or ours.
func (r *SubOperatorConfigReconciler) checkOperatorGroups(ctx context.Context, namespace string, state *subscribed) error {
	list := &operatorsv1.OperatorGroupList{}
	if err := r.listInOLM(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing OperatorGroups in namespace %q: %w", namespace, err)
	}
	own, warning, err := chooseOperatorGroup(namespace, list.Items)
	state.ownGroup = own
	if warning != "" {
		state.warnings = append(state.warnings, warning)
	}
	return err
}

// chooseOperatorGroup says whether a namespace with these OperatorGroups needs ours.
func chooseOperatorGroup(namespace string, groups []operatorsv1.OperatorGroup) (own bool, warning string, err error) {
	conflict := func(format string, args ...any) error {
		return status.Waiting(v2beta2.ReasonOperatorGroupConflict, status.MissingInterval, "namespace %q: %s", namespace, fmt.Sprintf(format, args...))
	}
	var names []string
	for _, group := range groups {
		names = append(names, group.Name)
	}
	slices.Sort(names)
	switch {
	case len(groups) == 0 || len(groups) == 1 && isSharedGroup(&groups[0]):
		return true, "", nil
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
				return false, "", conflict("its OperatorGroup %s names the ServiceAccount %s, which does not exist: create it, or take it out of the OperatorGroup", group.Name, account)
			}
		}
		warning = fmt.Sprintf("OperatorGroup %q lets OLM install with the rights of ServiceAccount %s: it needs all that the operator gets", namespace+"/"+group.Name, account)
	}
	return false, warning, nil
}

// targetsOf are the namespaces that an OperatorGroup is for, sorted. The empty name stands for all. OLM tells what a
// selector finds, and until it does nothing is known.
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

// isSharedGroup says whether an OperatorGroup is the one that all our installations in a namespace share.
func isSharedGroup(object client.Object) bool {
	return object.GetName() == render.OperatorGroupName && object.GetLabels()[render.LabelManagedBy] == render.ManagedBy
}

// checkPublished fails with a reason unless the version of an OperatorCollection is in the catalog.
func checkPublished(oc *v2beta2.OperatorCollection, version string) error {
	published := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionPublished)
	if published == nil || published.ObservedGeneration != oc.Generation {
		return status.Waiting(v2beta2.ReasonProgressing, status.MissingInterval, "waiting for version %s to be put into the catalog", version)
	}
	if published.Status == metav1.ConditionTrue {
		return nil
	}
	reason := v2beta2.ReasonNotPublished
	if published.Reason == v2beta2.ReasonPermissionsNotGranted {
		reason = published.Reason
	}
	return status.Waiting(reason, status.MissingInterval, "version %s is not in the catalog: %s", version, published.Message)
}
