package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/environment"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// batchSize is the number of installations of a SubOperatorConfig that are recorded in one write of its status. Their objects are in memory
// at the same time.
const batchSize = 50

// parallelWrites is the number of installations of a SubOperatorConfig whose objects are read and written at the same time.
const parallelWrites = 8

// Reconcile applies installations of one SubOperatorConfig, and returns their results in the same order. A problem of one does not affect
// the others. Endpoints and keys are updated first: a problem such as a withdrawn grant must not keep a replaced key in use.
func (r *Installer) Reconcile(ctx context.Context, all []*Installation) []Result {
	results := make([]Result, 0, len(all))
	for batch := range slices.Chunk(all, batchSize) {
		scopes := newScopes(batch)
		sequentially(ctx, scopes, r.renderEndpoints)
		concurrently(ctx, scopes, r.updateEndpoints)
		concurrently(ctx, scopes, r.keepTrusted)
		sequentially(ctx, scopes, r.render, of(checkEnvironment))
		concurrently(ctx, scopes, r.checkReferences)
		sequentially(ctx, scopes, r.checkPermissions, of(r.objects().checkReplaced), r.uninstallFormer)
		r.record(ctx, scopes)
		concurrently(ctx, scopes, r.apply)
		sequentially(ctx, scopes, r.prune, r.observe, r.releaseFinalizers)
		for _, s := range scopes {
			results = append(results, s.finish(ctx))
		}
	}
	return results
}

// scope is one installation on its way through the steps of a reconciliation.
type scope struct {
	*Installation
	// before is the status entry before this reconciliation, or nil.
	before *v2beta2.InstallationStatus
	// endpoints is set by renderEndpoints.
	endpoints endpointsSecret
	// trusted are the authorities, in PEM, that the operator has and keeps. It is set by keepTrusted.
	trusted string
	// options are what plan is rendered from. Both are set by render.
	options render.InstallationOptions
	plan    *Plan
	// written counts the objects that were written.
	written int
	// pruning is what the removal of obsolete objects waits for, or nil. It does not affect the operator.
	pruning error
	// err is the error of the step that failed, or nil.
	err    error
	result Result
}

func newScopes(batch []*Installation) []*scope {
	scopes := make([]*scope, 0, len(batch))
	for _, i := range batch {
		scopes = append(scopes, &scope{
			Installation: i, before: Recorded(i.Owner, i.Namespace),
			result: Result{Namespace: i.Namespace, Status: Recorded(i.Owner, i.Namespace)},
		})
	}
	return scopes
}

// step is a step of an installation, which ends with the first error.
type step func(context.Context, *scope) error

// of makes a step of a check that needs nothing of the steps before it.
func of(check func(context.Context, *Installation) error) step {
	return func(ctx context.Context, s *scope) error { return check(ctx, s.Installation) }
}

// sequentially runs steps of one installation after another: they may change the status of their SubOperatorConfig.
func sequentially(ctx context.Context, scopes []*scope, steps ...step) {
	for _, s := range scopes {
		for _, do := range steps {
			if s.err == nil {
				s.err = do(ctx, s)
			}
		}
	}
}

// concurrently runs a step of several installations at once.
func concurrently(ctx context.Context, scopes []*scope, do step) {
	var group errgroup.Group
	group.SetLimit(parallelWrites)
	for _, s := range scopes {
		if s.err == nil {
			group.Go(func() error {
				s.err = do(ctx, s)
				return nil
			})
		}
	}
	_ = group.Wait() // Each installation has its own error.
}

func (r *Installer) renderEndpoints(ctx context.Context, s *scope) (err error) {
	s.endpoints, err = secrets{r.objects()}.render(ctx, s.Installation)
	return err
}

// updateEndpoints updates the Secret with the endpoints if it exists. A new installation creates it with its other objects,
// after all checks.
func (r *Installer) updateEndpoints(ctx context.Context, s *scope) error {
	if !s.endpoints.exists {
		return nil
	}
	return s.write(ctx, r.objects(), s.endpoints.object)
}

func (s *scope) write(ctx context.Context, to *objects, planned ...client.Object) error {
	written, err := to.apply(ctx, s.Owner, planned...)
	s.written += written
	return err
}

