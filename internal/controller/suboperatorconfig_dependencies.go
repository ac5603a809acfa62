package controller

import (
	"cmp"
	"context"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// composeDependencies finds out where the collection's dependencies come from: the OperatorCollection's settings, else
// those of the manager.
func (r *SubOperatorConfigReconciler) composeDependencies(ctx context.Context, _ *v2beta2.SubOperatorConfig, facts *installationFacts) error {
	facts.dependencies = r.Settings.Dependencies
	spec := facts.oc.Spec.Dependencies
	if spec == nil {
		return nil
	}
	facts.dependencies.GalaxyURL = cmp.Or(spec.GalaxyURL, r.Settings.Dependencies.GalaxyURL)
	facts.dependencies.PipIndexURL = cmp.Or(spec.PipIndexURL, r.Settings.Dependencies.PipIndexURL)
	if spec.CredentialsSecret == "" {
		return nil
	}
	credentials, err := r.readDependencyCredentials(ctx, facts.oc.Namespace, spec.CredentialsSecret)
	facts.dependencies.Credentials = credentials
	return err
}

// readDependencyCredentials takes the keys that have a meaning from a Secret, and no others.
func (r *SubOperatorConfigReconciler) readDependencyCredentials(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	invalid := func(format string, args ...any) error {
		return status.Waiting(v2beta2.ReasonCredentialsInvalid, status.MissingInterval,
			"spec.dependencies.credentialsSecret of the OperatorCollection: Secret %q %s", name, fmt.Sprintf(format, args...))
	}
	secret, err := readSecret(ctx, r.Reader, namespace, name)
	if apierrors.IsNotFound(err) {
		return nil, invalid("does not exist in namespace %q", namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %q: %w", name, err)
	}
	if !isCredential(secret) {
		return nil, invalid("is not meant to be sent anywhere: give it the label %s=true", labelCredential)
	}
	credentials := map[string][]byte{}
	for _, key := range render.DependencyKeys {
		if text := strings.TrimSpace(string(secret.Data[key])); text != "" {
			credentials[key] = []byte(text)
		}
	}
	has := func(key string) bool { return credentials[key] != nil }
	switch {
	case len(credentials) == 0:
		return nil, invalid("has none of the keys %s", strings.Join(render.DependencyKeys, ", "))
	case has(render.KeyGalaxyToken) && has(render.KeyGalaxyUsername):
		return nil, invalid("has both %s and %s: keep one", render.KeyGalaxyToken, render.KeyGalaxyUsername)
	case has(render.KeyGalaxyUsername) != has(render.KeyGalaxyPassword):
		return nil, invalid("needs both %s and %s", render.KeyGalaxyUsername, render.KeyGalaxyPassword)
	case has(render.KeyPipUsername) != has(render.KeyPipPassword):
		return nil, invalid("needs both %s and %s", render.KeyPipUsername, render.KeyPipPassword)
	}
	if block, _ := pem.Decode(credentials[render.KeyCA]); has(render.KeyCA) && block == nil {
		return nil, invalid("has a key %s that holds no certificate in PEM", render.KeyCA)
	}
	return credentials, nil
}

// usersOfSecret are the OperatorCollections, by name, whose dependencies need a Secret.
func (r *SubOperatorConfigReconciler) usersOfSecret(ctx context.Context, secret client.Object) map[string]bool {
	list := &v2beta2.OperatorCollectionList{}
	if err := r.Client.List(ctx, list, client.InNamespace(secret.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list OperatorCollections")
	}
	users := map[string]bool{}
	for _, oc := range list.Items {
		if oc.Spec.Dependencies != nil && oc.Spec.Dependencies.CredentialsSecret == secret.GetName() {
			users[oc.Name] = true
		}
	}
	return users
}

// missingDependencies is what the pods of a Deployment's present template say about dependencies that they could not
// install, "" if nothing.
func missingDependencies(deployment *appsv1.Deployment, pods []corev1.Pod) string {
	want := deployment.Spec.Template.Annotations[render.RuntimeHashAnnotation]
	var problems []string
	for i := range pods {
		if pods[i].DeletionTimestamp != nil || pods[i].Annotations[render.RuntimeHashAnnotation] != want {
			continue
		}
		if problem, ok := strings.CutPrefix(lastDependencyMessage(&pods[i]), render.DependencyMissing); ok {
			problems = append(problems, status.Printable(problem))
		}
	}
	slices.Sort(problems)
	return strings.Join(slices.Compact(problems), "; ")
}

// lastDependencyMessage is the message of the container that ended last: the operator's container tries again what the
// init container could not do, and ends when the outcome changes.
func lastDependencyMessage(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name != render.OperatorContainer {
			continue
		}
		if ended := cmp.Or(status.State.Terminated, status.LastTerminationState.Terminated); ended != nil {
			return ended.Message
		}
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if status.Name == render.DependenciesContainer && status.State.Terminated != nil {
			return status.State.Terminated.Message
		}
	}
	return ""
}
