package controller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/apply"
	"github.com/collection-operator/collection-operator/internal/artifact"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/instances"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// installationFacts is what the steps found out about a SubOperatorConfig, for those after them and for its status.
type installationFacts struct {
	// oc is the OperatorCollection it names.
	oc *v2beta2.OperatorCollection
	// suspended says that oc asks for no work to be done.
	suspended bool
	// collection is what oc's archive holds.
	collection *collection.Collection
	// mappings are those of the spec that may be installed.
	mappings []v2beta2.NamespaceMapping
	// methods of installation by mapped namespace, and what OLM has there.
	methods map[string]v2beta2.InstallMethod
	olm     map[string]*subscribed
	// endpoints by mapped namespace, as the runtime gets them.
	endpoints map[string][]render.Endpoint
	// dependencies say where those of the collection come from.
	dependencies render.DependencySettings
	// warnings about the installations.
	warnings []string
	// objects of all installations, in the order in which they are applied.
	objects []client.Object
	// postponed are those of objects that must not be written yet.
	postponed []client.Object
	// roles are what the operators may do, whoever writes them.
	roles []client.Object
	// hashes by mapped namespace are what OLM puts on the pods so that they follow their configuration.
	hashes map[string]string
	// applied says that all objects are on the API server as they should be.
	applied bool
	// installations has one entry per mapped namespace.
	installations []v2beta2.InstallationStatus
	// leaving are the installations in namespaces that are mapped no longer, and not removed yet.
	leaving []v2beta2.InstallationStatus
	// blocked are mapped namespaces where nothing is written until something is put right or has gone, and kept the
	// installations there, which stay as they are.
	blocked []string
	kept    []v2beta2.InstallationStatus
	// problems of single namespaces, endpoints or credentials. They are told at the end, since they must not keep the
	// others from being served.
	problems []error
}

func (r *SubOperatorConfigReconciler) ensureFinalizer(ctx context.Context, soc *v2beta2.SubOperatorConfig, _ *installationFacts) error {
	return addFinalizer(ctx, r.Client, soc)
}

func (r *SubOperatorConfigReconciler) findCollection(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	oc := &v2beta2.OperatorCollection{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}, oc)
	switch {
	case apierrors.IsNotFound(err):
		return status.Waiting(v2beta2.ReasonCollectionNotFound, status.MissingInterval,
			"OperatorCollection %q does not exist in namespace %q", soc.Spec.OperatorCollection, soc.Namespace)
	case err != nil:
		return fmt.Errorf("reading OperatorCollection %q: %w", soc.Spec.OperatorCollection, err)
	case oc.DeletionTimestamp != nil:
		return status.Waiting(v2beta2.ReasonCollectionTerminating, status.MissingInterval, "OperatorCollection %q is being deleted", oc.Name)
	case oc.Spec.Suspend:
		facts.suspended = true
		return nil
	case oc.Status.Artifact == nil:
		return status.Waiting(v2beta2.ReasonCollectionNotImported, status.MissingInterval, "OperatorCollection %q is not imported: %s", oc.Name,
			strings.TrimSpace("see its status. "+oc.Status.Message))
	}
	facts.oc = oc
	return nil
}

// adopt makes the garbage collector remove the object after its OperatorCollection, and labels it for clients.
func (r *SubOperatorConfigReconciler) adopt(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	before := soc.DeepCopy()
	if err := controllerutil.SetOwnerReference(facts.oc, soc, r.Client.Scheme()); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.OwnerReferences, soc.OwnerReferences) {
		return nil
	}
	return r.Client.Patch(ctx, soc, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(fieldOwner))
}

func (r *SubOperatorConfigReconciler) loadCollection(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	c, err := r.Collections.Load(digest.Digest(facts.oc.Status.Artifact.Digest))
	if errors.Is(err, fs.ErrNotExist) {
		return status.Waiting(v2beta2.ReasonCollectionNotImported, status.MissingInterval, "OperatorCollection %q is being fetched again", facts.oc.Name)
	}
	if err != nil {
		return loadFailure(err)
	}
	missing, err := missingCRDs(ctx, r.Client, c, groupOf(facts.oc, c))
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return status.Waiting(v2beta2.ReasonCollectionNotImported, status.PollInterval, "waiting for CRDs to be established: %s", strings.Join(missing, ", "))
	}
	facts.collection = c
	// By its identity others find out whether it has installed their collection, or holds a CRD.
	return addLabels(ctx, r.Client, soc, render.Labels(c), render.LabelManagedBy, render.LabelDomain, render.LabelName)
}

