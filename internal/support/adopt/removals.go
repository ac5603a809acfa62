package adopt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// removalOrder is that in which objects are removed. They are made again in the opposite order.
var removalOrder = []string{
	"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "Subscription", "ClusterServiceVersion", "Deployment", "StatefulSet",
	"RoleBinding", "Role", "ServiceAccount",
}

// planRemovals plans the removal of what is in the way of Collection Operator: operators that it makes under the same name, and webhooks
// that answer no more. What only has such a name is not removed: the administrator says whose it is.
func (p *Plan) planRemovals(s State) {
	for _, operator := range s.Operators() {
		parts, unclear := partsOf(s, operator)
		p.Remove = append(p.Remove, parts...)
		for _, o := range unclear {
			p.Problems = append(p.Problems, whoseIsIt(o, operator))
		}
	}
	for _, webhook := range s.Webhooks {
		of, others := groupsOf(webhook)
		switch {
		case !of:
		case others:
			p.Problems = append(p.Problems, fmt.Sprintf("%s calls the product for kinds of %s, and is for other kinds too: remove its rules for %s", title(webhook), Group, Group))
		case callsProduct(s, webhook):
			p.Remove = append(p.Remove, webhook)
		default:
			p.Problems = append(p.Problems, fmt.Sprintf("%s is called for kinds of %s, and not at a Service beside the product's manager: if it is the product's, kubectl delete %s %s; "+
				"if it is not, exempt Collection Operator or remove its rules for %s meanwhile", title(webhook), Group, strings.ToLower(webhook.GetKind()), webhook.GetName(), Group))
		}
	}
	slices.SortStableFunc(p.Remove, inRemovalOrder)
	for _, o := range p.Remove {
		if o.GetKind() == "ClusterServiceVersion" && !isSubscribed(o, p.Remove) {
			p.Notices = append(p.Notices, fmt.Sprintf("%s has no Subscription: --back makes it again, and not the Roles and RoleBindings that were made for it. To go back, install it anew", title(o)))
		}
	}
}

// notePackages says that the Operator Lifecycle Manager lets no other ClusterServiceVersion have the kinds of the product's.
func (p *Plan) notePackages(s State) {
	for _, o := range s.Packages {
		if o.GetKind() == "ClusterServiceVersion" && isProduct(o.GetName()) {
			p.Notices = append(p.Notices, fmt.Sprintf("%s owns the same kinds: the Operator Lifecycle Manager does not install Collection Operator beside it. Use make deploy or Helm; the way back needs it", title(o)))
		}
	}
}

// whoseIsIt asks the administrator about an object that only has the name of an operator of the product, or says that it is not its.
func whoseIsIt(o *unstructured.Unstructured, operator Operator) string {
	kind := strings.ToLower(o.GetKind())
	if o.GetAnnotations()[render.AnnotationOwner] != "" {
		return fmt.Sprintf("%s has the name of the operator of collection %s, and the annotation %s of Collection Operator. If --back was interrupted, run it again. "+
			"If it is the product's, kubectl annotate %s %s -n %s %s-", title(o), operator.ID, render.AnnotationOwner, kind, o.GetName(), o.GetNamespace(), render.AnnotationOwner)
	}
	return fmt.Sprintf("%s has the name of the operator of collection %s, and nothing else says that it is the product's. If it is, kubectl label %s %s -n %s %s=%s; "+
		"if it is not, give it another name: Collection Operator needs this one", title(o), operator.ID, kind, o.GetName(), o.GetNamespace(), render.LabelName, operator.ID.Name)
}

// planOwners refuses to remove the owner of a custom resource: the garbage collector would delete that too. What --finish says to remove
// counts as well.
func (p *Plan) planOwners(s State) {
	for _, o := range p.Kept {
		for _, owner := range o.GetOwnerReferences() {
			isRemoved := func(removed *unstructured.Unstructured) bool { return removed.GetUID() == owner.UID }
			if slices.ContainsFunc(p.Remove, isRemoved) || slices.ContainsFunc(leftovers(s), isRemoved) {
				p.Problems = append(p.Problems, fmt.Sprintf("%s is owned by %s %s, which does not stay: it would be deleted with it. Remove the reference from metadata.ownerReferences: kubectl edit %s.%s %s -n %s",
					title(o), owner.Kind, owner.Name, strings.ToLower(o.GetKind()), o.GroupVersionKind().Group, o.GetName(), o.GetNamespace()))
			}
		}
	}
}

