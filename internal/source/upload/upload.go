// Package upload accepts archives of OperatorCollections over HTTPS from users who may update them.
package upload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

const (
	// Prefix of the paths of uploads: PUT /uploads/<namespace>/<name of the OperatorCollection>.
	Prefix = "/uploads/"
	// DigestHeader may have the digest of the archive, as sha256:<hex>. It is checked.
	DigestHeader = "Collection-Digest"
	// Audience is accepted in tokens, in addition to that of the API server.
	Audience = "collection-operator"

	// maxRequests limits requests that are checked or received at the same time, and maxUploads those that are received.
	maxRequests, maxUploads = 32, 4
	// checkTimeout limits the questions to the API server about one request.
	checkTimeout = 15 * time.Second
)

// Handler receives archives.
type Handler struct {
	// Client creates TokenReviews and SubjectAccessReviews.
	Client client.Writer
	// Reader reads live objects.
	Reader client.Reader
	// Pushes keeps the archives.
	Pushes *store.Pushes
	// Store receives them in its TempDir. It is on the same device.
	Store *store.Store
	// MaxBytes is the maximum size of an archive, and Timeout the time in which it must arrive.
	MaxBytes int64
	Timeout  time.Duration
	// AdministratorsOnly also requires verb use for resource administration, like policy collection-operator-administrators-only.
	AdministratorsOnly bool
	// Elected is closed when this manager is the leader. Others refuse uploads.
	Elected <-chan struct{}
	// Received records an archive that was stored.
	Received func(context.Context, types.NamespacedName, digest.Digest) error

	mu         sync.Mutex
	requests   int
	namespaces map[string]bool
}

// Route serves uploads with a handler and all other paths with another.
func Route(uploads, others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, Prefix) {
			uploads.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}

// refusal is an answer that is not success.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(status int, format string, args ...any) error {
	return &refusal{status: status, message: fmt.Sprintf(format, args...)}
}

