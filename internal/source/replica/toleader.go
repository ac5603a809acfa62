package replica

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/source/store"
)

// postponedTimeout limits the question to one peer whether it imports another archive in the place of one.
const postponedTimeout = time.Second

// ErrUploadRefused: the leader will never take an archive as it is, or nobody may send it.
var ErrUploadRefused = errors.New("it is refused")

// Postponed asks the live peers whether another archive is being imported in the place of one. One that does not answer is not waited
// for.
func (p *Peers) Postponed(ctx context.Context, archive digest.Digest) bool {
	peers, err := p.live(ctx)
	if err != nil {
		return false
	}
	for _, each := range peers {
		if _, header := p.head(ctx, each, archive, postponedTimeout); header.Get("Retry-After") != "" {
			return true
		}
	}
	return false
}

// SendUpload gives an archive that was copied into the pod of this manager to the peer that leads. It needs TLS, which protects the token
// on its way. If it is of no use to send it again, the error is ErrUploadRefused.
func (p *Peers) SendUpload(ctx context.Context, upload store.Upload, token string) error {
	if p.Scheme != "https" {
		return fmt.Errorf("%w: the managers do not serve archives with TLS", ErrUploadRefused)
	}
	leader, err := p.leader(ctx)
	if err != nil {
		return err
	}
	if err := p.sendUpload(ctx, leader, upload, token); err != nil {
		return fmt.Errorf("pod %q: %w", leader.name, err)
	}
	return nil
}

// Leader returns the UID of the pod of the live peer that leads, or "".
func (p *Peers) Leader(ctx context.Context) types.UID {
	leader, _ := p.leader(ctx) // Who asks has no use for the reason.
	return leader.uid
}

func (p *Peers) leader(ctx context.Context) (peer, error) {
	peers, err := p.live(ctx)
	if err != nil {
		return peer{}, err
	}
	for _, each := range peers {
		if each.leads {
			return each, nil
		}
	}
	return peer{}, errors.New("no other manager leads")
}

func (p *Peers) sendUpload(ctx context.Context, to peer, upload store.Upload, token string) error {
	file, err := os.Open(upload.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	target := to.url + store.CopyPrefix + url.PathEscape(upload.Name) + "/" + url.PathEscape(upload.Version) + "/" + url.PathEscape(filepath.Base(upload.Path))
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, target, file)
	if err != nil {
		return err
	}
	request.ContentLength = info.Size()
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set(store.CopyWrittenHeader, upload.Written.UTC().Format(time.RFC3339Nano))
	response, err := p.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return uploadAnswer(response.StatusCode)
}

// uploadAnswer is nil if an upload was taken. Answers that blame the request are final, but for those that a later one may not get.
func uploadAnswer(code int) error {
	err := fmt.Errorf("it answers with the status %d", code)
	switch {
	case code == http.StatusCreated:
		return nil
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code/100 != 4:
		return err
	}
	return fmt.Errorf("%w: %w", ErrUploadRefused, err)
}