// inRemovalOrder compares objects by when they are removed. Kinds that are not in removalOrder come last.
func inRemovalOrder(a, b *unstructured.Unstructured) int {
	rank := func(o *unstructured.Unstructured) int {
		if at := slices.Index(removalOrder, o.GetKind()); at >= 0 {
			return at
		}
		return len(removalOrder)
	}
	return rank(a) - rank(b)
}

// partsOf are the objects of an operator of the product, and those of which only the name says so. What the Operator Lifecycle Manager made
// of its ClusterServiceVersion goes with that; its workloads are among the parts, since their pods must end.
func partsOf(s State, operator Operator) (parts, unclear []*unstructured.Unstructured) {
	found := evidenceOf(s, operator)
	objects := slices.Concat(s.Packages, s.Workloads, s.Accounts)
	slices.SortStableFunc(objects, inRemovalOrder) // A Subscription is known by its ClusterServiceVersion, an account by its workload.
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return isSubscription(a) - isSubscription(b) })
	for _, o := range objects {
		if o.GetNamespace() != operator.Namespace {
			continue
		}
		if o.GetAnnotations()[render.AnnotationOwner] != "" {
			if partOf(o, operator.Name()) {
				unclear = append(unclear, o)
			}
			continue
		}
		made := found.installed[o.GetLabels()[labelOLMOwner]]
		switch {
		case made && !isWorkload(o):
		case made, s.Proven[o.GetUID()], partOf(o, operator.Name()) && found.proves(o, operator.ID):
			found.add(o)
			parts = append(parts, o)
		case partOf(o, operator.Name()):
			unclear = append(unclear, o)
		}
	}
	slices.SortStableFunc(parts, inRemovalOrder)
	return parts, unclear
}

func isSubscription(o *unstructured.Unstructured) int {
	if o.GetKind() == "Subscription" {
		return 1
	}
	return 0
}

func isWorkload(o *unstructured.Unstructured) bool {
	return o.GetKind() == "Deployment" || o.GetKind() == "StatefulSet"
}

// evidence says which objects are the product's.
type evidence struct {
	// owners are OperatorCollections and SubOperatorConfigs of the collection, and objects that were found.
	owners map[types.UID]bool
	// versions are names of ClusterServiceVersions, installed are those that were found, and accounts the ServiceAccounts of workloads.
	versions, installed, accounts map[string]bool
}

// evidenceOf is what the OperatorCollections and SubOperatorConfigs say of an operator.
func evidenceOf(s State, operator Operator) evidence {
	found := evidence{owners: map[types.UID]bool{}, versions: map[string]bool{}, installed: map[string]bool{}, accounts: map[string]bool{}}
	for _, oc := range s.Objects[collections] {
		if id, _ := identify(oc); id == operator.ID {
			found.owners[oc.GetUID()] = true
		}
	}
	for _, config := range s.Objects[configs] {
		if s.idOf(config) != operator.ID || !slices.Contains(Mapped(config), operator.Namespace) || !s.allows(operator.Namespace, config.GetNamespace()) {
			continue
		}
		found.owners[config.GetUID()] = true
		name, _, _ := unstructured.NestedString(config.Object, "status", "clusterserviceversion", "metadata", "name")
		if strings.HasPrefix(name, operator.Name()+".v") {
			found.versions[name] = true
		}
	}
	delete(found.owners, "")
	return found
}

// proves reports whether an object with the name of an operator is the product's: it has the label that the product gives to what belongs
// to a collection, or one that is has it.
func (e evidence) proves(o *unstructured.Unstructured, id model.ID) bool {
	if o.GetLabels()[render.LabelName] == id.Name || isWorkload(o) && podLabels(o)[render.LabelName] == id.Name {
		return true
	}
	if slices.ContainsFunc(o.GetOwnerReferences(), func(owner metav1.OwnerReference) bool { return e.owners[owner.UID] }) {
		return true
	}
	switch o.GetKind() {
	case "ClusterServiceVersion":
		return e.versions[o.GetName()]
	case "Subscription":
		return slices.ContainsFunc(versionsOf(o), func(name string) bool { return e.versions[name] || e.installed[name] })
	case "ServiceAccount":
		return e.accounts[o.GetName()]
	}
	return false
}

