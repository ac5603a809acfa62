package doctor

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// unlabelled is a Secret that custom resources name, and that lacks a label with which its owner lets operators read it.
type unlabelled struct {
	operators map[string]bool
	// user is the first resource that names it.
	user Ref
	// waits is true if the run of one of them waits for the label.
	waits bool
}

// checkLabels reports Secrets of custom resources without the label. Those that resources named before it was required are kept, so that
// their runs do not wait.
func checkLabels(d *diagnosis) {
	found := map[Ref]*unlabelled{}
	for i := range d.resources {
		r := &d.resources[i]
		installation, _ := d.installation(r)
		if installation == nil {
			continue
		}
		for _, name := range secretNames(d, r) {
			secret := secretRef(r.GetNamespace(), name)
			d.secretsOf[r.ref()] = append(d.secretsOf[r.ref()], secret)
			waits := r.status.Waiting != nil && r.status.Waiting.Reason == v2beta2.ReasonRuntimeObjectNotAllowed
			if !lacksLabel(d, secret, installation.OperatorName(), waits) {
				continue
			}
			if found[secret] == nil {
				found[secret] = &unlabelled{user: r.ref(), operators: map[string]bool{}}
			}
			found[secret].operators[installation.OperatorName()] = true
			found[secret].waits = found[secret].waits || waits
		}
	}
	for _, secret := range slices.SortedFunc(maps.Keys(found), compareRefs) {
		reportUnlabelled(d, secret, found[secret])
	}
}

// secretNames returns the names of the Secrets that a custom resource names.
func secretNames(d *diagnosis, r *resource) []string {
	kind := d.variables[NamespacedKind{r.GetNamespace(), r.GroupVersionKind().GroupKind()}]
	spec, _, _ := unstructured.NestedMap(r.Object, "spec")
	variables, _ := kind.Declared(spec)
	return kind.SecretNames(variables)
}

// lacksLabel reports whether a label would let an operator read a Secret. One that does not exist lacks it if a resource waits.
func lacksLabel(d *diagnosis, ref Ref, operator string, waits bool) bool {
	secret, isKnown := d.Secret(ref.Namespace, ref.Name)
	switch {
	case !isKnown || endpoint.IsOwnSecret(ref.Name):
		return false
	case secret == nil:
		return waits
	case secret.Type == string(corev1.SecretTypeServiceAccountToken), secret.Type == string(corev1.SecretTypeSSHAuth):
		return false
	}
	return secret.Labels[endpoint.LabelCredential] != "true" && !endpoint.IsRuntimeLabel(secret.Labels[v2beta2.LabelRuntime], operator)
}

// isOperator reports whether an operator of a namespace has a name.
func isOperator(d *diagnosis, namespace, name string) bool {
	for key := range d.installations {
		if key.namespace == namespace && key.OperatorName() == name {
			return true
		}
	}
	return false
}

func reportUnlabelled(d *diagnosis, secret Ref, u *unlabelled) {
	operators := slices.Sorted(maps.Keys(u.operators))
	value := operators[0]
	if len(operators) > 1 {
		value = v2beta2.LabelRuntimeAll
	}
	known, _ := d.Secret(secret.Namespace, secret.Name)
	overwrite := ""
	if known != nil && known.Labels[v2beta2.LabelRuntime] != "" {
		overwrite = " --overwrite"
		if isOperator(d, secret.Namespace, known.Labels[v2beta2.LabelRuntime]) { // It reads the Secret, too.
			value = v2beta2.LabelRuntimeAll
		}
	}
	f := Finding{
		Severity: findings.SeverityWarning, Object: secret, Reason: v2beta2.ReasonRuntimeObjectNotAllowed,
		Message: fmt.Sprintf("%s names the Secret, which has no label %s for operator %s: runs read it only if resources named it before "+
			"the label was required, or if it is a credential", u.user, v2beta2.LabelRuntime, operators[0]),
		Next: fmt.Sprintf("if playbooks may read it: kubectl label secret %s -n %s %s=%s%s", secret.Name, secret.Namespace, v2beta2.LabelRuntime, value, overwrite),
	}
	if known == nil {
		f.Next = "create it; " + f.Next
	}
	if u.waits {
		f.Severity = findings.SeverityError
		f.Message = fmt.Sprintf("%s names the Secret, which does not exist, or has no label %s for operator %s: its run waits", u.user, v2beta2.LabelRuntime, operators[0])
	}
	d.report(f)
}
