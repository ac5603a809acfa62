package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/verify"
)

// verifier verifies archives as specs say.
type verifier struct {
	Reader      client.Reader
	Collections *imports.CollectionCache
	blocked     *blockedArchives
}

// verificationPolicy fails if no archive could satisfy the spec.
func (v *verifier) verificationPolicy(ctx context.Context, oc *v2beta2.OperatorCollection) (*imports.VerificationPolicy, error) {
	policy := &imports.VerificationPolicy{Policy: verify.Policy{
		Digest: digest.Digest(oc.Spec.Digest), SkipSignatureVerification: oc.Spec.SkipSignatureVerification,
	}}
	if oc.Spec.SignatureSecret != "" && !oc.Spec.SkipSignatureVerification {
		if err := v.readEvidence(ctx, oc, policy); err != nil {
			return nil, err
		}
	}
	if err := policy.Check(); err != nil {
		return nil, verifyFailure(err)
	}
	return policy, nil
}

func (v *verifier) readEvidence(ctx context.Context, oc *v2beta2.OperatorCollection, policy *imports.VerificationPolicy) error {
	secret, err := credential.Require(ctx, v.Reader, oc.Namespace, "spec.signatureSecret", oc.Spec.SignatureSecret, v2beta2.ReasonSignatureSecretInvalid)
	if err != nil {
		return err
	}
	if policy.Evidence, err = verify.Recognize(secret.Data); err != nil {
		return verifyFailure(fmt.Errorf("spec.signatureSecret: Secret %q: %w", secret.Name, err))
	}
	policy.Secret, policy.Version = secret.UID, secret.ResourceVersion
	return nil
}

// verifyStored verifies the archive in the store: the one that is imported, or one of status.history that spec.digest names. It returns
// nil if an archive has to be fetched: the spec asks for another, or for a verification that the imported one does not pass.
func (v *verifier) verifyStored(oc *v2beta2.OperatorCollection, policy *imports.VerificationPolicy) (*v2beta2.Artifact, error) {
	record, pinned := v.Collections.Imported(oc), imports.PinnedVersion(oc)
	known := record.IsOf(oc)
	if record == nil || !record.Signed || !known && pinned == "" && !onlyVerificationChanged(oc, record.Artifact, policy) {
		return nil, nil
	}
	current, stored := record.Artifact, digest.Digest(record.Artifact.Digest)
	if !known && pinned != "" {
		stored = pinned
	}
	if !v.Collections.Store.Has(stored) {
		return nil, nil
	}
	content, size, err := v.Collections.Store.Open(stored)
	if err != nil {
		return nil, status.Retry(v2beta2.ReasonStorageFailed, err)
	}
	_ = content.Close() // It was opened for its size.
	open := func() (io.ReadCloser, error) {
		content, _, err := v.Collections.Store.Open(stored)
		return content, err
	}
	verified, err := v.accept(oc, policy, stored, size, open)
	if err == nil && digest.Digest(current.Digest) != stored {
		err = checkContent(stored, open)
	}
	switch {
	case errors.Is(err, verify.ErrContentChanged):
		// The store is damaged. The archive that is fetched must have the same digest.
		if err := v.Collections.Remove(stored); err != nil {
			return nil, status.Retry(v2beta2.ReasonStorageFailed, err)
		}
		return nil, nil
	case err != nil && !known && stored == pinned:
		return nil, verifyFailure(fmt.Errorf("the archive in status.history that spec.digest names does not verify; the running operator is unaffected: %w", err))
	case err != nil && !known:
		return nil, nil
	case err != nil:
		return nil, verifyFailure(fmt.Errorf("the archive that is installed does not verify any more; the running operator is unaffected: %w", err))
	}
	if known {
		verified.ETag, verified.LastModified = current.ETag, current.LastModified
	}
	return verified, nil
}

// checkContent fails with verify.ErrContentChanged if a stored archive is damaged: it was not used for a long time.
func checkContent(stored digest.Digest, open func() (io.ReadCloser, error)) error {
	content, err := open()
	if err != nil {
		return err
	}
	defer content.Close()
	is, err := digest.SHA256.FromReader(content)
	if err == nil && is != stored {
		err = fmt.Errorf("%w: the archive in the store has the digest %s, not %s", verify.ErrContentChanged, is, stored)
	}
	return err
}

// onlyVerificationChanged says whether the spec may ask for the stored archive, now verified in another way.
func onlyVerificationChanged(oc *v2beta2.OperatorCollection, current *v2beta2.Artifact, policy *imports.VerificationPolicy) bool {
	was, _, _ := strings.Cut(current.SourceHash, "-")
	is, _, _ := strings.Cut(imports.SourceHash(&oc.Spec), "-")
	return oc.Spec.Digest == current.Digest || policy.Evidence != nil && was == is
}