// add lets an object that is the product's prove others.
func (e evidence) add(o *unstructured.Unstructured) {
	if o.GetUID() != "" {
		e.owners[o.GetUID()] = true
	}
	if o.GetKind() == "ClusterServiceVersion" {
		e.installed[o.GetName()] = true
	}
	if account, _, _ := unstructured.NestedString(o.Object, "spec", "template", "spec", "serviceAccountName"); isWorkload(o) && account != "" {
		e.accounts[account] = true
	}
}

func partOf(o *unstructured.Unstructured, operator string) bool {
	switch o.GetKind() {
	case "ClusterServiceVersion":
		return strings.HasPrefix(o.GetName(), operator+".v")
	case "Subscription":
		name, _, _ := unstructured.NestedString(o.Object, "spec", "name")
		return name == operator || slices.ContainsFunc(versionsOf(o), func(version string) bool { return strings.HasPrefix(version, operator+".v") })
	}
	return o.GetName() == operator
}

// callsProduct reports whether all webhooks of a configuration are Services in the namespaces of the product's managers.
func callsProduct(s State, configuration *unstructured.Unstructured) bool {
	webhooks, _, _ := unstructured.NestedSlice(configuration.Object, "webhooks")
	return !slices.ContainsFunc(webhooks, func(webhook any) bool {
		fields, _ := webhook.(map[string]any)
		namespace, _, _ := unstructured.NestedString(fields, "clientConfig", "service", "namespace")
		return !slices.ContainsFunc(s.Workloads, func(w *unstructured.Unstructured) bool {
			return w.GetNamespace() == namespace && isProductManager(s, w)
		})
	})
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
	for _, config := range s.Objects[configs] {
		if kind, _, _ := unstructured.NestedString(config.Object, "spec", "credentialType"); kind == "personal" {
			p.Notices = append(p.Notices, fmt.Sprintf("%s has personal credentials: its resources must name their Secret in the annotation zoscb.ibm.com/credential before their next run", title(config)))
		}
	}
	for _, c := range s.Credentials {
		switch {
		case !c.Exists:
			p.Notices = append(p.Notices, fmt.Sprintf("Secret %s/%s, which a SubOperatorConfig names, does not exist: playbooks wait for it", c.Namespace, c.Name))
		case !c.Usable:
			p.Notices = append(p.Notices, fmt.Sprintf("Secret %s/%s is neither of type kubernetes.io/ssh-auth nor labelled as a credential, and has no private key in ssh_key: playbooks cannot use it. "+
				"If it has another credential that is not encrypted by the product, label it with zoscb.ibm.com/credential=true; otherwise make a new one: kubectl collection credential %s -n %s --user <user> --key <file> --apply",
				c.Namespace, c.Name, c.Name, c.Namespace))
		}
	}
}

// leftovers are the manager of the product and its packages, in the order in which they are to be removed. What only has a label of the
// product, as tenants may set it, is not among them.
func leftovers(s State) []*unstructured.Unstructured {
	var left []*unstructured.Unstructured
	for _, o := range s.Packages {
		if isProduct(o.GetName()) && o.GetKind() == "ClusterServiceVersion" || slices.ContainsFunc(versionsOf(o), isProduct) {
			left = append(left, o)
		}
	}
	for _, w := range s.Workloads {
		if isNamedAsProduct(w) && !isOwnManager(w) && w.GetLabels()[labelOLMOwner] == "" {
			left = append(left, w)
		}
	}
	slices.SortFunc(left, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(inRemovalOrder(a, b), strings.Compare(title(a), title(b)))
	})
	return left
}

// Leftovers are the commands that remove what the product leaves in a cluster, and which no one but an administrator can judge.
func Leftovers(s State) []string {
	var commands []string
	for _, o := range leftovers(s) {
		resource := strings.ToLower(o.GetKind())
		if resource == "subscription" { // Other products have a kind of that name.
			resource = "subscriptions.operators.coreos.com"
		}
		commands = append(commands, fmt.Sprintf("kubectl delete %s %s -n %s", resource, o.GetName(), o.GetNamespace()))
	}
	return commands
}
