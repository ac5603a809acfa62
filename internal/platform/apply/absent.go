package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrNotServed says that an API server does not serve a kind that the cluster has, so that it is not known which objects there are. One
// of several API servers may learn late of a CRD.
var ErrNotServed = errors.New("the API server does not serve it, though the CRD exists: if this lasts, check the API servers, and that the CRD has a served version")

// ConfirmAbsence returns nil if err is nil or says that objects do not exist, unless it says so because the API server does not serve
// their kind: then the error is that of [CheckKindGone].
func ConfirmAbsence(ctx context.Context, reader client.Reader, err error) error {
	return checkKindsGone(ctx, reader, unserved(err), client.IgnoreNotFound(err))
}

// ConfirmAbsenceOf is [ConfirmAbsence] for objects of which only the metadata was read: such errors do not name the kind. The name of its
// CRD is that which the API server has told the mapper, in any version.
func ConfirmAbsenceOf(ctx context.Context, reader client.Reader, mapper meta.RESTMapper, kind schema.GroupKind, err error) error {
	var crds []string
	if isUnserved(err) {
		crds = crdsOf(mapper, kind)
	}
	return checkKindsGone(ctx, reader, crds, client.IgnoreNotFound(err))
}

// checkKindsGone is [CheckKindGone] of the CRDs that a kind may have. If there are none, the error is the other one.
func checkKindsGone(ctx context.Context, reader client.Reader, crds []string, other error) error {
	if len(crds) == 0 {
		return other
	}
	for _, crd := range crds {
		if err := CheckKindGone(ctx, reader, crd); err != nil {
			return err
		}
	}
	return nil
}

// crdsOf returns the name of the CRD of a kind. If the API server has not told it, these are all names that are usual.
func crdsOf(mapper meta.RESTMapper, kind schema.GroupKind) []string {
	if mapping, err := mapper.RESTMapping(kind); err == nil {
		return []string{mapping.Resource.GroupResource().String()}
	}
	return guessCRDs(kind)
}

// guessCRDs returns the names that the CRD of a kind may have: by the plural in English, and by that of collections, which ends in s always.
func guessCRDs(kind schema.GroupKind) []string {
	english, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	simple := schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind) + "s"}
	return slices.Compact([]string{english.GroupResource().String(), simple.String()})
}

// CheckKindGone returns nil if a kind has no objects for sure: its CRD does not exist, or was never established. Else the error is
// [ErrNotServed]. The reader must read live objects.
func CheckKindGone(ctx context.Context, reader client.Reader, crd string) error {
	live := &apiextensionsv1.CustomResourceDefinition{}
	switch err := reader.Get(ctx, client.ObjectKey{Name: crd}, live); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading CRD %q: %w", crd, err)
	case !apihelpers.IsCRDConditionTrue(live, apiextensionsv1.Established): // Once it is true, it remains so.
		return nil
	}
	return fmt.Errorf("%s: %w", crd, ErrNotServed)
}

// isUnserved reports whether an error says that a kind is not served.
func isUnserved(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// unserved returns the names that the CRD may have if an error says that its kind is not served, or else nil.
func unserved(err error) []string {
	var noKind *meta.NoKindMatchError
	var missing apierrors.APIStatus
	switch {
	case !isUnserved(err):
	case errors.As(err, &noKind):
		return guessCRDs(noKind.GroupKind)
	case errors.As(err, &missing) && missing.Status().Details.Kind != "":
		details := missing.Status().Details
		return []string{schema.GroupResource{Group: details.Group, Resource: details.Kind}.String()}
	}
	return nil
}
