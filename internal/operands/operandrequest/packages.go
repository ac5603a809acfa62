package operandrequest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// packages reads what OLM has of packages, and creates and changes their Subscriptions and OperatorGroups.
type packages struct {
	*cluster.Access
	watcher   *cluster.Watcher
	resources *resources
}

// read reads what OLM has of the packages that the request names, or has something of.
func (ps *packages) read(ctx context.Context, s *scope) error {
	s.source.Installed, s.packages = map[plan.PackageKey]*plan.Installed{}, map[plan.PackageKey]*olmState{}
	for _, id := range plan.IDs(s.request) {
		registry := s.source.Registries[id.Registry]
		if registry == nil || registry.Find(id.Name) == nil {
			continue
		}
		key := plan.PackageOf(registry, registry.Find(id.Name), s.source)
		if key == nil || s.packages[*key] != nil {
			continue
		}
		state := ps.readPackage(ctx, *key)
		s.packages[*key] = state
		if state.csv == nil {
			continue
		}
		if s.source.Installed[*key], state.err = plan.InstalledBy(state.csv); state.err != nil {
			state.err = status.Waiting(v1alpha1.ReasonInvalidOperand, status.Watched, "%v", state.err)
		}
	}
	if len(s.source.Installed) == 0 {
		return nil
	}
	var err error
	s.source.Recorded, err = cluster.RecordedExamples(ctx, ps.Client)
	return err
}

func (ps *packages) readPackage(ctx context.Context, key plan.PackageKey) *olmState {
	state := &olmState{}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(plan.SubscriptionKind)
	err := ps.Reader.List(ctx, list, client.InNamespace(key.Namespace), client.Limit(listLimit))
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		state.err = status.Waiting(v1alpha1.ReasonInvalidOperand, intervals.Missing, "the cluster has no Operator Lifecycle Manager, which package %q needs", key.Name)
		return state
	}
	if state.err = ps.olmError(err, plan.SubscriptionKind, key.Namespace); state.err != nil {
		return state
	}
	for i := range list.Items {
		subscription := &operatorsv1alpha1.Subscription{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, subscription); err != nil {
			return &olmState{err: fmt.Errorf("decoding %s: %w", apply.Name(&list.Items[i]), err)}
		}
		if subscription.Spec == nil || subscription.Spec.Package != key.Name {
			continue
		}
		if state.subscription != nil {
			state.err = status.Waiting(v2beta2.ReasonForeignObject, intervals.Missing,
				"namespace %q has two Subscriptions to package %q, %s and %s: delete one", key.Namespace, key.Name, state.subscription.Name, subscription.Name)
			return state
		}
		state.live, state.subscription = &list.Items[i], subscription
	}
	if state.subscription == nil || state.subscription.Status.InstalledCSV == "" {
		return state
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	err = ps.Reader.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: state.subscription.Status.InstalledCSV}, csv)
	if apierrors.IsNotFound(err) {
		return state
	}
	if state.err = ps.olmError(err, plan.ClusterServiceVersionKind, key.Namespace); state.err == nil {
		state.csv = csv
	}
	return state
}

// olmError explains an error if a permission is missing.
func (ps *packages) olmError(err error, kind schema.GroupVersionKind, namespace string) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return ps.Explain(err, objectOf(kind, namespace, ""))
	}
	return fmt.Errorf("reading kind %s in namespace %q: %w", kind.Kind, namespace, err)
}

// resolve determines what is to be created for the package of an operand.
func (ps *packages) resolve(ctx context.Context, s *scope, o *operand) error {
	p := &olmPackage{Package: o.Package, olmState: s.packages[o.Package.PackageKey]}
	o.pkg = p
	shared := slices.ContainsFunc(s.operands, func(other *operand) bool {
		return other != o && other.pkg != nil && other.pkg.PackageKey == p.PackageKey
	})
	err := p.err
	for _, namespace := range append([]string{p.Namespace}, p.Targets...) {
		if err == nil {
			err = ps.CheckConsent(ctx, plan.AnnotationConsent, o.ID.Registry.Namespace, namespace)
		}
	}
	if err == nil && !shared {
		err = ps.resolveSubscription(ctx, s, o)
	}
	if err == nil {
		err = p.checkChannel()
	}
	if err == nil && p.ours != nil && !p.Global {
		err = ps.resolveGroup(ctx, s, o)
	}
	if err != nil {
		p.phase, p.ours, p.group = v1alpha1.OperatorFailed, nil, nil
		if !status.Is(err) { // It is tried again.
			p.phase = v1alpha1.OperatorInstalling
		}
	}
	return err
}

