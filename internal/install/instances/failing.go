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
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Runs describe the playbooks of custom resources in a namespace.
type Runs struct {
	// Failing describes the custom resources that began to fail with a version of their collection, or is "".
	Failing string
	// Running are the names of those whose first playbooks with the version run, or "". Those that run again and again do not count.
	Running string
}

// DescribeRuns describes the custom resources of the given kinds in a namespace by their number and the names of the first ones. It reads
// instanceLimit of them at a time.
func (f *Finder) DescribeRuns(ctx context.Context, group schema.GroupVersion, kinds []string, namespace, version string) (Runs, error) {
	var failing, running []string
	for _, kind := range kinds {
		err := f.eachStatus(ctx, group.WithKind(kind), namespace, func(name string, fields map[string]any) {
			if runstatus.Regressed(fields, version) {
				failing = append(failing, name)
			}
			if runstatus.RunsFirst(fields, version) {
				running = append(running, name)
			}
		})
		if err != nil {
			return Runs{}, err
		}
	}
	slices.Sort(failing)
	slices.Sort(running)
	runs := Runs{Running: status.JoinNames(running)}
	switch len(failing) {
	case 0:
	case 1:
		runs.Failing = fmt.Sprintf("%s began to fail with version %s", failing[0], version)
	default:
		runs.Failing = fmt.Sprintf("%d custom resources began to fail with version %s: %s", len(failing), version, status.JoinNames(failing))
	}
	return runs, nil
}

// eachStatus calls a function with the name and the status of each custom resource that has one.
func (f *Finder) eachStatus(ctx context.Context, gvk schema.GroupVersionKind, namespace string, call func(name string, fields map[string]any)) error {
	page := ""
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		err := f.Reader.List(ctx, list, client.InNamespace(namespace), client.Limit(instanceLimit), client.Continue(page))
		if apierrors.IsForbidden(err) {
			return status.Waiting(v2beta2.ReasonPermissionsNotGranted, intervals.Missing,
				"the manager may not list %s in namespace %s: bind a ClusterRole with all verbs on all resources of API group %s to the manager's ServiceAccount",
				gvk.Kind, namespace, gvk.Group)
		}
		if err != nil {
			return fmt.Errorf("listing %s in namespace %q: %w", gvk.Kind, namespace, err)
		}
		for i := range list.Items {
			content, _, _ := unstructured.NestedFieldNoCopy(list.Items[i].Object, "status")
			if fields, ok := content.(map[string]any); ok {
				call(instanceName(list.Items[i]), fields)
			}
		}
		if page = list.GetContinue(); page == "" {
			return nil
		}
	}
}
