package install

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/environment"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// Installer installs and uninstalls collections.
type Installer struct {
	// Client reads through the cache, and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Cache has the objects that installations consist of, and their pods, as far as the manager watches them.
	Cache client.Reader
	// Memory has what was seen of installations.
	Memory *Memory
	// PredictStatus describes, in the status of the SubOperatorConfig, the results that all its installations are expected to have. Nil means
	// that it is described afterwards only.
	PredictStatus func([]Result)
	// Recorder records events.
	Recorder events.EventRecorder
	// Grants decide which permissions operators may have.
	Grants *grants.Source
	// Settings apply to all installations.
	Settings render.Settings
	// KeepTrusted is true if Settings.TrustedAuthorities are not known: operators keep those that they have.
	KeepTrusted bool
	// OLM removes the objects that OLM created for a Subscription of an installation.
	OLM Remover
}

// scope is shared by the steps of one reconciliation.
type scope struct {
	*Installation
	// options are the input of render.
	options render.InstallationOptions
	// trusted are the authorities, in PEM, that the operator has and keeps.
	trusted string
	// endpoints is the Secret with the endpoints.
	endpoints client.Object
	// created is true if the Secret existed before this reconciliation, and was created for the same owner.
	created bool
	// unkept is why it is not known which Secrets living resources name, or nil. Until it is, the pods stay as they are.
	unkept error
	// current is true once the Secret was applied as planned.
	current bool
	plan    *Plan
	// left is what a replaced installation has left to this one.
	left []v2beta2.ObjectReference
	// written counts the objects that were written.
	written int
	// before is the status entry before this reconciliation, or nil.
	before *v2beta2.InstallationStatus
	// pruning is what the removal of obsolete objects waits for, or nil. It does not affect the operator.
	pruning error
	// err is the error of the step that failed, or nil.
	err    error
	result Result
}

// batchSize is the number of installations of a SubOperatorConfig that are recorded in one write of its status. Their objects are in memory
// at the same time.
const batchSize = 50

// parallelWrites is the number of installations of a SubOperatorConfig whose objects are read and written at the same time.
const parallelWrites = 8

// Reconcile applies installations of one SubOperatorConfig, and returns their results in the same order. A problem of one does not affect
// the others.
func (r *Installer) Reconcile(ctx context.Context, all []*Installation) []Result {
	results := make([]Result, 0, len(all))
	for batch := range slices.Chunk(all, batchSize) {
		scopes := make([]*scope, 0, len(batch))
		for _, i := range batch {
			scopes = append(scopes, &scope{
				Installation: i, before: Recorded(i.Owner, i.Namespace),
				result: Result{Namespace: i.Namespace, Status: Recorded(i.Owner, i.Namespace)},
			})
		}
		r.reconcile(ctx, scopes, len(batch) == len(all))
		for _, s := range scopes {
			results = append(results, s.result)
		}
	}
	return results
}

// reconcile updates endpoints and keys first: a problem such as a withdrawn grant must not keep a replaced key in use. All is true if the
// SubOperatorConfig has no other installations.
func (r *Installer) reconcile(ctx context.Context, scopes []*scope, all bool) {
	sequentially(ctx, scopes, r.renderEndpoints)
	concurrently(ctx, scopes, r.updateEndpoints)
	concurrently(ctx, scopes, r.keepTrusted)
	sequentially(ctx, scopes, r.render, r.checkEnvironment)
	concurrently(ctx, scopes, r.checkReferences)
	sequentially(ctx, scopes, r.checkPermissions, r.checkReplaced, r.uninstallFormer)
	r.record(ctx, scopes, all)
	concurrently(ctx, scopes, r.apply)
	sequentially(ctx, scopes, r.prune, r.observe, r.releaseFinalizers)
	for _, s := range scopes {
		r.finish(ctx, s)
	}
}

// step is a step of an installation, which ends with the first error.
type step func(context.Context, *scope) error

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

// finish completes the result of an installation.
func (r *Installer) finish(ctx context.Context, s *scope) {
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
}

// renderEndpoints renders the Secret with the endpoints. What must not change of it is taken from the live Secret if there is one. That is
// read if it is not known to be as it was rendered.
func (r *Installer) renderEndpoints(ctx context.Context, s *scope) error {
	key := client.ObjectKey{Namespace: s.Namespace, Name: render.EndpointsSecretName(s.Collection)}
	known, isKnown := r.content(ctx, s.Owner, kindSecret, key)
	lasting, err := lastingIn(known), error(nil)
	if s.created = isKnown; !isKnown || r.mayInherit(ctx, s) {
		lasting, err = r.readLasting(ctx, s, key)
	}
	if err != nil {
		return err
	}
	if lasting.Kept == nil {
		lasting.Kept, s.unkept = r.findKept(ctx, s, lasting.RecordKey)
	}
	secret, err := render.EndpointsSecret(s.Collection, s.Namespace, s.Owner.Namespace, s.Endpoints, lasting)
	if err != nil {
		return status.Stalled(v2beta2.ReasonObjectRefused, err)
	}
	r.rememberContent(s.Owner, kindSecret, key, string(lasting.RecordKey)+string(lasting.Kept))
	setOwner(s.Owner, secret)
	s.endpoints = secret
	return nil
}

