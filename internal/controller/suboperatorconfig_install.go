package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// chooseMethods decides for each namespace whether OLM or the manager runs the operator there. A namespace where the
// method that was chosen cannot be used is told on status; whatever runs there keeps running as it is.
func (r *SubOperatorConfigReconciler) chooseMethods(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	facts.methods, facts.olm = map[string]v2beta2.InstallMethod{}, map[string]*subscribed{}
	for _, mapping := range facts.mappings {
		err := r.chooseMethod(ctx, soc, facts, mapping.Namespace)
		var f *status.Error
		switch {
		case errors.As(err, &f):
			facts.keep(soc, mapping.Namespace, f)
		case err != nil:
			return err
		}
	}
	return nil
}

func (r *SubOperatorConfigReconciler) chooseMethod(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts, namespace string) error {
	state := &subscribed{}
	if r.OLM.Available() {
		var err error
		if state, err = r.findSubscription(ctx, soc, facts, namespace); err != nil {
			return err
		}
		if err := checkMadeFor(soc, namespace, state.subscription); err != nil {
			return err
		}
	}
	method := methodFor(soc, namespace, state.byHand, r.OLM.Available())
	facts.methods[namespace], facts.olm[namespace] = method, state
	switch {
	case method == v2beta2.InstallDirect && state.byHand:
		return status.Waiting(v2beta2.ReasonForeignObject, status.MissingInterval,
			"Subscription %q runs this operator already: delete it and its ClusterServiceVersion, or set install: OLM", namespace+"/"+state.subscription.Name)
	case method == v2beta2.InstallDirect:
		return nil
	case !r.OLM.Available():
		return status.Waiting(v2beta2.ReasonOLMUnavailable, status.MissingInterval, "namespace %q: %w; or set install: Direct", namespace, r.OLM.Err())
	}
	if err := r.survey(ctx, facts, namespace, state); err != nil {
		return err
	}
	facts.warnings = append(facts.warnings, state.warnings...)
	if state.byHand || state.installedCSV() == facts.collection.CSVName() {
		return nil
	}
	return checkPublished(facts.oc, facts.collection.Version.String())
}

// methodFor is the method that the spec asks for. Auto stays with what was recorded, but a person who subscribed in the
// namespace has decided.
func methodFor(soc *v2beta2.SubOperatorConfig, namespace string, byHand, available bool) v2beta2.InstallMethod {
	recorded := recordedMethod(soc, namespace)
	switch {
	case soc.Spec.Install == v2beta2.InstallOLM, soc.Spec.Install == v2beta2.InstallDirect:
		return soc.Spec.Install
	case byHand:
		return v2beta2.InstallOLM
	case recorded != "":
		return recorded
	case available:
		return v2beta2.InstallOLM
	}
	return v2beta2.InstallDirect
}

// recordedMethod is how the operator was installed in a namespace, "" if it was not. Installations of managers that knew
// one method only have no record.
func recordedMethod(soc *v2beta2.SubOperatorConfig, namespace string) v2beta2.InstallMethod {
	i := slices.IndexFunc(soc.Status.Installations, func(i v2beta2.InstallationStatus) bool { return i.Namespace == namespace })
	switch {
	case i >= 0 && soc.Status.Installations[i].Install != "":
		return soc.Status.Installations[i].Install
	case i >= 0, slices.ContainsFunc(soc.Status.Inventory, func(ref v2beta2.ObjectReference) bool {
		return ref.Namespace == namespace && ref.Kind == "Deployment"
	}):
		return v2beta2.InstallDirect
	}
	return ""
}

// keep leaves what is installed in a namespace as it is but for its endpoints, and says why.
func (f *installationFacts) keep(soc *v2beta2.SubOperatorConfig, namespace string, why *status.Error) {
	f.problems = append(f.problems, why)
	f.blocked = append(f.blocked, namespace)
	for _, installation := range soc.Status.Installations {
		if installation.Namespace == namespace {
			installation.Ready, installation.Message = false, why.Error()
			f.kept = append(f.kept, installation)
		}
	}
}

// isKept says whether an object belongs to an installation that is left as it is, or is being removed on its own.
func (f *installationFacts) isKept(ref v2beta2.ObjectReference) bool {
	return slices.ContainsFunc(slices.Concat(f.kept, f.leaving), func(i v2beta2.InstallationStatus) bool { return f.isPart(ref, i.Namespace) })
}