// keepTrusted reads the authorities that an operator has, as long as it cannot be told others.
func (r *Installer) keepTrusted(ctx context.Context, s *scope) error {
	if !r.KeepTrusted {
		return nil
	}
	live, key := &corev1.ConfigMap{}, client.ObjectKey{Namespace: s.Namespace, Name: render.ConfigMapName(s.Collection)}
	if err := r.Reader.Get(ctx, key, live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %q: %w", key, err)
	}
	if OwnedBy(s.Owner)(live) {
		s.trusted = live.Data[environment.KeyAuthorities]
	}
	return nil
}

// render plans the installation without access to the cluster.
func (r *Installer) render(_ context.Context, s *scope) error {
	if err := cmp.Or(s.Blocked, s.endpoints.unkept); err != nil {
		return err
	}
	s.options = r.Settings.Options(s.Namespace, s.Group, s.Digest, store.URLPath(s.Digest))
	s.options.Runtime = render.MergeRuntime(&s.options.Runtime, &s.Runtime)
	s.options.Runtime.RunTimeout = cmp.Or(s.options.Runtime.RunTimeout, s.runTimeout())
	s.options.Dependencies, s.options.Endpoints = s.Dependencies, s.Endpoints
	s.options.PersonalCredentials = s.Owner.Spec.CredentialType == v2beta2.CredentialPersonal
	if r.KeepTrusted {
		s.options.TrustedAuthorities = s.trusted
	}
	plan, err := s.Backend.Plan(s.Installation, s.options)
	if err != nil {
		return err
	}
	for _, object := range plan.Objects {
		setOwner(s.Owner, object)
	}
	plan.Objects = slices.Concat([]client.Object{s.endpoints.object}, plan.Objects)
	s.plan, s.result.Warnings = plan, slices.Concat(plan.Warnings, render.EgressWarnings(s.options))
	return nil
}

func (r *Installer) checkReferences(ctx context.Context, s *scope) error {
	return r.objects().checkReferences(ctx, s.Installation, &s.options.Runtime, s.plan)
}

func (r *Installer) checkPermissions(ctx context.Context, s *scope) error {
	warnings, err := checkPermissions(ctx, r.Grants, s.Installation, s.options)
	s.result.Warnings = append(s.result.Warnings, warnings...)
	return err
}

func (r *Installer) uninstallFormer(ctx context.Context, s *scope) error {
	removed, err := r.installed(s.Owner, s.Namespace).uninstallFormer(ctx, s.Backend, s.plan)
	if removed != nil {
		s.result.Status = removed
	}
	return err
}

// record writes the inventory and the install method of installations to status before their first object is written: after a restart,
// the manager knows every object of a partial installation and does not choose the method again. If any of them gets another version,
// the same write takes Ready back: nobody who waits for it may see it with pods of another version, or with none.
func (r *Installer) record(ctx context.Context, scopes []*scope) {
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(s *scope) bool { return s.err != nil })
	if len(scopes) == 0 {
		return
	}
	owner := scopes[0].Owner
	before, now := owner.DeepCopy(), &owner.Status
	var planned, left []v2beta2.ObjectReference
	for _, s := range scopes {
		planned, left = append(planned, apply.Inventory(s.plan.Objects)...), append(left, s.endpoints.left...)
		s.result.Status = s.recorded()
		now.Installations = WithInstallation(now.Installations, *s.result.Status)
		now.Collection = &v2beta2.CollectionReference{Domain: s.Collection.Domain, Name: s.Collection.Name}
	}
	now.Inventory = apply.Union(planned, apply.Union(now.Inventory, left))
	slices.SortStableFunc(now.Inventory, func(a, b v2beta2.ObjectReference) int { return strings.Compare(namespaceOf(a), namespaceOf(b)) })
	if begins := slices.IndexFunc(scopes, (*scope).begins); begins >= 0 {
		status.SetReady(&now.Conditions, owner.Generation, scopes[begins].beginning(), "")
		now.ObservedGeneration, now.Message = owner.Generation, status.ReadyMessage(now.Conditions)
		now.Phase = status.Phase(now.Conditions, v2beta2.ConditionReady)
	}
	if err := saveStatus(ctx, r.Client, owner, before); err != nil {
		for _, s := range scopes {
			s.err = err
		}
	}
}

// begins reports whether the namespace has none, or another version that is Ready. An upgrade that is tried again has said so: to say it each
// time would trigger the next try.
func (s *scope) begins() bool {
	return s.before == nil || s.before.Digest != "" && s.before.Digest != s.plan.Digest.String() &&
		meta.IsStatusConditionTrue(s.Owner.Status.Conditions, v2beta2.ConditionReady)
}

