package main

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

// namespaceSettings select the namespaces that the manager uses.
type namespaceSettings struct {
	names []string
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

// keepPermitted drops the namespaces in which the manager may not read Secrets, and logs them: the caches of all namespaces would wait
// for one that was deleted together with its RoleBinding.
func (s *namespaceSettings) keepPermitted(ctx context.Context) error {
	if len(s.names) == 0 {
		return nil
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	reviewer, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var permitted []string
	for _, name := range s.names {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Version: "v1", Resource: "secrets", Verb: "list", Namespace: name},
		}}
		review, err := reviewer.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("checking the permissions in namespace %q: %w", name, err)
		}
		if review.Status.Allowed {
			permitted = append(permitted, name)
			continue
		}
		ctrl.Log.Error(nil, "a selected namespace is not used until ClusterRole collection-operator-manager-namespace is bound there and the manager restarts",
			"namespace", name, "reason", "the manager may not list Secrets there")
	}
	if len(permitted) == 0 {
		return errors.New("--namespaces: the manager may list Secrets in none of them: bind ClusterRole collection-operator-manager-namespace to its ServiceAccount there")
	}
	s.names = permitted
	return nil
}
