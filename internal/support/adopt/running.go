package adopt

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
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

// ActiveProduct returns a problem for all of the product that is active beside Collection Operator, or becomes so by itself.
func (s State) ActiveProduct() []string {
	return append(s.ProductManagers(), automaticUpgrades(s)...)
}

// ProductManagers returns a problem for each workload of the product that runs, or whose pods have not ended, and would fight over every
// object.
func (s State) ProductManagers() []string {
	var problems []string
	for _, w := range s.Workloads {
		if !isProductManager(s, w) {
			continue
		}
		for _, problem := range active(s, w) {
			if !isNamedAsProduct(w) {
				problem += " (it counts as the product's manager by the label component=manager of its pods)"
			}
			problems = append(problems, problem)
		}
	}
	return problems
}

// OwnManagers returns a problem for each manager of Collection Operator that runs, or whose pods have not ended.
func (s State) OwnManagers() []string {
	var problems []string
	for _, w := range s.Workloads {
		if isOwnManager(w) {
			problems = append(problems, active(s, w)...)
		}
	}
	return problems
}

// active returns why a manager is active: it runs, or its pods have not ended.
func active(s State, w *unstructured.Unstructured) []string {
	if replicas(w) != 0 {
		return []string{fmt.Sprintf("%s runs and manages the same objects: stop it, and run this again: %s", title(w), stop(s, w))}
	}
	var problems []string
	for _, pod := range podsOf(s, w) {
		problems = append(problems, fmt.Sprintf("%s of %s has not ended: wait for it, and run this again: kubectl wait --for=delete pod/%s -n %s --timeout=5m",
			title(pod), title(w), pod.GetName(), pod.GetNamespace()))
	}
	return problems
}

// maxGeneratedName is how many characters of the name of a ReplicaSet are in those of its pods.
const maxGeneratedName = 58

// podsOf are the pods of a workload that have not ended.
func podsOf(s State, w *unstructured.Unstructured) []*unstructured.Unstructured {
	selector, _, _ := unstructured.NestedStringMap(w.Object, "spec", "selector", "matchLabels")
	name := w.GetName() + "-"
	name = name[:min(len(name), maxGeneratedName)]
	var pods []*unstructured.Unstructured
	for _, pod := range s.Pods {
		phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
		labels := pod.GetLabels()
		others := slices.DeleteFunc(slices.Collect(maps.Keys(selector)), func(name string) bool { return labels[name] == selector[name] })
		if pod.GetNamespace() == w.GetNamespace() && strings.HasPrefix(pod.GetName(), name) && len(others) == 0 &&
			phase != "Succeeded" && phase != "Failed" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Managers are the workloads of managers of both products.
func (s State) Managers() []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(s.Workloads), func(w *unstructured.Unstructured) bool { return !isOwnManager(w) && !isProductManager(s, w) })
}

// automaticUpgrades returns a problem for each Subscription of the product that starts it again by itself: an upgrade makes a new
// ClusterServiceVersion, and with it a Deployment that runs.
func automaticUpgrades(s State) []string {
	var problems []string
	for _, o := range s.Packages {
		approval, _, _ := unstructured.NestedString(o.Object, "spec", "installPlanApproval")
		if o.GetKind() == "Subscription" && approval != "Manual" && slices.ContainsFunc(versionsOf(o), isProduct) {
			problems = append(problems, fmt.Sprintf(`%s upgrades the product by itself, which starts it again: kubectl patch subscriptions.operators.coreos.com %s -n %s --type=merge -p '{"spec":{"installPlanApproval":"Manual"}}'`,
				title(o), o.GetName(), o.GetNamespace()))
		}
	}
	return problems
}

// isProductManager reports whether a workload is the manager of the product, or what makes it.
func isProductManager(s State, w *unstructured.Unstructured) bool {
	labels := podLabels(w)
	if isOwnManager(w) {
		return false
	}
	return isNamedAsProduct(w) || labels[labelComponent] == componentManager && slices.Contains(homes(s), w.GetNamespace())
}

// isNamedAsProduct reports whether a workload has the name of the product's operator, or of one of its managers.
func isNamedAsProduct(w *unstructured.Unstructured) bool {
	return w.GetName() == productOperator || strings.HasPrefix(w.GetName(), productManager)
}

// isOwnManager reports whether a workload is a manager of Collection Operator, whose leader gives its pod the label component by itself.
func isOwnManager(w *unstructured.Unstructured) bool {
	return podLabels(w)[v2beta2.ManagerLabel] == v2beta2.ManagerLabelValue
}

// homes are the namespaces that have settings of the product or collections.
func homes(s State) []string {
	var names []string
	for _, of := range []string{brokers, collections} {
		for _, o := range s.Objects[of] {
			names = append(names, o.GetNamespace())
		}
	}
	return names
}

// stop returns the command that stops a workload. The Operator Lifecycle Manager writes Deployments from their ClusterServiceVersion.
func stop(s State, w *unstructured.Unstructured) string {
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
func archiveSource(oc *unstructured.Unstructured) string {
	path, _, _ := unstructured.NestedString(oc.Object, "status", "config", "collectionPath")
	if path == "" {
		path = "/opt/collections/suboperator/<name>/<version>/<file>.tar.gz"
	}
	from, to := path, "<folder>/"+path[strings.LastIndex(path, "/")+1:]
	if !plainWord.MatchString(path) {
		from, to = shellWord(from), shellWord(to)
	}
	return fmt.Sprintf("kubectl cp %s/<pod with the label component=manager>:%s %s", oc.GetNamespace(), from, to)
}

// versionsOf are the ClusterServiceVersions that a Subscription names.
func versionsOf(subscription *unstructured.Unstructured) []string {
	var names []string
	for _, path := range [][]string{{"status", "installedCSV"}, {"status", "currentCSV"}, {"spec", "startingCSV"}} {
		if name, _, _ := unstructured.NestedString(subscription.Object, path...); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// isProduct reports whether a ClusterServiceVersion is that of the product itself, as IBM's editor extension knows it.
func isProduct(csv string) bool { return strings.HasPrefix(csv, "ibm-zoscb.v") }

// isSubscribed reports whether a ClusterServiceVersion is that of a Subscription among objects.
func isSubscribed(version *unstructured.Unstructured, objects []*unstructured.Unstructured) bool {
	return slices.ContainsFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Subscription" && o.GetNamespace() == version.GetNamespace() && slices.Contains(versionsOf(o), version.GetName())
	})
}