// lastingIn returns what renderEndpoints has remembered.
func lastingIn(content string) render.Lasting {
	lasting := render.Lasting{RecordKey: []byte(content[:min(len(content), gate.RecordKeyBytes)])}
	if len(content) > gate.RecordKeyBytes {
		lasting.Kept = []byte(content[gate.RecordKeyBytes:])
	}
	return lasting
}

func (r *Installer) readLasting(ctx context.Context, s *scope, key client.ObjectKey) (render.Lasting, error) {
	live := &corev1.Secret{}
	err := r.Reader.Get(ctx, key, live)
	if client.IgnoreNotFound(err) != nil {
		return render.Lasting{}, fmt.Errorf("reading Secret %q: %w", key, err)
	}
	s.created = err == nil && OwnedBy(s.Owner)(live)
	return r.findLasting(ctx, s, live)
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
	if err := cmp.Or(s.Blocked, s.unkept); err != nil {
		return err
	}
	s.options = r.Settings.Options(s.Namespace, s.Group, s.Digest, store.URLPath(s.Digest))
	s.options.Runtime = render.MergeRuntime(&s.options.Runtime, &s.Runtime)
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
	plan.Objects = slices.Concat([]client.Object{s.endpoints}, plan.Objects)
	s.plan, s.result.Warnings = plan, slices.Concat(plan.Warnings, render.EgressWarnings(s.options))
	return nil
}

// setOwner marks an object as created for a SubOperatorConfig, without an owner reference: the garbage collector follows those before
// finalizers have run. Objects that installations share have no owner.
func setOwner(soc *v2beta2.SubOperatorConfig, object client.Object) {
	if IsSharedGroup(object) {
		return
	}
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationOwner] = soc.Namespace + "/" + soc.Name
	object.SetAnnotations(annotations)
}

// checkEnvironment rejects runtime settings that would read Secrets or ConfigMaps of another namespace, or that other controllers may act
// upon there, such as those that inject volumes, and identities of a cloud: its consent covers running an operator, not using its data.
func (r *Installer) checkEnvironment(_ context.Context, s *scope) error {
	if s.Namespace == s.Owner.Namespace {
		return nil
	}
	for _, variable := range s.Runtime.Env {
		if from := variable.ValueFrom; from != nil && (from.SecretKeyRef != nil || from.ConfigMapKeyRef != nil) {
			return status.Waiting(v2beta2.ReasonMappingNotAllowed, status.Watched,
				"runtime.env: variable %q must not read a Secret or ConfigMap of the mapped namespace %q: set a value, use runtime.envFrom, or map %q from a SubOperatorConfig in that namespace",
				variable.Name, s.Namespace, s.Namespace)
		}
	}
	for _, field := range []struct {
		name string
		set  map[string]string
	}{
		{"podAnnotations", s.Runtime.PodAnnotations}, {"podLabels", s.Runtime.PodLabels}, {"serviceAccountAnnotations", s.Runtime.ServiceAccountAnnotations},
	} {
		if len(field.set) > 0 {
			return status.Waiting(v2beta2.ReasonMappingNotAllowed, status.Watched,
				"runtime.%s must not be set for the mapped namespace %q: remove it, or map %q from a SubOperatorConfig in that namespace",
				field.name, s.Namespace, s.Namespace)
		}
	}
	return nil
}

// checkPermissions checks the roles before anything is applied, also if OLM writes them: OLM would grant any permission of
// the ClusterServiceVersion. The API server repeats a part of the check when the manager writes a role.
func (r *Installer) checkPermissions(ctx context.Context, s *scope) error {
	base := render.BaseRules(s.Collection, s.Group, s.options.PersonalCredentials)
	var roles []grants.Role
	for _, object := range render.Roles(s.Collection, s.options) {
		switch role := object.(type) {
		case *rbacv1.Role:
			roles = append(roles, grants.Role{Namespace: role.Namespace, Rules: role.Rules, Given: base})
		case *rbacv1.ClusterRole:
			roles = append(roles, grants.Role{Rules: role.Rules})
		default:
			return fmt.Errorf("%T is not a role", object)
		}
	}
	warnings, err := r.Grants.Check(ctx, render.Grantee{ID: s.Collection.ID(), Namespace: s.OperatorCollection.Namespace, Digest: s.Digest}, roles)
	s.result.Warnings = append(s.result.Warnings, warnings...)
	return err
}
