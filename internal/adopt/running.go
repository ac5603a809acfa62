package adopt

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/render"
)

// Labels of the pod that has the uploaded archives, by which IBM's SDK finds it.
const (
	labelComponent   = "component"
	componentManager = "manager"
)

// Names of the product's workloads, as in the example output of its must-gather script: its operator, which makes a manager for each
// ZosCloudBroker.
const (
	productOperator = "ibm-zoscb-operator"
	productManager  = "ibm-zoscb-manager-"
)

// labelOLMOwner is on what the Operator Lifecycle Manager makes of a ClusterServiceVersion, and names it.
const labelOLMOwner = "olm.owner"

// runningManagers returns a problem for each workload of the product that runs and would fight over every object.
func (s State) runningManagers() []string {
	var problems []string
	for _, w := range s.Workloads {
		if s.isProductManager(w) && replicas(w) != 0 {
			problems = append(problems, fmt.Sprintf("%s runs and manages the same objects: stop it, and run this again: %s", title(w), s.stop(w)))
		}
	}
	return problems
}

// isProductManager reports whether a workload is the manager of the product, or what makes it.
func (s State) isProductManager(w *unstructured.Unstructured) bool {
	labels := podLabels(w)
	if isOwnManager(w) {
		return false
	}
	if w.GetName() == productOperator || strings.HasPrefix(w.GetName(), productManager) {
		return true
	}
	return labels[labelComponent] == componentManager && slices.Contains(s.homes(), w.GetNamespace())
}

// isOwnManager reports whether a workload is a manager of Collection Operator.
func isOwnManager(w *unstructured.Unstructured) bool {
	labels := podLabels(w)
	return labels[render.ManagerLabel] == render.ManagerLabelValue && labels[labelComponent] == componentManager
}

// homes are the namespaces that have settings of the product or collections.
func (s State) homes() []string {
	var names []string
	for _, of := range []string{brokers, collections} {
		for _, o := range s.Objects[of] {
			names = append(names, o.GetNamespace())
		}
	}
	return names
}

// stop returns the command that stops a workload. The Operator Lifecycle Manager writes Deployments from their ClusterServiceVersion.
func (s State) stop(w *unstructured.Unstructured) string {
	owner := w.GetLabels()[labelOLMOwner]
	for _, csv := range s.Packages {
		if csv.GetKind() != "ClusterServiceVersion" || csv.GetNamespace() != w.GetNamespace() || csv.GetName() != owner {
			continue
		}
		deployments, _, _ := unstructured.NestedSlice(csv.Object, "spec", "install", "spec", "deployments")
		for i, deployment := range deployments {
			if fields, ok := deployment.(map[string]any); ok && fields["name"] == w.GetName() {
				return fmt.Sprintf(`kubectl patch csv %s -n %s --type=json -p '[{"op":"add","path":"/spec/install/spec/deployments/%d/spec/replicas","value":0}]'`,
					csv.GetName(), csv.GetNamespace(), i)
			}
		}
	}
	return fmt.Sprintf("kubectl scale %s %s -n %s --replicas=0", strings.ToLower(w.GetKind()), w.GetName(), w.GetNamespace())
}

// replicas is how many pods a workload asks for.
func replicas(w *unstructured.Unstructured) int64 {
	count, found, err := unstructured.NestedInt64(w.Object, "spec", "replicas")
	if err != nil || !found {
		return 1
	}
	return count
}

func podLabels(w *unstructured.Unstructured) map[string]string {
	labels, _, _ := unstructured.NestedStringMap(w.Object, "spec", "template", "metadata", "labels")
	return labels
}

// archiveSource says from where an archive can be copied while the product runs.
func (s State) archiveSource(oc *unstructured.Unstructured) string {
	path, _, _ := unstructured.NestedString(oc.Object, "status", "config", "collectionPath")
	if path == "" {
		path = "/opt/collections/suboperator/<name>/<version>/<file>.tar.gz"
	}
	return fmt.Sprintf("kubectl cp %s/<pod with the label component=manager>:%s <folder>/%s", oc.GetNamespace(), path, path[strings.LastIndex(path, "/")+1:])
}
