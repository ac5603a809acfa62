package adopt

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/config"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/support/adopt"
)

// labelCopied is on copies of a ClusterServiceVersion, which the Operator Lifecycle Manager makes in other namespaces.
const labelCopied = "olm.copiedFrom"

// Resource types that adoption is about besides those of the product.
var (
	podType       = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	workloadTypes = []schema.GroupVersionResource{
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
	}
	packageTypes = []schema.GroupVersionResource{
		{Group: "operators.coreos.com", Version: "v1alpha1", Resource: "subscriptions"},
		{Group: "operators.coreos.com", Version: "v1alpha1", Resource: "clusterserviceversions"},
	}
	webhookTypes = []schema.GroupVersionResource{
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	}
	accountTypes = []schema.GroupVersionResource{
		{Version: "v1", Resource: "serviceaccounts"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	}
)

// reader reads what adoption is about.
type reader struct {
	cluster *kube.Cluster
	state   *adopt.State
}

// read reads all but what is in the user's folders.
func (r reader) read(ctx context.Context) (err error) {
	r.state.Objects = map[string][]*unstructured.Unstructured{}
	if r.state.Own, err = config.Definitions(); err != nil {
		return err
	}
	if err := r.readObjects(ctx); err != nil {
		return err
	}
	for into, types := range map[*[]*unstructured.Unstructured][]schema.GroupVersionResource{
		&r.state.Workloads: workloadTypes, &r.state.Packages: packageTypes, &r.state.Webhooks: webhookTypes,
	} {
		for _, gvr := range types {
			objects, err := r.list(ctx, gvr)
			if err != nil && !apierrors.IsNotFound(err) { // Without OLM, there are no types of it.
				return err
			}
			*into = append(*into, objects...)
		}
	}
	for _, read := range []func(context.Context) error{r.readNamespaces, r.readPods, r.readAccounts, r.readCredentials} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	return nil
}

// readObjects reads the product's CRDs, and their custom resources.
func (r reader) readObjects(ctx context.Context) error {
	definitions, err := r.list(ctx, kube.DefinitionType)
	if err != nil {
		return err
	}
	for _, object := range definitions {
		definition, err := typedDefinition(object)
		if err != nil {
			return err
		}
		if !adopt.IsGroup(definition.Spec.Group) {
			continue
		}
		r.state.Definitions = append(r.state.Definitions, definition)
		version := adopt.VersionToRead(definition, r.state.Own)
		gvr := schema.GroupVersionResource{Group: definition.Spec.Group, Version: version, Resource: definition.Spec.Names.Plural}
		if r.state.Objects[definition.Name], err = r.list(ctx, gvr); err != nil {
			return fmt.Errorf("%s: %w", definition.Name, err)
		}
	}
	return nil
}

// list returns all objects of a type. Of ClusterServiceVersions, copies are left out; the label means nothing on other objects, on which
// anybody may have set it.
func (r reader) list(ctx context.Context, gvr schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	err := r.cluster.Each(ctx, gvr, metav1.NamespaceAll, func(o *unstructured.Unstructured) error {
		if _, copied := o.GetLabels()[labelCopied]; !copied || gvr.Resource != "clusterserviceversions" {
			all = append(all, o)
		}
		return nil
	})
	return all, err
}

// readNamespaces reads the namespaces that SubOperatorConfigs map.
func (r reader) readNamespaces(ctx context.Context) error {
	r.state.Namespaces = map[string]map[string]string{}
	for _, config := range r.state.Configs() {
		for _, name := range adopt.Mapped(config) {
			if _, known := r.state.Namespaces[name]; known {
				continue
			}
			namespace, err := r.cluster.Core.Namespaces().Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return err
			default:
				r.state.Namespaces[name] = namespace.Annotations
			}
		}
	}
	return nil
}

// readPods reads the pods of the managers of both products.
func (r reader) readPods(ctx context.Context) error {
	for _, w := range r.state.Managers() {
		labels, _, err := unstructured.NestedStringMap(w.Object, "spec", "selector", "matchLabels")
		if err != nil {
			return fmt.Errorf("%s %s: %w", w.GetKind(), w.GetName(), err)
		}
		options := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})}
		if len(labels) == 0 {
			options = metav1.ListOptions{}
		}
		err = r.cluster.EachSelected(ctx, podType, w.GetNamespace(), options, func(pod *unstructured.Unstructured) error {
			if !slices.ContainsFunc(r.state.Pods, func(other *unstructured.Unstructured) bool { return other.GetUID() == pod.GetUID() }) {
				r.state.Pods = append(r.state.Pods, pod)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readAccounts reads what has the name of an operator and would be in the way of another one.
func (r reader) readAccounts(ctx context.Context) error {
	for _, operator := range r.state.Operators() {
		for _, gvr := range accountTypes {
			object, err := r.cluster.Dynamic.Resource(gvr).Namespace(operator.Namespace).Get(ctx, operator.Name(), metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return err
			default:
				r.state.Accounts = append(r.state.Accounts, object)
			}
		}
	}
	return nil
}

// readCredentials looks at the Secrets that SubOperatorConfigs name. Of their content, it looks whether a key is one.
func (r reader) readCredentials(ctx context.Context) error {
	seen := map[adopt.Credential]bool{}
	for _, object := range r.state.Objects["suboperatorconfigs."+adopt.Group] {
		soc := &v2beta2.SubOperatorConfig{}
		spec := map[string]any{"spec": object.Object["spec"]}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, soc); err != nil {
			continue // The plan says what is wrong with it.
		}
		for _, m := range soc.Spec.Mapping {
			if m.ZosEndpoints == nil {
				continue
			}
			for _, e := range *m.ZosEndpoints {
				credential := adopt.Credential{Namespace: object.GetNamespace(), Name: e.CredentialName}
				if e.CredentialName == "" || seen[credential] {
					continue
				}
				seen[credential] = true
				secret, err := r.cluster.Core.Secrets(credential.Namespace).Get(ctx, credential.Name, metav1.GetOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return err
				}
				credential.Exists = err == nil
				credential.Usable = credential.Exists && isUsable(secret)
				r.state.Credentials = append(r.state.Credentials, credential)
			}
		}
	}
	return nil
}

// isUsable reports whether a Secret is a credential, and not one that the product may have encrypted: that has no marks, and no key.
func isUsable(secret *corev1.Secret) bool {
	isMarked := secret.Type == corev1.SecretTypeSSHAuth || secret.Labels[endpoint.LabelCredential] == "true"
	return isMarked || endpoint.IsCredential(secret) && bytes.HasPrefix(bytes.TrimSpace(endpoint.PrivateKey(secret)), []byte("-----BEGIN "))
}

func typedDefinition(object *unstructured.Unstructured) (*apiextensionsv1.CustomResourceDefinition, error) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, definition); err != nil {
		return nil, fmt.Errorf("CRD %s: %w", object.GetName(), err)
	}
	return definition, nil
}
