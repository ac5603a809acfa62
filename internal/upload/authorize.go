package upload

import (
	"context"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// authenticate asks the API server whose token it is: one for the API server itself, or one for Audience. The error never
// contains the token.
func (h *Handler) authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	for _, audiences := range [][]string{nil, {Audience}} {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}
		if err := h.Client.Create(ctx, review); err != nil {
			return authenticationv1.UserInfo{}, fmt.Errorf("creating a TokenReview: %w", err)
		}
		if review.Status.Authenticated {
			return review.Status.User, nil
		}
	}
	return authenticationv1.UserInfo{}, refuse(http.StatusUnauthorized, "the API server does not accept the token")
}

// mayUpdate asks the API server whether a user may update an OperatorCollection, whether or not it exists.
func (h *Handler) mayUpdate(ctx context.Context, user authenticationv1.UserInfo, oc types.NamespacedName) error {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v2beta2.GroupVersion.Group, Version: v2beta2.GroupVersion.Version, Resource: "operatorcollections",
			Verb: "update", Namespace: oc.Namespace, Name: oc.Name,
		},
	}}
	if err := h.Client.Create(ctx, review); err != nil {
		return fmt.Errorf("creating a SubjectAccessReview: %w", err)
	}
	if review.Status.Allowed {
		return nil
	}
	return refuse(http.StatusForbidden, "user %q may not update OperatorCollection %q in namespace %q", user.Username, oc.Name, oc.Namespace)
}
