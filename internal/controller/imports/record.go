package imports

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// AnnotationArtifact records on an OperatorCollection what it has imported: backups often omit status. Its value has the digest of the
// archive, the source hash, domain/name and version of the collection, and a signature, separated by spaces.
const AnnotationArtifact = "zoscb.ibm.com/artifact-digest"

// Record is what an OperatorCollection has imported.
type Record struct {
	Artifact   *v2beta2.Artifact
	Collection *v2beta2.ImportedCollection
	// Signed is true if the manager wrote the record. Anybody who may edit the object can write one that is not: it may keep other
	// archives from being imported, but does not give access to one that others have stored.
	Signed bool
}

// IsOf says whether the archive that was imported is the one that the spec asks for.
func (r *Record) IsOf(oc *v2beta2.OperatorCollection) bool {
	return r != nil && r.Artifact.SourceHash == SourceHash(&oc.Spec)
}

func parseImportRecord(oc *v2beta2.OperatorCollection, key endpoint.Key) *Record {
	fields := strings.Split(oc.Annotations[AnnotationArtifact], " ")
	if len(fields) != 5 || digest.Digest(fields[0]).Validate() != nil {
		return nil
	}
	domain, name, _ := strings.Cut(fields[2], "/")
	want := signImport(oc, key, fields[:4])
	return &Record{
		Artifact:   &v2beta2.Artifact{Digest: fields[0], SourceHash: fields[1]},
		Collection: &v2beta2.ImportedCollection{Domain: domain, Name: name, Version: fields[3]},
		Signed:     hmac.Equal([]byte(want), []byte(fields[4])),
	}
}

// FormatRecord returns the annotation for what an OperatorCollection has imported.
func FormatRecord(oc *v2beta2.OperatorCollection, key endpoint.Key) string {
	artifact, imported := oc.Status.Artifact, oc.Status.Collection
	fields := []string{artifact.Digest, artifact.SourceHash, imported.Domain + "/" + imported.Name, imported.Version}
	return strings.Join(append(fields, signImport(oc, key, fields)), " ")
}

// signImport signs a record for one OperatorCollection, by namespace and name.
func signImport(oc *v2beta2.OperatorCollection, key endpoint.Key, fields []string) string {
	mac := hmac.New(sha256.New, key)
	// None of them contains a space.
	mac.Write([]byte(strings.Join(append([]string{AnnotationArtifact, oc.Namespace, oc.Name}, fields...), " ")))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
