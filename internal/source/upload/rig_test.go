package upload_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/internal/source/upload"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

const maxBytes = 1000

// rig is a handler that leads, behind an HTTPS server, in whose namespace an OperatorCollection awaits an upload.
type rig struct {
	*upload.Handler
	namespace string
	server    *apiserver.Server
	https     *httptest.Server
	dir       string

	mutex    sync.Mutex
	received []string // What Received was told.
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server := apiserver.Shared(t)
	r := &rig{server: server, namespace: server.Namespace(t), dir: t.TempDir()}
	archives, err := store.Open(filepath.Join(r.dir, "store"))
	apiserver.Must(t, err)
	elected := make(chan struct{})
	close(elected)
	r.Handler = &upload.Handler{
		Client: server.Client, Reader: server.Client, Store: archives, MaxBytes: maxBytes, Elected: elected,
		Pushes: &store.Pushes{Dir: filepath.Join(r.dir, "pushes")},
		Received: func(_ context.Context, oc types.NamespacedName, archive digest.Digest) error {
			r.mutex.Lock()
			defer r.mutex.Unlock()
			r.received = append(r.received, fmt.Sprintf("%s %s", oc, archive))
			return nil
		},
	}
	r.https = httptest.NewTLSServer(upload.Route(r.Handler, http.NotFoundHandler()))
	t.Cleanup(r.https.Close)
	r.newCollection(t, "oc", v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true})
	return r
}

func (r *rig) newCollection(t *testing.T, name string, spec v2beta2.OperatorCollectionSpec) *v2beta2.OperatorCollection {
	t.Helper()
	oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}, Spec: spec}
	apiserver.Must(t, r.server.Client.Create(t.Context(), oc))
	return oc
}

// token returns a token of a ServiceAccount of a namespace; without audiences it is for the API server.
func (r *rig) token(t *testing.T, namespace string, audiences ...string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	apiserver.Must(t, r.server.Client.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// allow lets the ServiceAccount default of a namespace use a verb of a resource in it.
func (r *rig) allow(t *testing.T, namespace, verb, resource string) {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: verb + "-" + resource}
	subject := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "default"}
	group := v2beta2.GroupVersion.Group
	apiserver.Must(t, r.server.Client.Create(t.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb},
	}}}))
	apiserver.Must(t, r.server.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: []rbacv1.Subject{subject},
	}))
	apiserver.Must(t, wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               fmt.Sprintf("system:serviceaccount:%s:default", namespace),
			ResourceAttributes: &authorizationv1.ResourceAttributes{Group: group, Resource: resource, Verb: verb, Namespace: namespace},
		}}
		return review.Status.Allowed, r.server.Client.Create(ctx, review)
	}))
}

// uploader returns a token of a ServiceAccount that may update the OperatorCollections of the namespace.
func (r *rig) uploader(t *testing.T) string {
	t.Helper()
	r.allow(t, r.namespace, "update", "operatorcollections")
	return r.token(t, r.namespace)
}

// request is one to the server. The body is read when the server asks for it.
type request struct {
	method, path, token string
	header              map[string]string
	body                io.Reader
}

func (r *rig) put(token, content string) request {
	return request{method: http.MethodPut, path: upload.Prefix + r.namespace + "/oc", token: token, body: strings.NewReader(content)}
}

// answer of the server.
type answer struct {
	status int
	text   string
	header http.Header
}

func (r *rig) send(t *testing.T, request request) answer {
	t.Helper()
	outgoing, err := http.NewRequestWithContext(t.Context(), request.method, r.https.URL, request.body)
	apiserver.Must(t, err)
	outgoing.URL.Opaque = request.path // It is sent as it is, with its dots and escapes.
	outgoing.Header.Set("Expect", "100-continue")
	if request.token != "" {
		outgoing.Header.Set("Authorization", "Bearer "+request.token)
	}
	for name, value := range request.header {
		outgoing.Header.Set(name, value)
	}
	transport := r.https.Client().Transport.(*http.Transport).Clone()
	transport.ExpectContinueTimeout, transport.DisableKeepAlives = time.Hour, true
	response, err := transport.RoundTrip(outgoing)
	apiserver.Must(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	apiserver.Must(t, err)
	return answer{response.StatusCode, strings.TrimSpace(string(content)), response.Header}
}

// expect sends a request, and compares the answer.
func (r *rig) expect(t *testing.T, name string, request request, status int, text string) answer {
	t.Helper()
	got := r.send(t, request)
	if got.status != status || !strings.Contains(got.text, text) {
		t.Errorf("%s: got %d %s, want %d %s", name, got.status, got.text, status, text)
	}
	return got
}

// expectNothingStored expects that no upload is there or was reported, and that nothing is left of those that were refused.
func (r *rig) expectNothingStored(t *testing.T) {
	t.Helper()
	if files := r.files(t); len(files)+len(r.received) > 0 {
		t.Errorf("stored %v, reported %v", files, r.received)
	}
}

// files returns the files that are stored or arrive.
func (r *rig) files(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, folder := range []string{"pushes", "store/tmp"} {
		root := filepath.Join(r.dir, folder)
		apiserver.Must(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if os.IsNotExist(err) && path == root {
				return nil
			}
			if err == nil && entry.Type().IsRegular() {
				path, err = filepath.Rel(r.dir, path)
				files = append(files, path)
			}
			return err
		}))
	}
	return files
}

// onRead is a body that does something before its content is read.
type onRead struct {
	io.Reader
	once sync.Once
	do   func()
}

func (o *onRead) Read(p []byte) (int, error) {
	o.once.Do(o.do)
	return o.Reader.Read(p)
}

func hexOf(content string) string { return digest.FromString(content).Encoded() }

// isOf reports whether an object is one of a kind, for interceptors.
func isOf[T client.Object](object client.Object) bool {
	_, is := object.(T)
	return is
}
