package controller

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/apply"
	"github.com/collection-operator/collection-operator/internal/artifact"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/render"
)

// installationFacts is what the steps found out about a SubOperatorConfig, for those after them and for its status.
type installationFacts struct {
	// oc is the OperatorCollection it names.
	oc *v2beta2.OperatorCollection
	// suspended says that oc asks for no work to be done.
	suspended bool
	// collection is what oc's archive holds.
	collection *collection.Collection
	// endpoints by mapped namespace, as the runtime gets them.
	endpoints map[string][]render.Endpoint
	// dependencies say where those of the collection come from.
	dependencies render.DependencySettings
	// objects of all installations, in the order in which they are applied.
	objects []client.Object
	// applied says that all objects are on the API server as they should be.
	applied bool
	// installations has one entry per mapped namespace.
	installations []v2beta2.InstallationStatus
	// deferred is a problem with one endpoint or credential. It is told at the end, since it must not keep the others
	// from being served.
	deferred error
}

func (r *SubOperatorConfigReconciler) ensureFinalizer(ctx context.Context, soc *v2beta2.SubOperatorConfig, _ *installationFacts) error {
	return addFinalizer(ctx, r.Client, soc)
}

func (r *SubOperatorConfigReconciler) findCollection(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	oc := &v2beta2.OperatorCollection{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}, oc)
	switch {
	case apierrors.IsNotFound(err):
		return waiting(v2beta2.ReasonCollectionNotFound, missingInterval,
			"OperatorCollection %q does not exist in namespace %q", soc.Spec.OperatorCollection, soc.Namespace)
	case err != nil:
		return fmt.Errorf("reading OperatorCollection %q: %w", soc.Spec.OperatorCollection, err)
	case oc.DeletionTimestamp != nil:
		return waiting(v2beta2.ReasonCollectionTerminating, missingInterval, "OperatorCollection %q is being deleted", oc.Name)
	case oc.Spec.Suspend:
		facts.suspended = true
		return nil
	case oc.Status.Artifact == nil:
		return waiting(v2beta2.ReasonCollectionNotImported, missingInterval, "OperatorCollection %q is not imported: %s", oc.Name,
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
	c, err := r.Library.Load(facts.oc.Status.Artifact.Digest)
	if errors.Is(err, fs.ErrNotExist) {
		return waiting(v2beta2.ReasonCollectionNotImported, missingInterval, "OperatorCollection %q is being fetched again", facts.oc.Name)
	}
	if err != nil {
		return loadFailure(err)
	}
	missing, err := missingCRDs(ctx, r.Client, c, groupOf(facts.oc, c))
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return waiting(v2beta2.ReasonCollectionNotImported, pollInterval, "waiting for CRDs to be established: %s", strings.Join(missing, ", "))
	}
	facts.collection = c
	return addLabels(ctx, r.Client, soc, render.Labels(c))
}

// checkMapping refuses namespaces that this SubOperatorConfig may not install into.
func (r *SubOperatorConfigReconciler) checkMapping(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	siblings, err := subOperatorConfigsOf(ctx, r.Client, facts.oc)
	if err != nil {
		return err
	}
	for _, mapping := range soc.Spec.Mapping {
		if mapping.Namespace != soc.Namespace {
			return stalled(v2beta2.ReasonMappingNotAllowed, fmt.Errorf(
				"spec.mapping: namespace %q: this version installs only into the SubOperatorConfig's own namespace, %q", mapping.Namespace, soc.Namespace))
		}
		for i := range siblings {
			other := &siblings[i]
			if other.UID != soc.UID && older(other, soc) && slices.ContainsFunc(other.Spec.Mapping, func(m v2beta2.NamespaceMapping) bool {
				return m.Namespace == mapping.Namespace
			}) {
				return waiting(v2beta2.ReasonMappingConflict, missingInterval,
					"spec.mapping: namespace %q is already mapped by the older SubOperatorConfig %q", mapping.Namespace, other.Name)
			}
		}
	}
	return nil
}

