package apply

import (
	"context"
	"errors"
	"fmt"

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
	if crd := unserved(err); crd != "" {
		return CheckKindGone(ctx, reader, crd)
	}
	return client.IgnoreNotFound(err)
}

// ConfirmAbsenceOf is [ConfirmAbsence] for objects of which only the metadata was read: such errors do not name the kind.
func ConfirmAbsenceOf(ctx context.Context, reader client.Reader, kind schema.GroupKind, err error) error {
	if apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return CheckKindGone(ctx, reader, guessCRD(kind))
	}
	return ConfirmAbsence(ctx, reader, err)
}

func guessCRD(kind schema.GroupKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(kind.WithVersion(""))
	return plural.GroupResource().String()
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

// unserved returns the name of the CRD if an error says that its kind is not served, or else "".
func unserved(err error) string {
	var noKind *meta.NoKindMatchError
	var missing apierrors.APIStatus
	switch {
	case errors.As(err, &noKind):
		return guessCRD(noKind.GroupKind)
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && errors.As(err, &missing):
		details := missing.Status().Details
		return schema.GroupResource{Group: details.Group, Resource: details.Kind}.String()
	}
	return ""
}
