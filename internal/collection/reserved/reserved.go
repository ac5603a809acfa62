// Package reserved knows for whom administrators have reserved the domains of collections.
package reserved

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Domains are the reservations, by domain, or by domain/name. Those for domain/name apply instead of those for the domain. Domains
// without reservations are free.
type Domains map[string][]holder

// holder is one of those for whom a domain is reserved. One of its fields is set.
type holder struct {
	// namespace of the OperatorCollection.
	namespace string
	// key is the fingerprint of the key that has signed the archive: see [verify.Evidence].
	key string
}

// fingerprint matches the fingerprints of keys in PEM and of GPG keys.
var fingerprint = regexp.MustCompile(`^(sha256:[0-9a-f]{64}|[0-9A-F]{40}|[0-9A-F]{64})$`)

const example = "want DOMAIN=namespace:NAMESPACE or DOMAIN=key:FINGERPRINT, such as acme=namespace:prod, and DOMAIN or DOMAIN/NAME"

// Parse reads entries such as acme=namespace:prod, acme/zos-files=namespace:files and acme=key:sha256:0123... A domain can have several
// entries. All errors are returned, joined.
func Parse(entries []string) (Domains, error) {
	domains := Domains{}
	var errs []error
	for _, entry := range entries {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		names, holder, err := parse(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", entry, err))
			continue
		}
		if !slices.Contains(domains[names], holder) {
			domains[names] = append(domains[names], holder)
		}
	}
	return domains, errors.Join(errs...)
}

func parse(entry string) (names string, h holder, err error) {
	names, text, found := strings.Cut(entry, "=")
	kind, value, hasKind := strings.Cut(text, ":")
	if !found || !hasKind {
		return "", holder{}, errors.New(example)
	}
	domain, name, hasName := strings.Cut(names, "/")
	if problems := validation.IsDNS1123Subdomain(domain); len(problems) > 0 {
		return "", holder{}, fmt.Errorf("%q is not a domain of collections: %s", domain, problems[0])
	}
	if problems := validation.IsDNS1123Subdomain(name); hasName && len(problems) > 0 {
		return "", holder{}, fmt.Errorf("%q is not a name of collections: %s", name, problems[0])
	}
	switch kind {
	case "namespace":
		if problems := validation.IsDNS1123Label(value); len(problems) > 0 {
			return "", holder{}, fmt.Errorf("%q is not a namespace: %s", value, problems[0])
		}
		return names, holder{namespace: value}, nil
	case "key":
		if !fingerprint.MatchString(value) {
			return "", holder{}, fmt.Errorf("%q is not the fingerprint of a key: want sha256: and 64 hexadecimal digits in lower case, or that of a GPG key, 40 or 64 in upper case", value)
		}
		return names, holder{key: value}, nil
	}
	return "", holder{}, errors.New(example)
}

// Check fails if a collection is reserved, but neither for the namespace of its OperatorCollection nor for the key that has signed its
// archive. The key is empty if the archive was not verified with a signature.
func (d Domains) Check(id model.ID, namespace, key string) error {
	what, holders := "collection "+id.String(), d[id.String()]
	if len(holders) == 0 {
		what, holders = fmt.Sprintf("domain %q", id.Domain), d[id.Domain]
	}
	if len(holders) == 0 || slices.Contains(holders, holder{namespace: namespace}) || key != "" && slices.Contains(holders, holder{key: key}) {
		return nil
	}
	signed := "its archive was not verified with a signature"
	if key != "" {
		signed = "its archive is signed with the key " + key
	}
	return fmt.Errorf("%s is reserved for %s: this OperatorCollection is in namespace %q, and %s. An administrator decides with the manager's setting --reserved-domains",
		what, describe(holders), namespace, signed)
}

// maxHolders is the maximum number of holders in a message.
const maxHolders = 5

func describe(holders []holder) string {
	var names []string
	for _, h := range holders {
		if h.namespace != "" {
			names = append(names, fmt.Sprintf("namespace %q", h.namespace))
		} else {
			names = append(names, "archives signed with the key "+h.key)
		}
	}
	slices.Sort(names)
	if more := len(names) - maxHolders; more > 0 {
		names = append(names[:maxHolders], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
