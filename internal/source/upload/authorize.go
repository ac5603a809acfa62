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

// mayUpdate asks the API server whether a user may update an OperatorCollection, whether or not it exists, and is an administrator if
// that is required: admission policies, which the API server asks about a real update, are not part of its answer.
func (h *Handler) mayUpdate(ctx context.Context, user authenticationv1.UserInfo, oc types.NamespacedName) error {
	allowed, err := h.may(ctx, user, authorizationv1.ResourceAttributes{
		Group: v2beta2.GroupVersion.Group, Version: v2beta2.GroupVersion.Version, Resource: "operatorcollections",
		Verb: "update", Namespace: oc.Namespace, Name: oc.Name,
	})
	if err == nil && !allowed {
		err = refuse(http.StatusForbidden, "user %q may not update OperatorCollection %q in namespace %q", user.Username, oc.Name, oc.Namespace)
	}
	if err != nil || !h.AdministratorsOnly {
		return err
	}
	allowed, err = h.may(ctx, user, authorizationv1.ResourceAttributes{
		Group: v2beta2.GroupVersion.Group, Version: v2beta2.GroupVersion.Version, Resource: "administration", Verb: "use", Namespace: oc.Namespace,
	})
	if err == nil && !allowed {
		err = refuse(http.StatusForbidden, "only administrators may upload archives: ask for a RoleBinding of user %q to ClusterRole collection-operator-administrator in namespace %q",
			user.Username, oc.Namespace)
	}
	return err
}

func (h *Handler) may(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra, ResourceAttributes: &what,
	}}
	if err := h.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("creating a SubjectAccessReview: %w", err)
	}
	return review.Status.Allowed, nil
}
