package adopt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/restmapper"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/config"
	"github.com/collection-operator/collection-operator/internal/cli/author"
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

// read reads what adoption is about.
func (a *adoption) read(ctx context.Context) error {
	groups, err := restmapper.GetAPIGroupResources(a.cluster.Discovery)
	if err != nil {
		return err
	}
	a.mapper = restmapper.NewDiscoveryRESTMapper(groups)
	a.state = adopt.State{Objects: map[string][]*unstructured.Unstructured{}, Finalizers: a.finalizers, DropFields: a.dropFields}
	if a.state.Own, err = config.Definitions(); err != nil {
		return err
	}
	if err := a.readObjects(ctx); err != nil {
		return err
	}
	for into, types := range map[*[]*unstructured.Unstructured][]schema.GroupVersionResource{
		&a.state.Workloads: workloadTypes, &a.state.Packages: packageTypes, &a.state.Webhooks: webhookTypes,
	} {
		for _, gvr := range types {
			objects, err := a.list(ctx, gvr)
			if err != nil && !apierrors.IsNotFound(err) { // Without OLM, there are no types of it.
				return err
			}
			*into = append(*into, objects...)
		}
	}
	for _, read := range []func(context.Context) error{a.readNamespaces, a.readPods, a.readAccounts} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	if err := a.readCredentials(ctx); err != nil {
		return err
	}
	return errors.Join(a.readFormer(ctx), a.readArchives())
}

// readFormer reads the finalizers that were named to a former attempt and, if it was interrupted, what it has begun to remove.
func (a *adoption) readFormer(ctx context.Context) error {
	a.state.Proven = map[types.UID]bool{}
	if a.backup == "" {
		return nil
	}
	former, err := a.load(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	a.state.Finalizers = slices.Concat(a.state.Finalizers, former.Finalizers)
	if former.Restored {
		return nil
	}
	a.state.HasBackup = !former.Finished
	for _, o := range former.Removed {
		a.state.Proven[o.GetUID()] = true
	}
	return nil
}

// readObjects reads the product's CRDs, and their custom resources.
func (a *adoption) readObjects(ctx context.Context) error {
	definitions, err := a.list(ctx, kube.DefinitionType)
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
		a.state.Definitions = append(a.state.Definitions, definition)
		version := adopt.VersionToRead(definition, a.state.Own)
		gvr := schema.GroupVersionResource{Group: definition.Spec.Group, Version: version, Resource: definition.Spec.Names.Plural}
		if a.state.Objects[definition.Name], err = a.list(ctx, gvr); err != nil {
			return fmt.Errorf("%s: %w", definition.Name, err)
		}
	}
	return nil
}

// list returns all objects of a type. Of ClusterServiceVersions, copies are left out; the label means nothing on other objects, on which
// anybody may have set it.
func (a *adoption) list(ctx context.Context, gvr schema.GroupVersionResource) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	err := a.cluster.Each(ctx, gvr, metav1.NamespaceAll, func(o *unstructured.Unstructured) error {
		if _, copied := o.GetLabels()[labelCopied]; !copied || gvr.Resource != "clusterserviceversions" {
			all = append(all, o)
		}
		return nil
	})
	return all, err
}

// readNamespaces reads the namespaces that SubOperatorConfigs map.
func (a *adoption) readNamespaces(ctx context.Context) error {
	a.state.Namespaces = map[string]map[string]string{}
	for _, config := range a.state.Configs() {
		for _, name := range adopt.Mapped(config) {
			if _, known := a.state.Namespaces[name]; known {
				continue
			}
			namespace, err := a.cluster.Core.Namespaces().Get(ctx, name, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return err
			default:
				a.state.Namespaces[name] = namespace.Annotations
			}
		}
	}
	return nil
}

// readPods reads the pods of the managers of both products.
func (a *adoption) readPods(ctx context.Context) error {
	for _, w := range a.state.Managers() {
		labels, _, err := unstructured.NestedStringMap(w.Object, "spec", "selector", "matchLabels")
		if err != nil {
			return fmt.Errorf("%s %s: %w", w.GetKind(), w.GetName(), err)
		}
		options := metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels})}
		if len(labels) == 0 {
			options = metav1.ListOptions{}
		}
		err = a.cluster.EachSelected(ctx, podType, w.GetNamespace(), options, func(pod *unstructured.Unstructured) error {
			if !slices.ContainsFunc(a.state.Pods, func(other *unstructured.Unstructured) bool { return other.GetUID() == pod.GetUID() }) {
				a.state.Pods = append(a.state.Pods, pod)
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
func (a *adoption) readAccounts(ctx context.Context) error {
	for _, operator := range a.state.Operators() {
		for _, gvr := range accountTypes {
			object, err := a.cluster.Dynamic.Resource(gvr).Namespace(operator.Namespace).Get(ctx, operator.Name(), metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return err
			default:
				a.state.Accounts = append(a.state.Accounts, object)
			}
		}
	}
	return nil
}

// readCredentials looks at the Secrets that SubOperatorConfigs name. Of their content, it looks whether a key is one.
func (a *adoption) readCredentials(ctx context.Context) error {
	seen := map[adopt.Credential]bool{}
	for _, object := range a.state.Objects["suboperatorconfigs."+adopt.Group] {
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
				secret, err := a.cluster.Core.Secrets(credential.Namespace).Get(ctx, credential.Name, metav1.GetOptions{})
				if err != nil && !apierrors.IsNotFound(err) {
					return err
				}
				credential.Exists = err == nil
				credential.Usable = credential.Exists && isUsable(secret)
				a.state.Credentials = append(a.state.Credentials, credential)
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

// readArchives reads the archives that the user has.
func (a *adoption) readArchives() error {
	if a.archives == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(a.archives, "*.tar.gz"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		source, err := author.LoadSource(file)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file, err))
			continue
		}
		a.state.Archives = append(a.state.Archives, adopt.Archive{
			File: file, Digest: source.Digest, Collection: source.Collection,
		})
	}
	return errors.Join(errs...)
}
