package render

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

const (
	// LabelSharedGrants on a ClusterRole grants its rules to all collections.
	LabelSharedGrants = "zoscb.ibm.com/aggregate-to-grants"
	// LabelGrant on a ClusterRole grants its rules to the collection in its annotations.
	LabelGrant = "zoscb.ibm.com/grant"
	// AnnotationGrantCollection has the domain and name of the collection: <domain>/<name>.
	AnnotationGrantCollection = "zoscb.ibm.com/grant-collection"
	// AnnotationGrantNamespace has the namespace of the OperatorCollection.
	AnnotationGrantNamespace = "zoscb.ibm.com/grant-namespace"
	// AnnotationGrantIn has the namespaces in which an operator may have the permissions, separated by commas. Without it,
	// the operator may have them in all namespaces, and cluster-wide.
	AnnotationGrantIn = "zoscb.ibm.com/grant-in"
	// AnnotationGrantDigest has the digest of the only archive that the grant is for. It is optional.
	AnnotationGrantDigest = "zoscb.ibm.com/grant-digest"

	// maxGrantBytes limits a manifest in a message.
	maxGrantBytes = 4 << 10
	// maxNotes is the maximum number of notes in a message.
	maxNotes = 3
	// maxNoteBytes limits the list of permissions in a warning.
	maxNoteBytes = 1 << 10
)

// Grantee is a collection that permissions are granted to.
type Grantee struct {
	ID model.ID
	// Namespace of the OperatorCollection.
	Namespace string
	// Digest of the archive.
	Digest digest.Digest
	// PinDigest makes manifests grant permissions for this archive only.
	PinDigest bool
	// Manager is the subject that has to hold the permissions.
	Manager rbacv1.Subject
}

// DescribeMissing returns a text of a few kilobytes with the missing permissions, followed by notes, and by the manifest that
// grants them. The first line is a summary. The order of the permissions does not matter.
func DescribeMissing(g Grantee, missing []Permission, notes []string) string {
	missing = slices.SortedFunc(slices.Values(missing), comparePermissions)
	var grantable, never []Permission
	for _, permission := range slices.Compact(missing) {
		if permission.escalates() {
			never = append(never, permission)
		} else {
			grantable = append(grantable, permission)
		}
	}
	var text strings.Builder
	if len(never) > 0 {
		text.WriteString("the collection asks for permissions that are never granted, because they allow privilege escalation; its author must " +
			"remove them, or list the required verbs instead of *:\n" + listPermissions(never))
	}
	if len(grantable) > 0 {
		text.WriteString("the collection asks for permissions that are not granted to it:\n" + listPermissions(grantable))
	}
	for i, note := range notes {
		if i == maxNotes {
			fmt.Fprintf(&text, "and %d more ClusterRoles that do not count\n", len(notes)-maxNotes)
			break
		}
		text.WriteString(note + "\n")
	}
	switch manifest := GrantManifest(g, grantable); {
	case len(never) > 0:
	case len(manifest) > maxGrantBytes:
		fmt.Fprintf(&text, "The manifest that grants them is too long for a message: grant the rules that the collection lists, in a ClusterRole with label %s=true "+
			"and annotations %s=%s and %s=%s, and bind it to %s.", LabelGrant, AnnotationGrantCollection, g.ID, AnnotationGrantNamespace, g.Namespace, g.manager())
	default:
		fmt.Fprintf(&text, "To grant them to collection %s of namespace %s, apply this:\n%s", g.ID, g.Namespace, manifest)
	}
	return strings.TrimSpace(text.String())
}

// DescribeShared returns a warning about permissions that a collection has only by grants for all collections.
func DescribeShared(g Grantee, permissions []Permission) string {
	permissions = slices.Compact(slices.SortedFunc(slices.Values(permissions), comparePermissions))
	list := strings.ReplaceAll(strings.TrimSpace(listPermissions(permissions)), "\n  ", "; ")
	if len(list) > maxNoteBytes {
		list = fmt.Sprintf("%d permissions", len(permissions))
	}
	return fmt.Sprintf("grants for all collections, ClusterRoles labelled %s=true, give %s: grant them to collection %s of namespace %s alone",
		LabelSharedGrants, list, g.ID, g.Namespace)
}

func (g Grantee) manager() string {
	return strings.TrimSpace(g.Manager.Kind + " " + strings.TrimPrefix(g.Manager.Namespace+"/"+g.Manager.Name, "/"))
}

// GrantManifest returns the YAML of the objects that grant exactly these permissions: a ClusterRole for each namespace with a
// RoleBinding there, and one for the whole cluster with a ClusterRoleBinding. Their names are derived from scope and rules, so
// that applying them does not replace another grant.
func GrantManifest(g Grantee, missing []Permission) string {
	byNamespace := map[string][]Permission{}
	var namespaces []string
	for _, permission := range missing {
		if byNamespace[permission.Namespace] == nil {
			namespaces = append(namespaces, permission.Namespace)
		}
		byNamespace[permission.Namespace] = append(byNamespace[permission.Namespace], permission)
	}
	slices.Sort(namespaces)
	var manifests []string
	for _, namespace := range namespaces {
		manifests = append(manifests, g.manifest(namespace, byNamespace[namespace]))
	}
	return strings.Join(manifests, "---\n")
}

// manifest returns the YAML of a ClusterRole for one namespace, or for the whole cluster, and of its binding.
func (g Grantee) manifest(namespace string, permissions []Permission) string {
	rules := rulesText(permissions)
	scope, kind, in := "", "ClusterRoleBinding", ""
	if namespace != "" {
		scope = fmt.Sprintf("    %s: %q\n", AnnotationGrantIn, namespace)
		kind, in = "RoleBinding", "  namespace: "+namespace+"\n"
	}
	if g.PinDigest {
		scope += fmt.Sprintf("    %s: %q\n", AnnotationGrantDigest, g.Digest)
	}
	hash := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s", g.Namespace, scope, rules))
	name := fmt.Sprintf("collection-operator-grant:%s:%s:%s", g.ID.Domain, g.ID.Name, hex.EncodeToString(hash[:4]))
	subject, _ := json.Marshal(g.Manager) // It has only strings.
	return fmt.Sprintf(`apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: %[1]s
  labels:
    %[2]s: "true"
  annotations:
    %[3]s: %[4]q
    %[5]s: %[6]q
%[7]srules:
%[8]s---
apiVersion: rbac.authorization.k8s.io/v1
kind: %[9]s
metadata:
  name: %[1]s
%[10]s  labels:
    %[2]s: "true"
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: %[1]s
subjects:
  - %[11]s
`, name, LabelGrant, AnnotationGrantCollection, g.ID.String(), AnnotationGrantNamespace, g.Namespace, scope, rules, kind, in, subject)
}

// rulesText returns permissions as the YAML of rules.
func rulesText(permissions []Permission) string {
	var rules strings.Builder
	for _, rule := range rulesOf(permissions) {
		lead := "  - "
		for _, part := range []struct {
			key    string
			values []string
		}{
			{"apiGroups", rule.APIGroups}, {"resources", rule.Resources}, {"resourceNames", rule.ResourceNames},
			{"nonResourceURLs", rule.NonResourceURLs}, {"verbs", rule.Verbs},
		} {
			if len(part.values) > 0 {
				rules.WriteString(lead + part.key + ": " + flow(part.values) + "\n")
				lead = "    "
			}
		}
	}
	return rules.String()
}
