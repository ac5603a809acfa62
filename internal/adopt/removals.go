package adopt

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/render"
)

// removalOrder is that in which objects are removed. They are made again in the opposite order.
var removalOrder = []string{
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "Subscription", "ClusterServiceVersion", "Deployment", "StatefulSet",
	"RoleBinding", "Role", "ServiceAccount",
}

// planRemovals plans the removal of what is in the way of Collection Operator: operators that it makes under the same name, and webhooks
// that answer no more.
func (p *Plan) planRemovals(s State) {
	for _, operator := range s.Operators() {
		p.Remove = append(p.Remove, s.partsOf(operator)...)
	}
	for _, webhook := range s.Webhooks {
		of, others := groupsOf(webhook)
		if of && others {
			p.Problems = append(p.Problems, fmt.Sprintf("%s calls the product for kinds of %s, and is for other kinds too: remove its rules for %s", title(webhook), Group, Group))
		}
		if of && !others {
			p.Remove = append(p.Remove, webhook)
		}
	}
	slices.SortStableFunc(p.Remove, func(a, b *unstructured.Unstructured) int {
		return slices.Index(removalOrder, a.GetKind()) - slices.Index(removalOrder, b.GetKind())
	})
}

// partsOf are the objects of an operator of the product. What the Operator Lifecycle Manager made of its ClusterServiceVersion goes with
// that.
func (s State) partsOf(operator Operator) []*unstructured.Unstructured {
	var parts []*unstructured.Unstructured
	for _, o := range slices.Concat(s.Packages, s.Workloads, s.Accounts) {
		if o.GetNamespace() != operator.Namespace || o.GetAnnotations()[render.AnnotationOwner] != "" || o.GetLabels()[labelOLMOwner] != "" {
			continue
		}
		if partOf(o, operator.Name()) {
			parts = append(parts, o)
		}
	}
	return parts
}

func partOf(o *unstructured.Unstructured, operator string) bool {
	switch o.GetKind() {
	case "ClusterServiceVersion":
		return strings.HasPrefix(o.GetName(), operator+".v")
	case "Subscription":
		for _, path := range [][]string{{"status", "installedCSV"}, {"status", "currentCSV"}, {"spec", "startingCSV"}} {
			if name, _, _ := unstructured.NestedString(o.Object, path...); strings.HasPrefix(name, operator+".v") {
				return true
			}
		}
		name, _, _ := unstructured.NestedString(o.Object, "spec", "name")
		return name == operator
	}
	return o.GetName() == operator
}

// groupsOf reports whether a webhook configuration has rules for the API groups of the product, and whether it has others.
func groupsOf(configuration *unstructured.Unstructured) (of, others bool) {
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	for _, webhook := range webhooks {
		fields, _ := webhook.(map[string]any)
		rules, _, _ := unstructured.NestedSlice(fields, "rules")
		for _, rule := range rules {
			fields, _ := rule.(map[string]any)
			groups, _, _ := unstructured.NestedStringSlice(fields, "apiGroups")
			for _, group := range groups {
				of = of || IsGroup(group)
				others = others || !IsGroup(group)
			}
		}
	}
	return of, others
}

// noteCredentials names the Secrets that no operator of Collection Operator sends to a z/OS system.
func (p *Plan) noteCredentials(s State) {
	for _, c := range s.Credentials {
		switch {
		case !c.Exists:
			p.Notices = append(p.Notices, fmt.Sprintf("Secret %s/%s, which a SubOperatorConfig names, does not exist: playbooks wait for it", c.Namespace, c.Name))
		case !c.Usable:
			p.Notices = append(p.Notices, fmt.Sprintf("Secret %s/%s is neither of type kubernetes.io/ssh-auth nor labelled as a credential, so playbooks do not get it. "+
				"If it has an SSH key that is not encrypted by the product, label it with zoscb.ibm.com/credential=true; otherwise make a new one: kubectl collection credential %s -n %s --user <user> --key <file> --apply",
				c.Namespace, c.Name, c.Name, c.Namespace))
		}
	}
}

// Leftovers are the commands that remove what the product leaves in a cluster, and which no one but an administrator can judge.
func Leftovers(s State) []string {
	var commands []string
	for _, w := range s.Workloads {
		if s.isProductManager(w) && w.GetLabels()[labelOLMOwner] == "" {
			commands = append(commands, fmt.Sprintf("kubectl delete %s %s -n %s", strings.ToLower(w.GetKind()), w.GetName(), w.GetNamespace()))
		}
	}
	for _, o := range s.Packages {
		name, _, _ := unstructured.NestedString(o.Object, "status", "installedCSV")
		if isProduct(o.GetName()) && o.GetKind() == "ClusterServiceVersion" || isProduct(name) {
			commands = append(commands, fmt.Sprintf("kubectl delete %s %s -n %s", strings.ToLower(o.GetKind()), o.GetName(), o.GetNamespace()))
		}
	}
	slices.Sort(commands)
	return commands
}

// isProduct reports whether a ClusterServiceVersion is that of the product itself, as IBM's editor extension knows it.
func isProduct(csv string) bool { return strings.HasPrefix(csv, "ibm-zoscb.v") }

// VersionsMade are the ClusterServiceVersions of operators of Collection Operator: the Operator Lifecycle Manager made them for its
// Subscriptions, and keeps them without.
func (s State) VersionsMade(b *Backup) []*unstructured.Unstructured {
	var versions []*unstructured.Unstructured
	for _, operator := range s.Operators() {
		for _, o := range s.Packages {
			isSaved := slices.ContainsFunc(b.Removed, func(saved *unstructured.Unstructured) bool { return saved.GetUID() == o.GetUID() })
			if o.GetKind() == "ClusterServiceVersion" && o.GetNamespace() == operator.Namespace && partOf(o, operator.Name()) && !isSaved {
				versions = append(versions, o)
			}
		}
	}
	return versions
}
