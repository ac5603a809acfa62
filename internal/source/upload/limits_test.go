package upload_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/upload"
)

func TestOneUploadInANamespaceAtOnce(t *testing.T) {
	r := newRig(t)
	token := r.uploader(t)
	first := r.put(token, "")
	first.body = &onRead{Reader: strings.NewReader("a"), do: func() {
		r.expect(t, "the second", r.put(token, "b"), http.StatusConflict, "another archive is being uploaded in namespace")
	}}
	r.expect(t, "the first", first, http.StatusCreated, "")
	r.expect(t, "the second, later", r.put(token, "b"), http.StatusCreated, "")
}

// Four archives arrive at once, from different namespaces, and a fifth does not.
func TestUploadsAtOnce(t *testing.T) {
	r := newRig(t)
	var uploads []request
	for range 5 {
		r.namespace = r.server.Namespace(t)
		r.newCollection(t, "oc", v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true})
		uploads = append(uploads, r.put(r.uploader(t), "a"))
	}
	for i := range uploads[1:] {
		uploads[i].body = &onRead{Reader: uploads[i].body, do: func() {
			if i == 3 {
				got := r.expect(t, "the fifth", uploads[4], http.StatusTooManyRequests, "4 uploads are in progress")
				if got.header.Get("Retry-After") == "" {
					t.Error("it does not say when to try again")
				}
				return
			}
			r.expect(t, "another one", uploads[i+1], http.StatusCreated, "")
		}}
	}
	r.expect(t, "the first", uploads[0], http.StatusCreated, "")
	uploads[4].body = strings.NewReader("a")
	r.expect(t, "the fifth, later", uploads[4], http.StatusCreated, "")
}

// Tokens that are checked are limited too: anybody can send them.
func TestRequestsAtOnce(t *testing.T) {
	r := newRig(t)
	checked, release := make(chan struct{}), make(chan struct{})
	r.Client = interceptor.NewClient(r.server.Client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if review, ok := object.(*authenticationv1.TokenReview); ok && len(review.Spec.Audiences) == 0 {
				checked <- struct{}{}
				<-release
			}
			return c.Create(ctx, object, options...)
		},
	})
	var requests sync.WaitGroup
	for range 32 {
		requests.Go(func() { r.expect(t, "a request", r.put("made-up", "a"), http.StatusUnauthorized, "") })
	}
	for range 32 {
		<-checked
	}
	r.expect(t, "an upload", r.put("made-up", "a"), http.StatusTooManyRequests, "too many uploads are in progress")
	close(release)
	requests.Wait()
	r.expectNothingStored(t)
	r.Client = r.server.Client
	r.expect(t, "later", r.put(r.uploader(t), "a"), http.StatusCreated, "")
}

func TestOtherPathsAreOthers(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/artifacts/a", strings.TrimSuffix(upload.Prefix, "/")} {
		if got := r.send(t, request{method: http.MethodPut, path: path, body: strings.NewReader("")}); got.status != http.StatusNotFound || got.header.Get("Cache-Control") != "" {
			t.Errorf("%s: got %d %s", path, got.status, got.text)
		}
	}
}
