package olm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/direct"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Backend installs through a Subscription. It implements [install.Backend] on the state that [Cluster.Choose] has read.
type Backend struct {
	*state
	cluster *Cluster
	image   string
	// replaces is true if the operator that OLM runs must be removed before OLM can install the requested version.
	replaces bool
	// deployment is the one that Observe was called with, or nil.
	deployment *appsv1.Deployment
}

// Method returns OLM.
func (b *Backend) Method() v2beta2.InstallMethod { return v2beta2.InstallOLM }

// Replaces reports whether OLM runs the operator of a deleted Subscription, or a newer version than the requested one.
func (b *Backend) Replaces() bool { return b.replaces }

// Choose returns the backend for a namespace, or an error with a reason if none can be used. With such an error it still
// returns the backend if OLM has to be notified.
func (c *Cluster) Choose(ctx context.Context, i *install.Installation, image string) (install.Backend, error) {
	s := &state{}
	if c.Available() {
		var err error
		if s, err = c.findSubscription(ctx, i); err != nil {
			return nil, err
		}
		if err := checkMadeFor(i.Owner, i.Namespace, s.subscription); err != nil {
			return nil, err
		}
		if s.groups, err = c.listGroups(ctx, i.Namespace); err != nil {
			return nil, err
		}
	}
	tooLong := i.Collection.CheckCSVName()
	usable := c.Available() && (len(s.groups) > 0 || c.CreateOperatorGroups) && tooLong == nil
	switch method := methodFor(i.Owner, i.Namespace, s.userManaged, usable); {
	case method == v2beta2.InstallDirect && s.userManaged:
		return nil, status.Waiting(v2beta2.ReasonForeignObject, intervals.Missing,
			"Subscription %q runs this operator already: delete it and its ClusterServiceVersion, or set install: OLM", s.name())
	case method == v2beta2.InstallDirect:
		return direct.Backend{}, nil
	case !c.Available():
		return nil, status.Waiting(v2beta2.ReasonOLMUnavailable, intervals.Missing, "namespace %q: %w; or set install: Direct", i.Namespace, c.Err())
	case tooLong != nil:
		return nil, status.Stalled(v2beta2.ReasonObjectRefused, fmt.Errorf("namespace %q: %w; or set install: Direct", i.Namespace, tooLong))
	}
	backend := &Backend{state: s, cluster: c, image: image}
	if err := c.read(ctx, i, s); err != nil {
		return backend, err
	}
	backend.replaces = s.orphaned() || s.isBeingReplaced(i) || s.goesBack(i)
	if s.userManaged || s.installedCSV() == i.Collection.CSVName() {
		return backend, nil
	}
	return backend, checkPublished(i.OperatorCollection, i.Collection.Version.String())
}

// methodFor returns the method that the spec asks for. Auto keeps the recorded method, unless a user has created a
// Subscription in the namespace. A new installation is by OLM if that is usable: it is available, the namespace has an
// OperatorGroup or may get one, and the collection's names are short enough.
func methodFor(soc *v2beta2.SubOperatorConfig, namespace string, userManaged, usable bool) v2beta2.InstallMethod {
	recorded := install.RecordedMethod(soc, namespace)
	switch {
	case soc.Spec.Install == v2beta2.InstallOLM, soc.Spec.Install == v2beta2.InstallDirect:
		return soc.Spec.Install
	case userManaged:
		return v2beta2.InstallOLM
	case recorded != "":
		return recorded
	case usable:
		return v2beta2.InstallOLM
	}
	return v2beta2.InstallDirect
}

// Plan renders the Subscription and the objects that the operator's pods need. It omits a user-managed OperatorGroup or
// Subscription. The manager's own OperatorGroup stays in the inventory, and is written only if the manager may create it.
// The configuration of another version's pods is kept until OLM replaces them.
func (b *Backend) Plan(i *install.Installation, options render.InstallationOptions) (*install.Plan, error) {
	source := b.cluster.CatalogSource()
	wanted := render.SubscriptionOptions{
		Source: source.Name, SourceNamespace: source.Namespace, Image: b.image, Approval: i.Owner.Spec.InstallPlanApproval, UserManaged: b.userManaged,
	}
	rendered, err := render.Subscribed(i.Collection, options, wanted)
	var unsupported *render.UnsupportedRuntimeError
	switch {
	case errors.As(err, &unsupported):
		return nil, status.Waiting(v2beta2.ReasonRuntimeNotSupported, intervals.Missing, "%w; remove it, or set install: Direct", err)
	case err != nil:
		return nil, status.Stalled(v2beta2.ReasonObjectRefused, err)
	}
	ready := b.ready(i.Collection.CSVName())
	plan := &install.Plan{Digest: b.plannedDigest(i, ready), Warnings: slices.Concat(
		b.warnings, b.contentWarnings(i.Collection, i.Digest.String(), b.image), render.SubscriptionWarnings(options, wanted),
	)}
	for _, object := range rendered {
		switch o := object.(type) {
		case *operatorsv1.OperatorGroup:
			if !b.ownGroup {
				continue
			}
			if !b.cluster.CreateOperatorGroups {
				plan.Postponed = append(plan.Postponed, o)
			}
		case *operatorsv1alpha1.Subscription:
			plan.RuntimeHash = o.Spec.Config.Annotations[render.RuntimeHashAnnotation]
			if !ready {
				plan.RuntimeHash = b.runtimeHash()
			}
			if b.userManaged {
				plan.Warnings = append(plan.Warnings, b.configWarnings(o.Spec.Config)...)
				continue
			}
			o.Spec.Config = annotated(o.Spec.Config, b.wantedAnnotation(i.Collection.CSVName(), plan.RuntimeHash))
		case *corev1.ConfigMap:
			if !ready {
				plan.Postponed = append(plan.Postponed, o)
			}
		}
		plan.Objects = append(plan.Objects, object)
	}
	return plan, nil
}