// verifyBlocked returns the archive that was blocked when it was fetched for the same spec, and nil if an archive has to be fetched. With
// spec.interval the source may have another one by now.
func (v *verifier) verifyBlocked(oc *v2beta2.OperatorCollection, policy *imports.VerificationPolicy) *v2beta2.Artifact {
	blocked := v.blocked.of(oc)
	if blocked == nil || oc.Spec.Interval != nil || blocked.SourceHash != imports.SourceHash(&oc.Spec) || !v.Collections.Store.Has(digest.Digest(blocked.Digest)) {
		return nil
	}
	verified, err := v.accept(oc, policy, digest.Digest(blocked.Digest), blocked.Size, func() (io.ReadCloser, error) {
		content, _, err := v.Collections.Store.Open(digest.Digest(blocked.Digest))
		return content, err
	})
	if err != nil {
		return nil // What is fetched says what is wrong.
	}
	verified.ETag, verified.LastModified = blocked.ETag, blocked.LastModified
	return verified
}

// verifyFile verifies an archive that is not in the store yet.
func (v *verifier) verifyFile(oc *v2beta2.OperatorCollection, policy *imports.VerificationPolicy, file *fetch.File) (*v2beta2.Artifact, error) {
	verified, err := v.accept(oc, policy, file.Digest, file.Size, func() (io.ReadCloser, error) { return os.Open(file.Path) })
	if err != nil {
		return nil, verifyFailure(err)
	}
	return verified, nil
}

// accept verifies an archive and records how it was accepted. Its errors are those of [verify.Verify].
func (v *verifier) accept(oc *v2beta2.OperatorCollection, policy *imports.VerificationPolicy, archived digest.Digest, size int64,
	open func() (io.ReadCloser, error)) (*v2beta2.Artifact, error) {
	candidate := verify.Archive{Digest: archived, Size: size, Open: open, Manifest: readManifest}
	now, before := metav1.Now().Rfc3339Copy(), oc.Status.Artifact
	if before == nil || before.Digest != archived.String() || before.VerifiedAt == nil {
		before = &v2beta2.Artifact{VerifiedAt: &now}
	}
	policy.Time = now.Time
	result, err := v.Collections.Signatures.Verify(policy, candidate)
	if errors.Is(err, verify.ErrInvalidSignature) && before.Verification == verify.MethodGalaxySignature {
		// An archive remains verified if the GPG key expired afterwards.
		policy.Time = before.VerifiedAt.Time
		if then, thenErr := v.Collections.Signatures.Verify(policy, candidate); thenErr == nil && then.Key == before.VerifiedBy {
			result, err = then, nil
		}
	}
	if err != nil {
		return nil, err
	}
	verified := &v2beta2.Artifact{
		Digest: archived.String(), Size: size, Verification: result.Method, VerifiedBy: result.Key, SourceHash: imports.SourceHash(&oc.Spec),
	}
	switch {
	case result.Method == verify.MethodSkipped:
	case result.Method == before.Verification && result.Key == before.VerifiedBy:
		verified.VerifiedAt = before.VerifiedAt
	default:
		verified.VerifiedAt = &now
	}
	return verified, nil
}

func readManifest(content io.Reader) ([]byte, error) {
	return archive.ReadFile(content, archive.DefaultLimits, verify.ManifestFile)
}

// verifyFailure gives an error of [verify.Verify] its reason. A Secret or a server may be corrected without a change of
// the spec.
func verifyFailure(err error) error {
	var unreadable *archive.Error
	switch {
	case errors.Is(err, verify.ErrDigestMismatch), errors.Is(err, verify.ErrInvalidDigest):
		return status.Stalled(v2beta2.ReasonDigestMismatch, err)
	case errors.Is(err, verify.ErrUnverified):
		return status.Stalled(v2beta2.ReasonNotVerified, err)
	case errors.Is(err, verify.ErrInvalidEvidence):
		return status.Waiting(v2beta2.ReasonSignatureSecretInvalid, intervals.Missing, "%w", err)
	case errors.Is(err, verify.ErrInvalidSignature):
		return status.Waiting(v2beta2.ReasonSignatureInvalid, status.ChangedInterval, "%w", err)
	case errors.As(err, &unreadable):
		return imports.LoadFailure(err)
	}
	return status.Retry(v2beta2.ReasonStorageFailed, err)
}