func (r *SubOperatorConfigReconciler) render(_ context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	facts.hashes = map[string]string{}
	for _, mapping := range facts.mappings {
		if slices.Contains(facts.blocked, mapping.Namespace) {
			continue
		}
		err := r.renderMapping(soc, facts, mapping.Namespace)
		if f := (*status.Error)(nil); errors.As(err, &f) && !f.Stalled {
			facts.keep(soc, mapping.Namespace, f)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// renderMapping renders what is to be written for one namespace.
func (r *SubOperatorConfigReconciler) renderMapping(soc *v2beta2.SubOperatorConfig, facts *installationFacts, namespace string) error {
	c, current := facts.collection, facts.oc.Status.Artifact.Digest
	secret, err := render.EndpointsSecret(c, namespace, facts.endpoints[namespace])
	if err != nil {
		return status.Stalled(v2beta2.ReasonObjectRefused, err)
	}
	archive := digest.Digest(current)
	options := r.Settings.Options(namespace, groupOf(facts.oc, c), archive, artifact.URLPath(archive))
	own := render.MergeRuntime(facts.oc.Spec.Runtime, soc.Spec.Runtime)
	options.Runtime = render.MergeRuntime(&options.Runtime, &own)
	options.Dependencies = facts.dependencies
	options.Endpoints = facts.endpoints[namespace]
	rendered, err := r.renderInstallation(soc, facts, options)
	if err != nil {
		return renderFailure(err)
	}
	for _, object := range append([]render.Object{secret}, rendered...) {
		if err := r.claim(soc, object); err != nil {
			return err
		}
		facts.objects = append(facts.objects, object)
	}
	for _, role := range render.Roles(c, options) {
		facts.roles = append(facts.roles, role)
	}
	facts.warnings = append(facts.warnings, render.EgressWarnings(options)...)
	facts.installations = append(facts.installations, v2beta2.InstallationStatus{
		Namespace: namespace, Install: facts.methods[namespace], Digest: digestFor(soc, facts.olm[namespace], c, namespace, current),
	})
	return nil
}

// claim marks an object as made for this SubOperatorConfig. Owner references only reach inside its namespace. What
// installations share belongs to none of them.
func (r *SubOperatorConfigReconciler) claim(soc *v2beta2.SubOperatorConfig, object client.Object) error {
	if isSharedGroup(object) {
		return nil
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationOwner] = soc.Namespace + "/" + soc.Name
	object.SetAnnotations(annotations)
	if object.GetNamespace() != soc.Namespace {
		return nil
	}
	return controllerutil.SetOwnerReference(soc, object, r.Client.Scheme())
}

// recordInventory lists what is about to be written, beside what was written before, so that a manager that dies in the
// middle leaves nothing behind that the finalizer does not know.
func (r *SubOperatorConfigReconciler) recordInventory(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	return r.saveInventory(ctx, soc, apply.Union(apply.Inventory(facts.objects), soc.Status.Inventory))
}

func (r *SubOperatorConfigReconciler) saveInventory(ctx context.Context, soc *v2beta2.SubOperatorConfig, inventory []v2beta2.ObjectReference) error {
	if equality.Semantic.DeepEqual(soc.Status.Inventory, inventory) {
		return nil
	}
	before := soc.DeepCopy()
	soc.Status.Inventory = inventory
	return r.saveStatus(ctx, soc, before)
}

func (r *SubOperatorConfigReconciler) saveStatus(ctx context.Context, soc, before *v2beta2.SubOperatorConfig) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, soc, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("recording what is installed: %w", err)
	}
	return nil
}

func (r *SubOperatorConfigReconciler) apply(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	applier := &apply.Applier{Client: r.Client, Reader: r.Reader}
	objects := slices.DeleteFunc(slices.Clone(facts.objects), func(o client.Object) bool { return slices.Contains(facts.postponed, o) })
	if _, err := applier.Apply(ctx, objects, ownedBy(soc)); err != nil {
		return applyFailure(err)
	}
	facts.applied = true
	return nil
}

func applyFailure(err error) error {
	var foreign *apply.ForeignObjectError
	var refused *apply.RefusedError
	switch {
	case errors.As(err, &foreign):
		return status.Waiting(v2beta2.ReasonForeignObject, status.MissingInterval, "%w", err)
	case errors.As(err, &refused) && apierrors.IsForbidden(refused.Err) && strings.Contains(refused.Err.Error(), "not currently held"):
		return status.Waiting(v2beta2.ReasonPermissionsNotGranted, status.MissingInterval,
			"the collection asks for permissions that the manager does not hold: grant them in a ClusterRole labelled %s=true: %w", render.LabelGrants, err)
	case errors.As(err, &refused):
		return status.Waiting(v2beta2.ReasonObjectRefused, status.MissingInterval, "%w", err)
	}
	return status.Retry(v2beta2.ReasonApplyFailed, err)
}

// checkWorkloads finds out which installations run what they were told to.
func (r *SubOperatorConfigReconciler) checkWorkloads(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	for i := range facts.installations {
		installation := &facts.installations[i]
		err := r.checkWorkload(ctx, facts, installation.Namespace)
		var f *status.Error
		switch {
		case errors.As(err, &f):
			installation.Message = f.Error()
			facts.problems = append(facts.problems, err)
		case err != nil:
			return err
		default:
			if err := r.releaseFinalizers(ctx, soc, facts, *installation); err != nil {
				return err
			}
			installation.Ready = true
		}
	}
	return nil
}

// checkWorkload fails with a reason unless the Deployment in a namespace runs its present pod template, and that is the one
// that it is to have.
func (r *SubOperatorConfigReconciler) checkWorkload(ctx context.Context, facts *installationFacts, namespace string) error {
	key := types.NamespacedName{Namespace: namespace, Name: facts.collection.OperatorName()}
	deployment := &appsv1.Deployment{}
	err := r.Reader.Get(ctx, key, deployment)
	if facts.methods[namespace] == v2beta2.InstallOLM {
		state := facts.olm[namespace]
		facts.warnings = append(facts.warnings, state.contentWarnings(facts.collection, facts.oc.Status.Artifact.Digest, r.Settings.RuntimeImage)...)
		if waits := state.progress(facts.collection); waits != nil {
			return r.explain(ctx, waits, deployment)
		}
		if apierrors.IsNotFound(err) || err == nil && deployment.Spec.Template.Annotations[render.RuntimeHashAnnotation] != facts.hashes[namespace] {
			return status.Waiting(v2beta2.ReasonProgressing, status.MissingInterval, "waiting for OLM to update Deployment %q", key)
		}
	}
	if err != nil {
		return fmt.Errorf("reading Deployment %q: %w", key, err)
	}
	if available(deployment) {
		return nil
	}
	reason, message := r.describePods(ctx, deployment)
	after := status.PollInterval
	if reason != v2beta2.ReasonProgressing {
		after = status.MissingInterval
	}
	return status.Waiting(reason, after, "Deployment %q is not available: %s", key, message)
}

// explain adds what pods wait for to what OLM waits for, where that is the pods.
func (r *SubOperatorConfigReconciler) explain(ctx context.Context, waits error, deployment *appsv1.Deployment) error {
	helpable := slices.Contains([]string{v2beta2.ReasonProgressing, v2beta2.ReasonClusterServiceVersionFailed}, status.AsError(waits).Reason)
	if !helpable || deployment.Name == "" || available(deployment) {
		return waits
	}
	reason, message := r.describePods(ctx, deployment)
	if reason == v2beta2.ReasonProgressing {
		return waits
	}
	return status.Waiting(reason, status.MissingInterval, "%w; Deployment %q is not available: %s", waits, deployment.Namespace+"/"+deployment.Name, message)
}

// releaseFinalizers frees custom resources of kinds that had a finalizer playbook in an earlier version and have none
// now: nothing would ever remove their finalizer. It is done once whenever new pods have taken over: the old ones would
// put it back.
func (r *SubOperatorConfigReconciler) releaseFinalizers(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts, installation v2beta2.InstallationStatus) error {
	if slices.ContainsFunc(soc.Status.Installations, func(before v2beta2.InstallationStatus) bool {
		return before.Namespace == installation.Namespace && before.Ready && before.Digest == installation.Digest
	}) {
		return nil
	}
	for _, resource := range facts.collection.Resources {
		if resource.Finalizer != "" {
			continue
		}
		gvk := schema.GroupVersionKind{Group: groupOf(facts.oc, facts.collection), Version: facts.collection.APIVersion(), Kind: resource.Kind}
		if err := instances.ReleaseFinalizer(ctx, r.Client, r.Reader, gvk, installation.Namespace); err != nil {
			return err
		}
	}
	return nil
}

func available(deployment *appsv1.Deployment) bool {
	status := deployment.Status
	return status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas == 1 && status.Replicas == 1 &&
		slices.ContainsFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
		})
}