// annotated returns a copy of a Subscription's config that annotates the pods with a hash of their configuration, or not if that is
// "". It is nil if nothing is set.
func annotated(config *operatorsv1alpha1.SubscriptionConfig, hash string) *operatorsv1alpha1.SubscriptionConfig {
	config = cmp.Or(config, &operatorsv1alpha1.SubscriptionConfig{}).DeepCopy()
	delete(config.Annotations, render.RuntimeHashAnnotation)
	if hash != "" && config.Annotations == nil {
		config.Annotations = map[string]string{}
	}
	if hash != "" {
		config.Annotations[render.RuntimeHashAnnotation] = hash
	}
	if equality.Semantic.DeepEqual(config, &operatorsv1alpha1.SubscriptionConfig{}) {
		return nil
	}
	return config
}

// plannedDigest returns that of the archive that the operator is told to run.
func (b *Backend) plannedDigest(i *install.Installation, ready bool) digest.Digest {
	if recorded := install.Recorded(i.Owner, i.Namespace); recorded != nil && !ready {
		return digest.Digest(recorded.Digest)
	}
	return i.Digest
}

// Observe returns what OLM still has to do before the planned pods run.
func (b *Backend) Observe(i *install.Installation, plan *install.Plan, deployment *appsv1.Deployment) error {
	b.deployment = deployment
	if waits := b.progress(i.Collection); waits != nil {
		return waits
	}
	if deployment == nil || render.RuntimeHash(deployment.Spec.Template.Annotations) != plan.RuntimeHash {
		return status.Waiting(v2beta2.ReasonProgressing, status.Watched, "waiting for OLM to update Deployment %q", i.Namespace+"/"+i.Collection.OperatorName())
	}
	return nil
}

// AnnotationMadeFor on a SubOperatorConfig names, as namespace/name/UID, the Subscription that it was created for. It is
// deleted with that Subscription.
const AnnotationMadeFor = "zoscb.ibm.com/made-for-subscription"

// MadeFor returns the Subscription that a SubOperatorConfig was created for, if any.
func MadeFor(soc client.Object) (key types.NamespacedName, uid types.UID, ok bool) {
	parts := strings.Split(soc.GetAnnotations()[AnnotationMadeFor], "/")
	if len(parts) != 3 {
		return key, "", false
	}
	return types.NamespacedName{Namespace: parts[0], Name: parts[1]}, types.UID(parts[2]), true
}

// TakenOver reports whether a user has changed a SubOperatorConfig that was created for a Subscription, so that it maps
// other namespaces or does not use OLM. Then it is not deleted with the Subscription.
func TakenOver(soc *v2beta2.SubOperatorConfig, namespace string) bool {
	return soc.Spec.Install != v2beta2.InstallOLM || len(soc.Spec.Mapping) != 1 || soc.Spec.Mapping[0].Namespace != namespace
}

// checkMadeFor prevents a SubOperatorConfig from creating another Subscription after the one that it was created for was
// deleted.
func checkMadeFor(soc *v2beta2.SubOperatorConfig, namespace string, subscription *operatorsv1alpha1.Subscription) error {
	key, uid, ok := MadeFor(soc)
	if !ok || TakenOver(soc, namespace) || subscription != nil && subscription.UID == uid {
		return nil
	}
	return status.Waiting(v2beta2.ReasonTerminating, intervals.Poll, "Subscription %q, for which this SubOperatorConfig was created, is deleted", key)
}

// IsMadeFor reports whether a SubOperatorConfig was created for a Subscription.
func IsMadeFor(soc client.Object) bool {
	_, _, ok := MadeFor(soc)
	return ok
}
