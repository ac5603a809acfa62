package endpoint

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// SecretAccess decides which Secrets of their namespace playbooks of an operator may read because a resource names them.
type SecretAccess struct {
	// Operator is the name of the operator.
	Operator string
	// Kept are the names of Secrets that may be read without the label.
	Kept []string
}

// Access is whether playbooks may read a Secret.
type Access int

// The values of Access.
const (
	AccessAllowed Access = iota
	// AccessNeedsLabel means that the owner of the Secret has not allowed it, or that there is no such Secret.
	AccessNeedsLabel
	// AccessNever means that no label allows it.
	AccessNever
	// AccessNoName means that no Secret can have the name.
	AccessNoName
)

// Of returns whether playbooks may read a Secret, which is nil if there is none of that name. A Secret with the label for another
// operator is not kept: its owner has decided.
func (a SecretAccess) Of(name string, secret *corev1.Secret) Access {
	isKept := slices.Contains(a.Kept, name)
	switch {
	case len(validation.IsDNS1123Subdomain(name)) > 0:
		return AccessNoName
	case IsOwnSecret(name):
		return AccessNever
	case secret == nil && isKept:
		return AccessAllowed
	case secret == nil:
		return AccessNeedsLabel
	}
	label, isLabelled := secret.Labels[v2beta2.LabelRuntime]
	isAllowed := IsRuntimeLabel(label, a.Operator) || IsCredential(secret)
	switch {
	case isToken(secret) && (isAllowed || isKept):
		return AccessNever // Otherwise nobody learns what it is.
	case isAllowed || isKept && !isLabelled:
		return AccessAllowed
	}
	return AccessNeedsLabel
}

// IsRuntimeLabel reports whether a value of [v2beta2.LabelRuntime] lets an operator use an object.
func IsRuntimeLabel(value, operator string) bool {
	return value == v2beta2.LabelRuntimeAll || value != "" && value == operator
}

// Suffixes of the names of Secrets that the manager makes for an operator, after its name.
const (
	SuffixEndpoints    = "-endpoints"
	SuffixDependencies = "-dependencies"
)

// ownSecrets matches the names of Secrets of operators, of states, and of the manager.
var ownSecrets = regexp.MustCompile(`-operator(` + SuffixEndpoints + `|` + SuffixDependencies + `)$|^` + prefixState + `[0-9a-f]{32}$` +
	`|^collection-operator-(credential-key|serving-certificate)$`)

// IsOwnSecret reports whether a Secret belongs to an operator or to the manager, by its name: labels of Secrets can be changed.
func IsOwnSecret(name string) bool { return ownSecrets.MatchString(name) }

// isToken reports whether a Secret has the token of an account. OpenShift also makes Secrets of other types with tokens.
func isToken(secret *corev1.Secret) bool {
	const ofOpenShift = "openshift.io/internal-registry-auth-token.service-account"
	return secret.Type == corev1.SecretTypeServiceAccountToken || secret.Type == corev1.SecretTypeBootstrapToken ||
		metav1.HasAnnotation(secret.ObjectMeta, corev1.ServiceAccountNameKey) || metav1.HasAnnotation(secret.ObjectMeta, ofOpenShift)
}

// maxNamed limits the names in a message, in bytes: the message is cut otherwise, and its end is the next step.
const maxNamed = 300

// Refusal says why a run waits for Secrets of a namespace: names has those with each Access. It does not say which of them exist.
func (a SecretAccess) Refusal(namespace string, names map[Access][]string) string {
	if invalid := names[AccessNoName]; len(invalid) > 0 {
		return fmt.Sprintf("%q is not the name of a Secret: change the variable", printable.Line(invalid[0], maxNamed))
	}
	if never := names[AccessNever]; len(never) > 0 {
		return fmt.Sprintf("Secret %q belongs to Collection Operator or has the token of an account, and is never given to playbooks: name another one", never[0])
	}
	quoted, listed, size := "", "", 0
	subject, verbs := "Secret", "does not exist, or does not allow its use by operators: it needs"
	for i, name := range names[AccessNeedsLabel] {
		if size += len(name); i > 0 && size > maxNamed {
			break
		}
		if i > 0 {
			subject, verbs = "Secrets", "do not exist, or do not allow their use by operators: they need"
			quoted, listed = quoted+", ", listed+" "
		}
		quoted, listed = quoted+strconv.Quote(name), listed+name
	}
	return fmt.Sprintf("%s %s %s the label %[4]s=%[5]s, or %[4]s=%[6]s: kubectl label secret %[7]s -n %[8]s %[4]s=%[6]s", subject, quoted, verbs,
		v2beta2.LabelRuntime, v2beta2.LabelRuntimeAll, a.Operator, listed, namespace)
}