// describePods says what the pods of a Deployment wait for, with the reason that fits.
func (r *SubOperatorConfigReconciler) describePods(ctx context.Context, deployment *appsv1.Deployment) (reason, message string) {
	pods := &corev1.PodList{}
	err := r.Reader.List(ctx, pods, client.InNamespace(deployment.Namespace), client.MatchingLabels(deployment.Spec.Selector.MatchLabels))
	if err != nil || len(pods.Items) == 0 {
		return v2beta2.ReasonProgressing, "waiting for its pod to be created"
	}
	if missing := missingDependencies(deployment, pods.Items); missing != "" {
		return v2beta2.ReasonDependencyMissing, missing
	}
	var waits []string
	for _, pod := range pods.Items {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
				waits = append(waits, "pod cannot be scheduled: "+condition.Message)
			}
		}
		for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			waits = append(waits, describeContainer(container)...)
		}
	}
	if len(waits) == 0 {
		return v2beta2.ReasonProgressing, "waiting for its pod to become ready"
	}
	slices.Sort(waits)
	return v2beta2.ReasonWorkloadUnavailable, strings.Join(slices.Compact(waits), "; ")
}

// describeContainer leaves out the messages of container states: they hold names and delays that change every time.
func describeContainer(container corev1.ContainerStatus) []string {
	state := container.State
	switch {
	case state.Waiting != nil && state.Waiting.Reason != "" && state.Waiting.Reason != "PodInitializing" && state.Waiting.Reason != "ContainerCreating":
		return []string{fmt.Sprintf("container %s: %s", container.Name, state.Waiting.Reason)}
	case state.Terminated != nil && state.Terminated.ExitCode != 0:
		return []string{fmt.Sprintf("container %s ended with exit code %d", container.Name, state.Terminated.ExitCode)}
	}
	return nil
}
