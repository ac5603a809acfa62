package imports

import (
	"sync"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/source/verify"
)

// VerificationPolicy is what the spec says about verification, with the Secret that it names. It is checked in every
// reconcile: neither status nor the fact that an archive is stored proves anything.
type VerificationPolicy struct {
	verify.Policy
	// Secret is the UID of the Secret, and Version its resourceVersion.
	Secret  types.UID
	Version string
}

// SignatureCache remembers valid signatures, so that an archive is read only when it or the Secret changed, and after a
// restart. It verifies one archive at a time: an Ed25519 key needs all of it in memory.
type SignatureCache struct {
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

// Verify is [verify.Verify]. A valid signature remains valid as long as the Secret does not change.
func (p *SignatureCache) Verify(policy *VerificationPolicy, candidate verify.Archive) (verify.Result, error) {
	if policy.Evidence == nil {
		return verify.Verify(policy.Policy, candidate)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	of := signatureKey{digest: candidate.Digest, secret: policy.Secret}
	if known, ok := p.known[of]; ok && known.version == policy.Version && (policy.Digest == "" || policy.Digest == candidate.Digest) {
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
	p.known[of] = cachedSignature{version: policy.Version, result: result}
	return result, nil
}

// Forget drops what was remembered of an archive.
func (p *SignatureCache) Forget(archived digest.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for of := range p.known {
		if of.digest == archived {
			delete(p.known, of)
		}
	}
}
