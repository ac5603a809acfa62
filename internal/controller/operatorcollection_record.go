package controller

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// annotationArtifact records on an OperatorCollection what it has imported: backups often omit status. Its value has the digest of the
// archive, the source hash, domain/name and version of the collection, and a signature, separated by spaces.
const annotationArtifact = "zoscb.ibm.com/artifact-digest"

// importRecord is what an OperatorCollection has imported.
type importRecord struct {
	artifact   *v2beta2.Artifact
	collection *v2beta2.ImportedCollection
	// signed is true if the manager wrote the record. Anybody who may edit the object can write one that is not: it may keep other
	// archives from being imported, but does not give access to one that others have stored.
	signed bool
}

// imported returns what an OperatorCollection has imported according to its status, or else to its annotation. It is nil if it has
// imported nothing.
func (c *CollectionCache) imported(oc *v2beta2.OperatorCollection) *importRecord {
	if oc.Status.Artifact != nil {
		return &importRecord{artifact: oc.Status.Artifact, collection: oc.Status.Collection, signed: true}
	}
	return parseImportRecord(oc, c.Key)
}

// recordedID is the identity of the collection that an OperatorCollection has imported, also before one that was restored without
// status is imported again. A record that the manager has not signed does not count: a deletion with the policy Finalize deletes custom
// resources.
func (c *CollectionCache) recordedID(oc *v2beta2.OperatorCollection) model.ID {
	if record := c.imported(oc); record != nil && record.signed && record.collection != nil {
		return model.ID{Domain: record.collection.Domain, Name: record.collection.Name}
	}
	return model.ID{}
}

func parseImportRecord(oc *v2beta2.OperatorCollection, key endpoint.Key) *importRecord {
	fields := strings.Split(oc.Annotations[annotationArtifact], " ")
	if len(fields) != 5 || digest.Digest(fields[0]).Validate() != nil {
		return nil
	}
	domain, name, _ := strings.Cut(fields[2], "/")
	want := signImport(oc, key, fields[:4])
	return &importRecord{
		artifact:   &v2beta2.Artifact{Digest: fields[0], SourceHash: fields[1]},
		collection: &v2beta2.ImportedCollection{Domain: domain, Name: name, Version: fields[3]},
		signed:     hmac.Equal([]byte(want), []byte(fields[4])),
	}
}

// formatImportRecord returns the annotation for what an OperatorCollection has imported.
func formatImportRecord(oc *v2beta2.OperatorCollection, key endpoint.Key) string {
	artifact, imported := oc.Status.Artifact, oc.Status.Collection
	fields := []string{artifact.Digest, artifact.SourceHash, imported.Domain + "/" + imported.Name, imported.Version}
	return strings.Join(append(fields, signImport(oc, key, fields)), " ")
}

// signImport signs a record for one OperatorCollection, by namespace and name.
func signImport(oc *v2beta2.OperatorCollection, key endpoint.Key, fields []string) string {
	mac := hmac.New(sha256.New, key)
	// None of them contains a space.
	mac.Write([]byte(strings.Join(append([]string{annotationArtifact, oc.Namespace, oc.Name}, fields...), " ")))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// recordImport sets the annotation, and the labels that clients select by unless the user set them.
func (r *OperatorCollectionReconciler) recordImport(ctx context.Context, oc *v2beta2.OperatorCollection, labels map[string]string) error {
	before := oc.DeepCopy()
	changed := setLabels(oc, labels)
	if record := formatImportRecord(oc, r.Collections.Key); oc.Annotations[annotationArtifact] != record {
		metav1.SetMetaDataAnnotation(&oc.ObjectMeta, annotationArtifact, record)
		changed = true
	}
	if !changed {
		return nil
	}
	if err := patchMetadata(ctx, r.Client, oc, before); err != nil {
		return err
	}
	r.Imports.wrote(oc)
	return nil
}