// renderInstallation renders what is to be written for one namespace beside the Secret with the endpoints.
func (r *SubOperatorConfigReconciler) renderInstallation(soc *v2beta2.SubOperatorConfig, facts *installationFacts, options render.InstallationOptions) ([]render.Object, error) {
	c := facts.collection
	if facts.methods[options.Namespace] == v2beta2.InstallDirect {
		return render.Installation(c, options)
	}
	source := r.OLM.CatalogSource()
	rendered, err := render.Subscribed(c, options, render.SubscriptionOptions{
		Source: source.Name, SourceNamespace: source.Namespace, Image: r.Settings.RuntimeImage, Approval: soc.Spec.InstallPlanApproval,
	})
	if err != nil {
		return nil, err
	}
	return adapt(facts, rendered, options.Namespace), nil
}

// adapt takes into account what a namespace has: an OperatorGroup, a Subscription of a person, or another version whose
// runtime is not to change before OLM replaces it.
func adapt(facts *installationFacts, rendered []render.Object, namespace string) []render.Object {
	state := facts.olm[namespace]
	ready := state.ready(facts.collection.CSVName())
	var adapted []render.Object
	for _, object := range rendered {
		switch o := object.(type) {
		case *operatorsv1.OperatorGroup:
			if !state.ownGroup {
				continue
			}
		case *operatorsv1alpha1.Subscription:
			facts.hashes[namespace] = o.Spec.Config.Annotations[render.RuntimeHashAnnotation]
			if !ready {
				facts.hashes[namespace] = state.runtimeHash()
				o.Spec.Config.Annotations[render.RuntimeHashAnnotation] = state.runtimeHash()
			}
			if state.byHand {
				continue
			}
		case *corev1.ConfigMap:
			if !ready {
				facts.postponed = append(facts.postponed, o)
			}
		}
		adapted = append(adapted, object)
	}
	return adapted
}

// renderFailure gives an error of the renderer its reason.
func renderFailure(err error) error {
	var unsupported *render.UnsupportedRuntimeError
	if errors.As(err, &unsupported) {
		return status.Waiting(v2beta2.ReasonRuntimeNotSupported, status.MissingInterval, "%w; remove it, or set install: Direct", err)
	}
	return status.Stalled(v2beta2.ReasonObjectRefused, err)
}

// digestFor is the digest of the archive that the operator in a namespace is told to run.
func digestFor(soc *v2beta2.SubOperatorConfig, state *subscribed, c *collection.Collection, namespace, digest string) string {
	if state == nil || state.ready(c.CSVName()) {
		return digest
	}
	for _, installation := range soc.Status.Installations {
		if installation.Namespace == namespace {
			return installation.Digest
		}
	}
	return digest
}

// recordMethods writes down how the operator is installed in each namespace before the first of its objects is written:
// a manager that finds the half of an installation must not choose again.
func (r *SubOperatorConfigReconciler) recordMethods(ctx context.Context, soc *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	recorded := slices.Clone(soc.Status.Installations)
	for _, installation := range facts.installations {
		i := slices.IndexFunc(recorded, func(i v2beta2.InstallationStatus) bool { return i.Namespace == installation.Namespace })
		if i < 0 {
			recorded = append(recorded, installation)
			continue
		}
		recorded[i].Install, recorded[i].RemovalTime = installation.Install, nil
	}
	slices.SortFunc(recorded, byNamespace)
	if equality.Semantic.DeepEqual(soc.Status.Installations, recorded) {
		return nil
	}
	before := soc.DeepCopy()
	soc.Status.Installations = recorded
	return r.saveStatus(ctx, soc, before)
}

func byNamespace(a, b v2beta2.InstallationStatus) int {
	return strings.Compare(a.Namespace, b.Namespace)
}

// rollByHand tells the pods of a Subscription that a person made about a new configuration. Nothing else of it is changed.
func (r *SubOperatorConfigReconciler) rollByHand(ctx context.Context, _ *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	for _, installation := range facts.installations {
		state, hash := facts.olm[installation.Namespace], facts.hashes[installation.Namespace]
		if installation.Install != v2beta2.InstallOLM || !state.byHand || state.runtimeHash() == hash {
			continue
		}
		before := state.subscription.DeepCopy()
		config := state.subscription.Spec.Config
		if config == nil {
			config = &operatorsv1alpha1.SubscriptionConfig{}
			state.subscription.Spec.Config = config
		}
		if config.Annotations == nil {
			config.Annotations = map[string]string{}
		}
		config.Annotations[render.RuntimeHashAnnotation] = hash
		if err := r.Client.Patch(ctx, state.subscription, client.MergeFrom(before), client.FieldOwner(fieldOwner)); err != nil {
			return fmt.Errorf("telling Subscription %q about a new configuration: %w", client.ObjectKeyFromObject(state.subscription), err)
		}
	}
	return nil
}
