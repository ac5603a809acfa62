package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/verify"
)

// verificationPolicy is what the spec says about verification, with the Secret that it names. It is checked in every
// reconcile: neither status nor the fact that an archive is stored proves anything.
type verificationPolicy struct {
	verify.Policy
	// secret is the UID of the Secret, and version its resourceVersion.
	secret  types.UID
	version string
}

// verificationPolicy fails if no archive could satisfy the spec.
func (a *ArchiveSource) verificationPolicy(ctx context.Context, oc *v2beta2.OperatorCollection) (*verificationPolicy, error) {
	policy := &verificationPolicy{Policy: verify.Policy{
		Digest: digest.Digest(oc.Spec.Digest), SkipSignatureVerification: oc.Spec.SkipSignatureVerification,
	}}
	if oc.Spec.SignatureSecret != "" && !oc.Spec.SkipSignatureVerification {
		if err := a.readEvidence(ctx, oc, policy); err != nil {
			return nil, err
		}
	}
	if err := policy.Check(); err != nil {
		return nil, verifyFailure(err)
	}
	return policy, nil
}

func (a *ArchiveSource) readEvidence(ctx context.Context, oc *v2beta2.OperatorCollection, policy *verificationPolicy) error {
	secret, err := credential.Require(ctx, a.Reader, oc.Namespace, "spec.signatureSecret", oc.Spec.SignatureSecret, v2beta2.ReasonSignatureSecretInvalid)
	if err != nil {
		return err
	}
	if policy.Evidence, err = verify.Recognize(secret.Data); err != nil {
		return verifyFailure(fmt.Errorf("spec.signatureSecret: Secret %q: %w", secret.Name, err))
	}
	policy.secret, policy.version = secret.UID, secret.ResourceVersion
	return nil
}

// isOf says whether the archive that was imported is the one that the spec asks for.
func (i *importRecord) isOf(oc *v2beta2.OperatorCollection) bool {
	return i != nil && i.artifact.SourceHash == sourceHash(&oc.Spec)
}

// verifyStored verifies the archive in the store: the one that is imported, or one of status.history that spec.digest names. It returns
// nil if an archive has to be fetched: the spec asks for another, or for a verification that the imported one does not pass.
func (a *ArchiveSource) verifyStored(oc *v2beta2.OperatorCollection, policy *verificationPolicy) (*v2beta2.Artifact, error) {
	record, pinned := a.Collections.imported(oc), pinnedVersion(oc)
	known := record.isOf(oc)
	if record == nil || !record.signed || !known && pinned == "" && !onlyVerificationChanged(oc, record.artifact, policy) {
		return nil, nil
	}
	current, stored := record.artifact, digest.Digest(record.artifact.Digest)
	if !known && pinned != "" {
		stored = pinned
	}
	if !a.Collections.Store.Has(stored) {
		return nil, nil
	}
	content, size, err := a.Collections.Store.Open(stored)
	if err != nil {
		return nil, status.Retry(v2beta2.ReasonStorageFailed, err)
	}
	_ = content.Close() // It was opened for its size.
	open := func() (io.ReadCloser, error) {
		content, _, err := a.Collections.Store.Open(stored)
		return content, err
	}
	verified, err := a.accept(oc, policy, stored, size, open)
	if err == nil && digest.Digest(current.Digest) != stored {
		err = checkContent(stored, open)
	}
	switch {
	case errors.Is(err, verify.ErrContentChanged):
		// The store is damaged. The archive that is fetched must have the same digest.
		if err := a.Collections.Remove(stored); err != nil {
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
func onlyVerificationChanged(oc *v2beta2.OperatorCollection, current *v2beta2.Artifact, policy *verificationPolicy) bool {
	was, _, _ := strings.Cut(current.SourceHash, "-")
	is, _, _ := strings.Cut(sourceHash(&oc.Spec), "-")
	return oc.Spec.Digest == current.Digest || policy.Evidence != nil && was == is
}

// verifyFile verifies an archive that is not in the store yet.
func (a *ArchiveSource) verifyFile(oc *v2beta2.OperatorCollection, policy *verificationPolicy, file *fetch.File) (*v2beta2.Artifact, error) {
	verified, err := a.accept(oc, policy, file.Digest, file.Size, func() (io.ReadCloser, error) { return os.Open(file.Path) })
	if err != nil {
		return nil, verifyFailure(err)
	}
	return verified, nil
}

// accept verifies an archive and records how it was accepted. Its errors are those of [verify.Verify].
func (a *ArchiveSource) accept(oc *v2beta2.OperatorCollection, policy *verificationPolicy, archived digest.Digest, size int64,
	open func() (io.ReadCloser, error)) (*v2beta2.Artifact, error) {
	candidate := verify.Archive{Digest: archived, Size: size, Open: open, Manifest: readManifest}
	now, before := metav1.Now().Rfc3339Copy(), oc.Status.Artifact
	if before == nil || before.Digest != archived.String() || before.VerifiedAt == nil {
		before = &v2beta2.Artifact{VerifiedAt: &now}
	}
	policy.Time = now.Time
	result, err := a.Collections.signatures.verify(policy, candidate)
	if errors.Is(err, verify.ErrInvalidSignature) && before.Verification == verify.MethodGalaxySignature {
		// An archive remains verified if the GPG key expired afterwards.
		policy.Time = before.VerifiedAt.Time
		if then, thenErr := a.Collections.signatures.verify(policy, candidate); thenErr == nil && then.Key == before.VerifiedBy {
			result, err = then, nil
		}
	}
	if err != nil {
		return nil, err
	}
	verified := &v2beta2.Artifact{
		Digest: archived.String(), Size: size, Verification: result.Method, VerifiedBy: result.Key, SourceHash: sourceHash(&oc.Spec),
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

// signatureCache remembers valid signatures, so that an archive is read only when it or the Secret changed, and after a
// restart. It verifies one archive at a time: an Ed25519 key needs all of it in memory.
type signatureCache struct {
	mu    sync.Mutex
	known map[signatureKey]cachedSignature
}

type signatureKey struct {
	digest digest.Digest
	secret types.UID
}

type cachedSignature struct {
	version string
	result  verify.Result
}

// verify is [verify.Verify]. A valid signature remains valid as long as the Secret does not change.
func (p *signatureCache) verify(policy *verificationPolicy, candidate verify.Archive) (verify.Result, error) {
	if policy.Evidence == nil {
		return verify.Verify(policy.Policy, candidate)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of := signatureKey{digest: candidate.Digest, secret: policy.secret}
	if known, ok := p.known[of]; ok && known.version == policy.version && (policy.Digest == "" || policy.Digest == candidate.Digest) {
		return known.result, nil
	}
	result, err := verify.Verify(policy.Policy, candidate)
	if err != nil {
		delete(p.known, of)
		return result, err
	}
	if p.known == nil {
		p.known = map[signatureKey]cachedSignature{}
	}
	p.known[of] = cachedSignature{version: policy.version, result: result}
	return result, nil
}

func (p *signatureCache) forget(archived digest.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of := range p.known {
		if of.digest == archived {
			delete(p.known, of)
		}
	}
}
