package instances

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/intervals"
	"github.com/collection-operator/collection-operator/internal/runstatus"
	"github.com/collection-operator/collection-operator/internal/status"
)

// DescribeFailing describes the custom resources of the given kinds in a namespace that began to fail with a version of their
// collection: their number, and the names of the first ones. It returns "" if there are none. It reads instanceLimit of them at a time.
func (f *Finder) DescribeFailing(ctx context.Context, group schema.GroupVersion, kinds []string, namespace, version string) (string, error) {
	var names []string
	for _, kind := range kinds {
		failing, err := f.failing(ctx, group.WithKind(kind), namespace, version)
		if err != nil {
			return "", err
		}
		names = append(names, failing...)
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		return "", nil
	case 1:
		return fmt.Sprintf("%s began to fail with version %s", names[0], version), nil
	}
	return fmt.Sprintf("%d custom resources began to fail with version %s: %s", len(names), version, status.JoinNames(names)), nil
}

func (f *Finder) failing(ctx context.Context, gvk schema.GroupVersionKind, namespace, version string) ([]string, error) {
	var names []string
	page := ""
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := f.Reader.List(ctx, list, client.InNamespace(namespace), client.Limit(instanceLimit), client.Continue(page))
		if apierrors.IsForbidden(err) {
			return nil, status.Waiting(v2beta2.ReasonPermissionsNotGranted, intervals.Missing,
				"the manager may not list %s in namespace %s: bind a ClusterRole with all verbs on all resources of API group %s to the manager's ServiceAccount",
				gvk.Kind, namespace, gvk.Group)
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s in namespace %q: %w", gvk.Kind, namespace, err)
		}
		for i := range list.Items {
			content, _, _ := unstructured.NestedFieldNoCopy(list.Items[i].Object, "status")
			if fields, ok := content.(map[string]any); ok && runstatus.BeganToFail(fields, version) {
				names = append(names, instanceName(list.Items[i]))
			}
		}
		if page = list.GetContinue(); page == "" {
			return names, nil
		}
	}
}