// resolveSubscription decides whether the Subscription is ours. One that somebody else has created is used as it is.
func (ps *packages) resolveSubscription(ctx context.Context, s *scope, o *operand) error {
	p := o.pkg
	uid, err := s.recordedUID(ctx, ps.Reader, p.Entry(&p.Subscription, o.ID))
	if err != nil {
		return err
	}
	if p.live != nil && !isCreated(p.live, p.Subscription.Owner, uid) {
		return nil
	}
	wanted := p.Subscription
	if p.live == nil {
		other := unstructuredOf(wanted.Kind, wanted.Key)
		if err := ps.Reader.Get(ctx, wanted.Key, other); err == nil {
			return status.Waiting(v2beta2.ReasonForeignObject, intervals.Missing, "%s exists, for another package: delete or rename it", apply.Name(other))
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading %s: %w", apply.Name(other), err)
		}
	}
	if p.Source == "" || p.SourceNamespace == "" {
		name, namespace, err := ps.findCatalog(ctx, p)
		if err != nil {
			return err
		}
		spec := wanted.Config["spec"].(map[string]any)
		spec["source"], spec["sourceNamespace"] = name, namespace
	}
	p.ours = &resource{Object: &wanted, live: p.live}
	return nil
}

// findCatalog returns the catalog that has a package: that of the Subscription that exists, or the only one, or the only one in the
// namespace of the operator.
func (ps *packages) findCatalog(ctx context.Context, p *olmPackage) (name, namespace string, err error) {
	if p.subscription != nil && p.subscription.Spec.CatalogSource != "" {
		return p.subscription.Spec.CatalogSource, p.subscription.Spec.CatalogSourceNamespace, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "packages.operators.coreos.com", Version: "v1", Kind: "PackageManifestList"})
	err = ps.Reader.List(ctx, list, client.InNamespace(p.Namespace))
	if err != nil && !meta.IsNoMatchError(err) {
		return "", "", ps.olmError(err, schema.GroupVersionKind{Group: "packages.operators.coreos.com", Version: "v1", Kind: "PackageManifest"}, p.Namespace)
	}
	var found, near []string
	for i := range list.Items {
		catalog, in := list.Items[i].Labels["catalog"], list.Items[i].Labels["catalog-namespace"]
		if list.Items[i].Name != p.Name || p.Source != "" && p.Source != catalog || p.SourceNamespace != "" && p.SourceNamespace != in {
			continue
		}
		found = append(found, in+"/"+catalog)
		if in == p.Namespace {
			near = append(near, in+"/"+catalog)
		}
	}
	if len(near) == 1 {
		found = near
	}
	if len(found) != 1 {
		slices.Sort(found)
		what := "no catalog has"
		if len(found) > 1 {
			what = "several catalogs have (" + status.JoinNames(found) + ")"
		}
		return "", "", status.Waiting(v1alpha1.ReasonInvalidOperand, intervals.Missing,
			"%s package %q in namespace %q: set sourceName and sourceNamespace in the OperandRegistry", what, p.Name, p.Namespace)
	}
	namespace, name, _ = strings.Cut(found[0], "/")
	return name, namespace, nil
}

// checkChannel fails if a Subscription that is not ours follows another channel.
func (p *olmPackage) checkChannel() error {
	if p.ours != nil || p.subscription == nil || slices.Contains(p.Channels, p.subscription.Spec.Channel) {
		return nil
	}
	return status.Waiting(v1alpha1.ReasonInvalidOperand, status.Watched,
		"Subscription %q follows channel %q and was not created for this operand, whose OperandRegistry has %s: change one of them, or add the channel to fallbackChannels",
		client.ObjectKeyFromObject(p.subscription), p.subscription.Spec.Channel, strings.Join(p.Channels, ", "))
}

