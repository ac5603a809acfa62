package grants

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// annotationPrefix is that of all annotations of a grant.
const annotationPrefix = "zoscb.ibm.com/grant-"

// Scope says for whom a grant is.
type Scope struct {
	Collection model.ID
	// Namespace of the OperatorCollection.
	Namespace string
	// In lists the namespaces in which the operator may have the permissions. If it is empty, it may have them in all
	// namespaces and cluster-wide.
	In []string
	// Digest of the archive. If it is empty, the grant is for all archives of the collection.
	Digest digest.Digest
}

// ParseScope reads the annotations of a grant. It also returns the valid part of a scope with an error, which names the first
// annotation that is missing, not valid or unknown: a misspelt one must not make a grant wider than it was meant.
func ParseScope(annotations map[string]string) (Scope, error) {
	var scope Scope
	errs := map[string]error{}
	for annotation, parse := range map[string]func(string) error{
		render.AnnotationGrantCollection: scope.parseCollection,
		render.AnnotationGrantNamespace:  scope.parseNamespace,
		render.AnnotationGrantIn:         scope.parseIn,
		render.AnnotationGrantDigest:     scope.parseDigest,
	} {
		value, exists := annotations[annotation]
		if optional := annotation == render.AnnotationGrantIn || annotation == render.AnnotationGrantDigest; !exists && optional {
			continue
		}
		errs[annotation] = parse(value)
	}
	for annotation := range annotations {
		if _, known := errs[annotation]; strings.HasPrefix(annotation, annotationPrefix) && !known {
			errs[annotation] = errors.New("it is unknown: remove or correct it")
		}
	}
	for _, annotation := range slices.Sorted(maps.Keys(errs)) {
		if err := errs[annotation]; err != nil {
			return scope, fmt.Errorf("annotation %.100s: %w", annotation, err)
		}
	}
	return scope, nil
}

func (s *Scope) parseCollection(value string) error {
	domain, name, _ := strings.Cut(value, "/")
	for _, part := range []string{domain, name} {
		if part == "" || len(validation.IsValidLabelValue(part)) > 0 {
			return fmt.Errorf("%.100q is not <domain>/<name> of a collection", value)
		}
	}
	s.Collection = model.ID{Domain: domain, Name: name}
	return nil
}

func (s *Scope) parseNamespace(value string) error {
	if len(validation.IsDNS1123Label(value)) > 0 {
		return fmt.Errorf("%.100q is not the name of a namespace", value)
	}
	s.Namespace = value
	return nil
}

func (s *Scope) parseIn(value string) error {
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if len(validation.IsDNS1123Label(name)) > 0 {
			return fmt.Errorf("%.100q is not a list of namespaces, separated by commas", value)
		}
		s.In = append(s.In, name)
	}
	return nil
}

func (s *Scope) parseDigest(value string) error {
	parsed, err := digest.Parse(value)
	if err != nil || parsed.Algorithm() != digest.SHA256 {
		return fmt.Errorf("%.100q is not a digest, sha256:<64 hexadecimal digits>", value)
	}
	s.Digest = parsed
	return nil
}

// mayConcern reports whether a grant could be for a collection in a namespace, even if a part of its scope is not valid.
func (s *Scope) mayConcern(g render.Grantee) bool {
	return (s.Collection == model.ID{} || s.Collection == g.ID) && (s.Namespace == "" || s.Namespace == g.Namespace)
}

// includes reports whether a grant is for an archive of a collection.
func (s *Scope) includes(g render.Grantee) bool {
	return s.Collection == g.ID && s.Namespace == g.Namespace && (s.Digest == "" || s.Digest == g.Digest)
}

// appliesIn reports whether a grant is for a namespace, or for the whole cluster if the namespace is empty.
func (s *Scope) appliesIn(namespace string) bool {
	return len(s.In) == 0 || slices.Contains(s.In, namespace)
}