// ServeHTTP implements [http.Handler]. Who is not authenticated learns nothing.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	stored, err := h.receive(w, r)
	var refused *refusal
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintln(w, stored)
		return
	case !errors.As(err, &refused):
		ctrl.Log.WithName("uploads").Error(err, "an upload failed")
		refused = &refusal{http.StatusInternalServerError, "the upload failed: see the manager's log"}
	}
	switch refused.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="collection-operator"`)
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", http.MethodPut)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "10")
	}
	// The rest of the body is not read.
	w.Header().Set("Connection", "close")
	http.Error(w, refused.message, refused.status)
}

func (h *Handler) receive(w http.ResponseWriter, r *http.Request) (digest.Digest, error) {
	token, ok := bearerToken(r)
	if !ok || r.TLS == nil {
		return "", refuse(http.StatusUnauthorized, "a bearer token is needed")
	}
	if !h.leads() {
		return "", refuse(http.StatusServiceUnavailable, "this manager is not the leader: upload to the pod with the label component=manager that is, or try again")
	}
	if !h.begin() {
		return "", refuse(http.StatusTooManyRequests, "too many uploads are in progress: try again later")
	}
	defer h.end()
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	oc, user, err := h.authorize(ctx, r, token)
	if err != nil {
		return "", err
	}
	expected, err := h.checkRequest(r)
	if err != nil {
		return "", err
	}
	release, err := h.reserve(oc.Namespace)
	if err != nil {
		return "", err
	}
	defer release()
	file, err := h.save(w, r, expected)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Remove() }() // Once stored it has another name.
	// The OperatorCollection may have been deleted while the archive arrived.
	again, cancelAgain := context.WithTimeout(r.Context(), checkTimeout)
	defer cancelAgain()
	if err := h.checkCollection(again, oc); err != nil {
		return "", err
	}
	if err := h.Pushes.Put(oc.Namespace, oc.Name, file); errors.Is(err, store.ErrPushesFull) {
		return "", refuse(http.StatusInsufficientStorage, "%s", err)
	} else if err != nil {
		return "", err
	}
	if err := h.Received(again, oc, file.Digest); apierrors.IsNotFound(err) {
		return "", errors.Join(refuse(http.StatusNotFound, "OperatorCollection %q in namespace %q was deleted meanwhile", oc.Name, oc.Namespace),
			h.Pushes.Remove(oc.Namespace, oc.Name))
	} else if err != nil {
		return "", err
	}
	ctrl.Log.WithName("uploads").Info("received an archive", "OperatorCollection", oc, "user", user, "digest", file.Digest, "bytes", file.Size)
	return file.Digest, nil
}

func bearerToken(r *http.Request) (string, bool) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, found && strings.EqualFold(scheme, "Bearer") && token != ""
}

// authorize returns the OperatorCollection that the request is for, and the user, who may update it.
func (h *Handler) authorize(ctx context.Context, r *http.Request, token string) (oc types.NamespacedName, user string, err error) {
	who, err := h.authenticate(ctx, token)
	if err != nil {
		return oc, "", err
	}
	var found bool
	rest := strings.TrimPrefix(r.URL.Path, Prefix)
	if oc.Namespace, oc.Name, found = strings.Cut(rest, "/"); !found || r.URL.RawPath != "" ||
		len(validation.IsDNS1123Label(oc.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(oc.Name)) > 0 {
		return oc, "", refuse(http.StatusNotFound, "the path of an upload is %s<namespace>/<OperatorCollection>", Prefix)
	}
	if r.Method != http.MethodPut {
		return oc, "", refuse(http.StatusMethodNotAllowed, "the method of an upload is PUT")
	}
	if err := h.mayUpdate(ctx, who, oc); err != nil {
		return oc, "", err
	}
	return oc, who.Username, h.checkCollection(ctx, oc)
}

// checkCollection requires an OperatorCollection that takes an upload.
func (h *Handler) checkCollection(ctx context.Context, name types.NamespacedName) error {
	oc := &v2beta2.OperatorCollection{}
	err := h.Reader.Get(ctx, name, oc)
	switch {
	case apierrors.IsNotFound(err):
		return refuse(http.StatusNotFound, "OperatorCollection %q does not exist in namespace %q: create it without spec.collectionURL", name.Name, name.Namespace)
	case err != nil:
		return fmt.Errorf("reading OperatorCollection %q: %w", name, err)
	case oc.DeletionTimestamp != nil:
		return refuse(http.StatusConflict, "OperatorCollection %q in namespace %q is being deleted", name.Name, name.Namespace)
	case oc.Spec.CollectionURL != "":
		return refuse(http.StatusConflict, "OperatorCollection %q in namespace %q has a spec.collectionURL, from which its archive is fetched: remove it to upload the archive",
			name.Name, name.Namespace)
	}
	return nil
}

func (h *Handler) checkRequest(r *http.Request) (digest.Digest, error) {
	if r.ContentLength > h.MaxBytes {
		return "", h.tooLarge()
	}
	expected := digest.Digest(r.Header.Get(DigestHeader))
	if expected != "" && (expected.Validate() != nil || expected.Algorithm() != digest.SHA256) {
		return "", refuse(http.StatusBadRequest, "the header %s is not sha256:<64 hexadecimal digits>", DigestHeader)
	}
	return expected, nil
}

func (h *Handler) tooLarge() error {
	return refuse(http.StatusRequestEntityTooLarge, "the archive is larger than %d bytes, the manager's --fetch-max-bytes", h.MaxBytes)
}

func (h *Handler) save(w http.ResponseWriter, r *http.Request, expected digest.Digest) (*fetch.File, error) {
	control := http.NewResponseController(w)
	deadline := time.Now().Add(cmp.Or(h.Timeout, fetch.DefaultTimeout))
	if err := errors.Join(control.SetReadDeadline(deadline), control.SetWriteDeadline(deadline.Add(checkTimeout))); err != nil {
		return nil, err
	}
	file, err := fetch.Save(r.Body, h.MaxBytes, h.Store.TempDir())
	var failed *fetch.Error
	switch {
	case store.IsFull(err) && h.Store.MakeRoom(h.MaxBytes):
		return nil, refuse(http.StatusInsufficientStorage, "the manager's volume was full: archives that nothing uses were deleted, upload it again")
	case store.IsFull(err):
		return nil, refuse(http.StatusInsufficientStorage, "the manager's volume is full: ask an administrator to enlarge it, or delete OperatorCollections that are not needed")
	case errors.As(err, &failed) && failed.Reason == fetch.TooLarge:
		return nil, h.tooLarge()
	case errors.As(err, &failed) && failed.Reason != fetch.StorageFailed:
		return nil, refuse(http.StatusBadRequest, "the archive did not arrive: %s", failed.Detail)
	case err != nil:
		return nil, err
	}
	if expected != "" && file.Digest != expected {
		return nil, errors.Join(refuse(http.StatusBadRequest, "the archive that arrived has the digest %s, not %s: upload it again", file.Digest, expected), file.Remove())
	}
	return file, nil
}

func (h *Handler) leads() bool {
	select {
	case <-h.Elected:
		return true
	default:
		return false
	}
}

func (h *Handler) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.requests >= maxRequests {
		return false
	}
	h.requests++
	return true
}

func (h *Handler) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.requests--
}

// reserve allows one upload in a namespace, and maxUploads in all.
func (h *Handler) reserve(namespace string) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.namespaces[namespace]:
		return nil, refuse(http.StatusConflict, "another archive is being uploaded in namespace %q: try again when that has ended", namespace)
	case len(h.namespaces) >= maxUploads:
		return nil, refuse(http.StatusTooManyRequests, "%d uploads are in progress: try again later", maxUploads)
	case h.namespaces == nil:
		h.namespaces = map[string]bool{}
	}
	h.namespaces[namespace] = true
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.namespaces, namespace)
	}, nil
}

// authenticate asks the API server whose token it is: one for the API server itself, or one for Audience. The error never
// contains the token.
func (h *Handler) authenticate(ctx context.Context, token string) (authenticationv1.UserInfo, error) {
	for _, audiences := range [][]string{nil, {Audience}} {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences}}
		if err := h.Client.Create(ctx, review); err != nil {
			return authenticationv1.UserInfo{}, fmt.Errorf("creating a TokenReview: %w", err)
		}
		if review.Status.Authenticated {
			return review.Status.User, nil
		}
	}
	return authenticationv1.UserInfo{}, refuse(http.StatusUnauthorized, "the API server does not accept the token")
}

// mayUpdate asks the API server whether a user may update an OperatorCollection, whether or not it exists, and is an administrator if
// that is required: admission policies, which the API server asks about a real update, are not part of its answer.
func (h *Handler) mayUpdate(ctx context.Context, user authenticationv1.UserInfo, oc types.NamespacedName) error {
	allowed, err := h.may(ctx, user, authorizationv1.ResourceAttributes{
		Group: v2beta2.GroupVersion.Group, Version: v2beta2.GroupVersion.Version, Resource: "operatorcollections",
		Verb: "update", Namespace: oc.Namespace, Name: oc.Name,
	})
	if err == nil && !allowed {
		err = refuse(http.StatusForbidden, "user %q may not update OperatorCollection %q in namespace %q", user.Username, oc.Name, oc.Namespace)
	}
	if err != nil || !h.AdministratorsOnly {
		return err
	}
	allowed, err = h.may(ctx, user, authorizationv1.ResourceAttributes{
		Group: v2beta2.GroupVersion.Group, Version: v2beta2.GroupVersion.Version, Resource: "administration", Verb: "use", Namespace: oc.Namespace,
	})
	if err == nil && !allowed {
		err = refuse(http.StatusForbidden, "only administrators may upload archives: ask for a RoleBinding of user %q to ClusterRole collection-operator-administrator in namespace %q",
			user.Username, oc.Namespace)
	}
	return err
}

func (h *Handler) may(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra, ResourceAttributes: &what,
	}}
	if err := h.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("creating a SubjectAccessReview: %w", err)
	}
	return review.Status.Allowed, nil
}