func (r *SubOperatorConfigReconciler) render(_ context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	c := facts.collection
	for _, mapping := range soc.Spec.Mapping {
		settings := render.MergeRuntime(facts.oc.Spec.Runtime, soc.Spec.Runtime)
		architectures := r.Architectures
		if settings.Image == "" {
			settings.Image = r.RuntimeImage
		}
		digest := facts.oc.Status.Artifact.Digest
		secret, err := render.EndpointsSecret(c, mapping.Namespace, facts.endpoints[mapping.Namespace])
		if err != nil {
			return stalled(v2beta2.ReasonObjectRefused, err)
		}
		rendered, err := render.Installation(c, render.InstallationOptions{
			Namespace: mapping.Namespace, Group: groupOf(facts.oc, c), Digest: digest,
			ArtifactURL: r.ArtifactURL + artifact.URLPath(digest),
			Runtime:     settings, Architectures: architectures, Dependencies: facts.dependencies,
		})
		if err != nil {
			return stalled(v2beta2.ReasonObjectRefused, err)
		}
		objects := []client.Object{secret}
		for _, object := range rendered {
			objects = append(objects, object)
		}
		for _, object := range objects {
			if err := r.claim(soc, object); err != nil {
				return err
			}
		}
		facts.objects = append(facts.objects, objects...)
		facts.installations = append(facts.installations, v2beta2.InstallationStatus{Namespace: mapping.Namespace, Digest: digest})
	}
	return nil
}

// claim marks an object as made for this SubOperatorConfig. Owner references only reach inside its namespace.
func (r *SubOperatorConfigReconciler) claim(soc *v2beta2.SubOperatorConfig, object client.Object) error {
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
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, soc, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("recording the inventory: %w", err)
	}
	return nil
}

func (r *SubOperatorConfigReconciler) apply(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	applier := &apply.Applier{Client: r.Client, Reader: r.Reader}
	if _, err := applier.Apply(ctx, facts.objects, ownedBy(soc)); err != nil {
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
		return waiting(v2beta2.ReasonForeignObject, missingInterval, "%w", err)
	case errors.As(err, &refused) && apierrors.IsForbidden(refused.Err) && strings.Contains(refused.Err.Error(), "not currently held"):
		return waiting(v2beta2.ReasonPermissionsNotGranted, missingInterval,
			"the collection asks for permissions that the manager does not hold: grant them in a ClusterRole labelled %s=true: %w", labelGrants, err)
	case errors.As(err, &refused):
		return waiting(v2beta2.ReasonObjectRefused, missingInterval, "%w", err)
	}
	return retry(v2beta2.ReasonApplyFailed, err)
}

// prune removes what this SubOperatorConfig made before and does not need any more.
func (r *SubOperatorConfigReconciler) prune(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	wanted := apply.Inventory(facts.objects)
	applier := &apply.Applier{Client: r.Client, Reader: r.Reader}
	remaining, err := applier.Prune(ctx, apply.Difference(soc.Status.Inventory, wanted), ownedBy(soc))
	if saveErr := r.saveInventory(ctx, soc, append(wanted, remaining...)); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	if err == nil && len(remaining) > 0 {
		return waiting(v2beta2.ReasonProgressing, pollInterval, "waiting until %s %s/%s is removed",
			remaining[0].Kind, remaining[0].Namespace, remaining[0].Name)
	}
	return err
}

// checkWorkloads waits until every Deployment runs its present pod template.
func (r *SubOperatorConfigReconciler) checkWorkloads(ctx context.Context, _ *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	var problems []string
	reason := v2beta2.ReasonProgressing
	for i := range facts.installations {
		installation := &facts.installations[i]
		key := types.NamespacedName{Namespace: installation.Namespace, Name: facts.collection.OperatorName()}
		deployment := &appsv1.Deployment{}
		if err := r.Reader.Get(ctx, key, deployment); err != nil {
			return fmt.Errorf("reading Deployment %q: %w", key, err)
		}
		if installation.Ready = available(deployment); installation.Ready {
			continue
		}
		why, message := r.describePods(ctx, deployment)
		if why == v2beta2.ReasonDependencyMissing || reason == v2beta2.ReasonProgressing {
			reason = why
		}
		installation.Message = message
		problems = append(problems, fmt.Sprintf("Deployment %q is not available: %s", key, installation.Message))
	}
	if len(problems) > 0 {
		return waiting(reason, pollInterval, "%s", strings.Join(problems, "; "))
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
