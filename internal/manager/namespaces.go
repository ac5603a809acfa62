package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
)

// errNotPermitted means that the manager may not use the selected namespaces.
var errNotPermitted = errors.New("the manager may not list Secrets")

// namespaceSettings select the namespaces that the manager uses.
type namespaceSettings struct {
	names []string
	// refused are selected namespaces that the manager may not use.
	refused []string
}

func (s *namespaceSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.names, "namespaces", nil, "namespaces in which the manager reads Secrets and installs operators; may be repeated; if not set, all namespaces")
}

func (s *namespaceSettings) validate() error {
	for _, name := range s.names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return fmt.Errorf("--namespaces: %q is no name of a namespace: %s", name, strings.Join(problems, "; "))
		}
	}
	return nil
}

// keepPermitted drops the namespaces in which the manager may not read Secrets: the caches of all namespaces would wait for one that was
// deleted together with its RoleBinding. If none is left, the error is errNotPermitted.
func (s *namespaceSettings) keepPermitted(ctx context.Context, reviewer kubernetes.Interface) error {
	if len(s.names) == 0 {
		permitted, err := mayListSecrets(ctx, reviewer, metav1.NamespaceAll)
		if err == nil && !permitted {
			err = fmt.Errorf("--namespaces selects all namespaces, and %w in all: select some", errNotPermitted)
		}
		return err
	}
	var kept []string
	for _, name := range s.names {
		permitted, err := mayListSecrets(ctx, reviewer, name)
		switch {
		case err != nil:
			return err
		case permitted:
			kept = append(kept, name)
		default:
			s.refused = append(s.refused, name)
		}
	}
	if len(kept) == 0 {
		return fmt.Errorf("--namespaces: %w in any of them: bind ClusterRole collection-operator-manager-namespace to its ServiceAccount there", errNotPermitted)
	}
	s.names = kept
	return nil
}

// logRefused logs the namespaces that keepPermitted has dropped.
func (s *namespaceSettings) logRefused() {
	for _, name := range s.refused {
		ctrl.Log.Error(nil, "a selected namespace is not used until ClusterRole collection-operator-manager-namespace is bound there and the manager restarts",
			"namespace", name, "reason", "the manager may not list Secrets there")
	}
}

func mayListSecrets(ctx context.Context, reviewer kubernetes.Interface, namespace string) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Version: "v1", Resource: "secrets", Verb: "list", Namespace: namespace},
	}}
	review, err := reviewer.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("checking the permissions in namespace %q: %w", namespace, err)
	}
	return review.Status.Allowed, nil
}
