package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// updateEndpoints updates the Secret with the endpoints if it exists. A new installation creates it with its other objects,
// after all checks.
func (r *Installer) updateEndpoints(ctx context.Context, s *scope) error {
	if !s.created {
		return nil
	}
	s.current = true
	return r.write(ctx, s, s.endpoints)
}

// record writes the inventory and the install method of installations to status before their first object is written: after a restart,
// the manager knows every object of a partial installation and does not choose the method again. If all of them are new, the status says
// also what it will say when they are written.
func (r *Installer) record(ctx context.Context, scopes []*scope, all bool) {
	number := len(scopes)
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(s *scope) bool { return s.err != nil })
	if len(scopes) == 0 {
		return
	}
	owner := scopes[0].Owner
	before, now := owner.DeepCopy(), &owner.Status
	var planned, left []v2beta2.ObjectReference
	var expected []Result
	for _, s := range scopes {
		planned, left = append(planned, apply.Inventory(s.plan.Objects)...), append(left, s.left...)
		s.result.Status = s.recorded()
		now.Installations = WithInstallation(now.Installations, *s.result.Status)
		now.Collection = &v2beta2.CollectionReference{Domain: s.Collection.Domain, Name: s.Collection.Name}
		if s.before == nil && s.Backend.Method() == v2beta2.InstallDirect {
			expected = append(expected, s.expected())
		}
	}
	now.Inventory = apply.Union(planned, apply.Union(now.Inventory, left))
	slices.SortStableFunc(now.Inventory, func(a, b v2beta2.ObjectReference) int { return strings.Compare(namespaceOf(a), namespaceOf(b)) })
	if all && len(expected) == number && r.PredictStatus != nil {
		r.PredictStatus(expected)
	}
	if err := saveStatus(ctx, r.Client, owner, before); err != nil {
		for _, s := range scopes {
			s.err = err
		}
	}
}

// recorded returns the entry for status before the first object is written.
func (s *scope) recorded() *v2beta2.InstallationStatus {
	recorded := Recorded(s.Owner, s.Namespace)
	if recorded == nil {
		recorded = &v2beta2.InstallationStatus{Namespace: s.Namespace, Digest: s.plan.Digest.String()}
	}
	recorded.Install, recorded.RemovalTime = s.Backend.Method(), nil
	return recorded
}

// expected returns the result of a new installation once its objects are written, before anything of it runs.
func (s *scope) expected() Result {
	expected := Result{Namespace: s.Namespace, Status: s.result.Status.DeepCopy(), Applied: true, Warnings: s.result.Warnings}
	expected.fail(unavailable(client.ObjectKey{Namespace: s.Namespace, Name: s.Collection.OperatorName()}, v2beta2.ReasonProgressing, noPod))
	expected.hold(s.Held)
	return expected
}

// WithInstallation returns the list, sorted by namespace, with one entry added or replaced.
func WithInstallation(list []v2beta2.InstallationStatus, entry v2beta2.InstallationStatus) []v2beta2.InstallationStatus {
	list = append(WithoutInstallation(list, entry.Namespace), entry)
	slices.SortFunc(list, func(a, b v2beta2.InstallationStatus) int { return strings.Compare(a.Namespace, b.Namespace) })
	return list
}

// WithoutInstallation returns the list without the entry of a namespace.
func WithoutInstallation(list []v2beta2.InstallationStatus, namespace string) []v2beta2.InstallationStatus {
	return slices.DeleteFunc(slices.Clone(list), func(i v2beta2.InstallationStatus) bool { return i.Namespace == namespace })
}

func saveStatus(ctx context.Context, c client.Client, soc, before *v2beta2.SubOperatorConfig) error {
	if err := status.Patch(ctx, c, soc, before); err != nil {
		return fmt.Errorf("recording what is installed: %w", err)
	}
	return nil
}

func (r *Installer) apply(ctx context.Context, s *scope) error {
	objects := slices.DeleteFunc(slices.Clone(s.plan.Objects), func(o client.Object) bool {
		return o == s.endpoints && s.current || slices.Contains(s.plan.Postponed, o)
	})
	if err := r.write(ctx, s, objects...); err != nil {
		return err
	}
	r.rememberAuthorities(s)
	s.result.Applied = true
	is := s.result.Status
	is.Digest, is.Ready, is.Reason, is.Message = s.plan.Digest.String(), false, "", ""
	return nil
}

func (r *Installer) applier(ctx context.Context) *apply.Applier {
	return &apply.Applier{Client: r.Client, Reader: r.Reader, Memory: r.Memory.Applied, Watched: r.watched(ctx)}
}

func (r *Installer) write(ctx context.Context, s *scope, objects ...client.Object) error {
	written, err := r.applier(ctx).Apply(ctx, objects, OwnedBy(s.Owner))
	s.written += written
	return ApplyError(err)
}

// ApplyError maps an error of [apply.Applier.Apply] to a typed error with a reason.
func ApplyError(err error) error {
	var foreign *apply.ForeignObjectError
	var refused *apply.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &foreign):
		return status.Waiting(v2beta2.ReasonForeignObject, intervals.Missing, "%w", err)
	case errors.As(err, &refused) && refused.Kind.Group == rbacv1.GroupName && apierrors.IsForbidden(refused.Err) &&
		!apierrors.HasStatusCause(refused.Err, corev1.NamespaceTerminatingCause):
		return status.Waiting(v2beta2.ReasonPermissionsNotGranted, intervals.Missing,
			"the collection asks for permissions that the manager does not hold: bind them to the manager's ServiceAccount: %w", err)
	case errors.As(err, &refused):
		return status.Waiting(v2beta2.ReasonObjectRefused, intervals.Missing, "%w", err)
	}
	return status.Retry(v2beta2.ReasonApplyFailed, err)
}

// prune removes the recorded objects that the plan no longer contains.
func (r *Installer) prune(ctx context.Context, s *scope) error {
	obsolete := apply.Difference(parts(s.Owner, s.Namespace), apply.Inventory(s.plan.Objects))
	err := r.remove(ctx, s.Owner, obsolete)
	if status.Is(err) {
		s.pruning = err
		return nil
	}
	return err
}