// resolveGroup decides whether an OperatorGroup is created. One that exists is never changed: other operators have it, too.
func (ps *packages) resolveGroup(ctx context.Context, s *scope, o *operand) error {
	p := o.pkg
	groups := &operatorsv1.OperatorGroupList{}
	err := ps.Reader.List(ctx, groups, client.InNamespace(p.Namespace), client.Limit(listLimit))
	if err := ps.olmError(err, plan.OperatorGroupKind, p.Namespace); err != nil {
		return err
	}
	switch len(groups.Items) {
	case 0:
		p.group = &resource{Object: &p.Group}
		return nil
	case 1:
	default:
		return groupConflict("namespace %q has %d OperatorGroups, with which OLM installs nothing: delete all but one", p.Namespace, len(groups.Items))
	}
	group := &groups.Items[0]
	covered := len(group.Spec.TargetNamespaces) == 0 && group.Spec.Selector == nil
	for _, target := range p.Targets {
		if !covered && !slices.Contains(group.Spec.TargetNamespaces, target) && !slices.Contains(group.Status.Namespaces, target) {
			return groupConflict("OperatorGroup %q does not have namespace %q, for which the operator is wanted: add it, or change targetNamespaces in the OperandRegistry",
				client.ObjectKeyFromObject(group), target)
		}
	}
	if isCreated(group, p.Group.Owner, s.uidOf(p.Entry(&p.Group, o.ID))) {
		p.group = &resource{Object: &p.Group, live: &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": string(group.UID)}}}}
	}
	return nil
}

func groupConflict(format string, args ...any) error {
	return status.Waiting(v2beta2.ReasonOperatorGroupConflict, intervals.Missing, format, args...)
}

// entries returns those of the inventory: in the order in which the objects are created.
func (p *olmPackage) entries(id plan.ID) []v1alpha1.InventoryEntry {
	var entries []v1alpha1.InventoryEntry
	for _, of := range []*resource{p.group, p.ours} {
		if of == nil {
			continue
		}
		e := p.Entry(of.Object, id)
		if of.live != nil {
			e.UID = string(of.live.GetUID())
		}
		entries = append(entries, e)
	}
	if p.ours != nil && p.csv != nil {
		entries = append(entries, csvEntry(entries[len(entries)-1], p.csv))
	}
	return entries
}

// ensure creates the Subscription, or changes it, and returns the phase of the operator.
func (ps *packages) ensure(ctx context.Context, s *scope, o *operand) (v1alpha1.OperatorPhase, error) {
	p := o.pkg
	if p.phase != "" { // Its error was reported.
		return p.phase, nil
	}
	ps.watcher.Ensure(ctx, plan.SubscriptionKind, p.Namespace)
	ps.watcher.Polls = ps.watcher.Polls || p.ours == nil // Changes of what is not in the inventory are not noticed.
	if p.group != nil && p.group.live == nil {
		if _, err := ps.resources.apply(ctx, p.group.Object, nil, s.entry(p.Entry(p.group.Object, o.ID))); err != nil {
			return v1alpha1.OperatorFailed, err
		}
	}
	if p.ours != nil {
		entry := s.entry(p.Entry(p.ours.Object, o.ID))
		if p.live != nil && p.live.GetDeletionTimestamp() != nil {
			return v1alpha1.OperatorInstalling, waitingFor("%s is being deleted, and is created again then", apply.Name(p.live))
		}
		if p.live != nil {
			entry.UID = string(p.live.GetUID())
		}
		if _, err := ps.resources.apply(ctx, p.ours.Object, p.live, entry); err != nil {
			return v1alpha1.OperatorFailed, err
		}
	}
	if p.csv != nil {
		ps.watcher.Ensure(ctx, plan.ClusterServiceVersionKind, p.Namespace)
	}
	return p.operatorPhase()
}

// operatorPhase returns the phase of the operator, by the status of its Subscription and its ClusterServiceVersion.
func (p *olmPackage) operatorPhase() (v1alpha1.OperatorPhase, error) {
	name := fmt.Sprintf("Subscription %q", p.Namespace+"/"+p.Subscription.Key.Name)
	if p.subscription == nil {
		return v1alpha1.OperatorInstalling, waitingFor("OLM installs the operator of %s", name)
	}
	name = fmt.Sprintf("Subscription %q", p.Namespace+"/"+p.subscription.Name)
	for _, condition := range p.subscription.Status.Conditions {
		message := printable.Line(condition.Message, 1024)
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == operatorsv1alpha1.SubscriptionResolutionFailed, condition.Type == operatorsv1alpha1.SubscriptionInstallPlanFailed:
			return v1alpha1.OperatorFailed, status.Waiting(v1alpha1.ReasonOperatorFailed, status.Watched, "%s: %s: %s", name, condition.Type, message)
		case condition.Type == operatorsv1alpha1.SubscriptionInstallPlanPending && condition.Reason == string(operatorsv1alpha1.InstallPlanPhaseRequiresApproval):
			return v1alpha1.OperatorInstalling, waitingFor("%s waits for approval of InstallPlan %s: kubectl patch installplan %s -n %s --type=merge -p '{\"spec\":{\"approved\":true}}'",
				name, p.planName(), p.planName(), p.Namespace)
		}
	}
	switch {
	case p.csv == nil || p.subscription.Status.CurrentCSV != p.subscription.Status.InstalledCSV:
		return v1alpha1.OperatorInstalling, waitingFor("OLM installs the operator of %s", name)
	case p.csv.Status.Phase == operatorsv1alpha1.CSVPhaseSucceeded:
		return v1alpha1.OperatorRunning, nil
	case p.csv.Status.Phase == operatorsv1alpha1.CSVPhaseFailed:
		return v1alpha1.OperatorFailed, status.Waiting(v1alpha1.ReasonOperatorFailed, status.Watched, "ClusterServiceVersion %q has failed: %s",
			client.ObjectKeyFromObject(p.csv), printable.Line(p.csv.Status.Message, 1024))
	}
	return v1alpha1.OperatorInstalling, waitingFor("ClusterServiceVersion %q is in phase %s", client.ObjectKeyFromObject(p.csv), printable.Line(string(p.csv.Status.Phase), 64))
}

func (p *olmPackage) planName() string {
	if ref := p.subscription.Status.InstallPlanRef; ref != nil {
		return ref.Name
	}
	return "(not created yet)"
}