func (s *scope) beginning() error {
	return status.Waiting(v2beta2.ReasonProgressing, intervals.Poll, "version %s is being installed", s.Collection.Version)
}

// recorded returns the entry for status before the first object is written.
func (s *scope) recorded() *v2beta2.InstallationStatus {
	recorded := Recorded(s.Owner, s.Namespace)
	if recorded == nil {
		recorded = &v2beta2.InstallationStatus{
			Namespace: s.Namespace, Digest: s.plan.Digest.String(), Reason: v2beta2.ReasonProgressing, Message: s.beginning().Error(),
		}
	}
	recorded.Install, recorded.RunTimeout, recorded.RemovalTime = s.Backend.Method(), s.runTimeout(), nil
	return recorded
}

// runTimeout returns the default limit of a run, or nil if there is none: it must not end a playbook of an installation from before there was
// a default, as its record shows. With OLM, pods of a catalog without the default would start twice.
func (s *scope) runTimeout() *metav1.Duration {
	switch {
	case s.Backend.Method() == v2beta2.InstallOLM:
		return nil
	case s.before != nil:
		return s.before.RunTimeout
	}
	return &metav1.Duration{Duration: render.DefaultRunTimeout}
}

// apply writes all planned objects but those that are postponed, and the Secret with the endpoints if updateEndpoints has written it.
func (r *Installer) apply(ctx context.Context, s *scope) error {
	planned := slices.DeleteFunc(slices.Clone(s.plan.Objects), func(o client.Object) bool {
		return o == s.endpoints.object && s.endpoints.exists || slices.Contains(s.plan.Postponed, o)
	})
	if err := s.write(ctx, r.objects(), planned...); err != nil {
		return err
	}
	r.objects().rememberAuthorities(s.Owner, s.plan)
	s.result.Applied = true
	is := s.result.Status
	is.Digest, is.Ready, is.Reason, is.Message = s.plan.Digest.String(), false, "", ""
	return nil
}

// prune removes the recorded objects that the plan no longer contains.
func (r *Installer) prune(ctx context.Context, s *scope) error {
	obsolete := apply.Difference(parts(s.Owner, s.Namespace), apply.Inventory(s.plan.Objects))
	err := r.objects().remove(ctx, s.Owner, obsolete)
	if status.Is(err) {
		s.pruning = err
		return nil
	}
	return err
}

func (r *Installer) observe(ctx context.Context, s *scope) error {
	observer := &observer{
		objects: r.objects(), Installation: s.Installation, plan: s.plan, written: s.written > 0,
		deployment: client.ObjectKey{Namespace: s.Namespace, Name: s.Collection.OperatorName()},
	}
	if err := observer.observe(ctx, s.wasReady()); err != nil {
		return err
	}
	s.result.Status.Ready = true
	return nil
}

// wasReady reports whether the applied archive was ready before this reconciliation.
func (s *scope) wasReady() bool {
	return s.before != nil && s.before.Ready && s.before.Digest == s.result.Status.Digest
}

// releaseFinalizers removes the finalizer from custom resources of kinds whose current version has no finalizer playbook,
// since nothing else would remove it. It runs once after each change of the pods: the old pods would add the finalizer
// again.
func (r *Installer) releaseFinalizers(ctx context.Context, s *scope) error {
	if s.wasReady() {
		return nil
	}
	for _, resource := range s.Collection.Resources {
		if resource.Finalizer != "" {
			continue
		}
		gvk := schema.GroupVersionKind{Group: s.Group, Version: s.Collection.APIVersion(), Kind: resource.Kind}
		if err := instances.ReleaseFinalizer(ctx, r.Client, r.Reader, gvk, s.Namespace); err != nil {
			s.result.Status.Ready = false // Retried in the next reconcile.
			return err
		}
	}
	return nil
}

// finish returns the result, which the backend is notified of.
func (s *scope) finish(ctx context.Context) Result {
	err := s.err
	if s.Backend != nil {
		applied := s.plan
		if !s.result.Applied {
			applied = nil
		}
		if notifyErr := s.Backend.Notify(ctx, s.Installation, applied, err); notifyErr != nil {
			err = status.Join(notifyErr, err)
		}
	}
	if err != nil {
		s.result.fail(err)
	}
	s.result.hold(s.Held)
	s.result.Err = status.Join(s.result.Err, s.pruning)
	return s.result
}
