package upload_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/upload"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestAnUploadIsStoredAndReported(t *testing.T) {
	r := newRig(t)
	token := r.uploader(t)
	for name, test := range map[string]struct{ token, announced string }{
		"with a token of the API server":  {token, ""},
		"with a token for the manager":    {r.token(t, r.namespace, upload.Audience), ""},
		"whose digest is announced":       {token, digest.FromString("whose digest is announced").String()},
		"that replaces the one before it": {token, ""},
	} {
		r.received = nil
		request := r.put(test.token, name)
		request.header = map[string]string{upload.DigestHeader: test.announced}
		got := r.expect(t, name, request, http.StatusCreated, digest.FromString(name).String())
		if got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: it may be cached: %v", name, got.header)
		}
		if want := fmt.Sprintf("[%s/oc %s]", r.namespace, digest.FromString(name)); fmt.Sprint(r.received) != want {
			t.Errorf("%s: got %s, want %s", name, r.received, want)
		}
		if got, want := fmt.Sprint(r.files(t)), fmt.Sprintf("[pushes/%s/oc/%s.tar.gz]", r.namespace, hexOf(name)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// What is refused is not stored, and who may not upload learns nothing about what exists.
func TestWhatIsRefused(t *testing.T) {
	r := newRig(t)
	theirs := r.server.Namespace(t)
	r.allow(t, theirs, "update", "operatorcollections")
	r.newCollection(t, "fetched", v2beta2.OperatorCollectionSpec{CollectionURL: "https://example.com/a.tar.gz", SkipSignatureVerification: true})
	deleted := r.newCollection(t, "deleted", v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true})
	deleted.Finalizers = []string{"example.com/stay"}
	apiserver.Must(t, r.server.Client.Update(t.Context(), deleted))
	apiserver.Must(t, r.server.Client.Delete(t.Context(), deleted))
	token, stranger := r.uploader(t), r.token(t, theirs)
	r.Pushes.MaxBytes = maxBytes / 2
	path, below := upload.Prefix+r.namespace+"/oc", upload.Prefix+r.namespace
	large := strings.Repeat("x", maxBytes+1)
	for name, test := range map[string]struct {
		method, path, token, digest, content string
		status                               int
		text                                 string
	}{
		"without a token":                {"PUT", path, "", "", "a", 401, "a bearer token is needed"},
		"a question without a token":     {"GET", upload.Prefix + "kube-system/oc", "", "", "", 401, "a bearer token is needed"},
		"with a made-up token":           {"PUT", path, "eyJhbGciOiJub25lIn0.e30.", "", "a", 401, "does not accept the token"},
		"with a token for another":       {"PUT", path, r.token(t, r.namespace, "vault"), "", "a", 401, "does not accept the token"},
		"by another tenant":              {"PUT", path, stranger, "", "a", 403, `may not update OperatorCollection "oc" in namespace "` + r.namespace},
		"for none by another tenant":     {"PUT", below + "/none", stranger, "", "a", 403, `may not update OperatorCollection "none"`},
		"for none":                       {"PUT", below + "/none", token, "", "a", 404, "create it without spec.collectionURL"},
		"for one that is fetched":        {"PUT", below + "/fetched", token, "", "a", 409, "has a spec.collectionURL"},
		"for one that is deleted":        {"PUT", below + "/deleted", token, "", "a", 409, "is being deleted"},
		"a path with dots":               {"PUT", below + "/../" + theirs + "/oc", token, "", "a", 404, "the path of an upload is"},
		"a path with an escaped slash":   {"PUT", below + "/..%2F" + theirs, token, "", "a", 404, "the path of an upload is"},
		"a path without a name":          {"PUT", below, token, "", "a", 404, "the path of an upload is"},
		"a path with an invalid name":    {"PUT", below + "/OC", token, "", "a", 404, "the path of an upload is"},
		"another method":                 {"GET", path, token, "", "", 405, "the method of an upload is PUT"},
		"an archive that is too large":   {"PUT", path, token, "", large, 413, "larger than 1000 bytes"},
		"more than may be kept":          {"PUT", path, token, "", large[:maxBytes/2+1], 507, "too much was uploaded"},
		"another archive than announced": {"PUT", path, token, digest.FromString("b").String(), "a", 400, "upload it again"},
		"an announced md5":               {"PUT", path, token, "md5:d41d8cd98f00b204e9800998ecf8427e", "a", 400, "is not sha256:"},
		"an announced text":              {"PUT", path, token, "sha256:a", "a", 400, "is not sha256:"},
	} {
		request := request{test.method, test.path, test.token, map[string]string{upload.DigestHeader: test.digest}, strings.NewReader(test.content)}
		got := r.expect(t, name, request, test.status, test.text)
		for header, status := range map[string]int{"WWW-Authenticate": http.StatusUnauthorized, "Allow": http.StatusMethodNotAllowed} {
			if isSet := got.header.Get(header) != ""; isSet != (test.status == status) {
				t.Errorf("%s: header %s is %q", name, header, got.header.Get(header))
			}
		}
		if test.token != "" && strings.Contains(got.text, test.token) {
			t.Errorf("%s: the answer has the token", name)
		}
	}
	unannounced := r.put(token, "")
	unannounced.body = io.MultiReader(strings.NewReader(large))
	r.expect(t, "too large without saying so", unannounced, http.StatusRequestEntityTooLarge, "larger than 1000 bytes")
	r.expectNothingStored(t)
}

// A token is not taken from a connection that others can read.
func TestNothingIsAcceptedWithoutTLS(t *testing.T) {
	r := newRig(t)
	for path, token := range map[string]string{upload.Prefix + r.namespace + "/oc": r.uploader(t), "/copies/demo/1.0.0/a.tar.gz": "peer"} {
		request, response := httptest.NewRequest(http.MethodPut, path, strings.NewReader("a")), httptest.NewRecorder()
		request.Header.Set("Authorization", "Bearer "+token)
		r.ServeHTTP(response, request)
		if response.Code != http.StatusUnauthorized {
			t.Errorf("%s: got %d %s", path, response.Code, response.Body)
		}
	}
	r.expectNothingStored(t)
}

func TestOnlyTheLeaderAccepts(t *testing.T) {
	r := newRig(t)
	token, elected := r.uploader(t), make(chan struct{})
	r.Elected = elected
	if got := r.expect(t, "another", r.put(token, "a"), http.StatusServiceUnavailable, "not the leader"); got.header.Get("Retry-After") == "" {
		t.Error("it does not say when to try again")
	}
	r.expectNothingStored(t)
	close(elected)
	r.expect(t, "the leader", r.put(token, "a"), http.StatusCreated, "")
}

func TestAdministratorsOnly(t *testing.T) {
	r := newRig(t)
	token := r.uploader(t)
	r.AdministratorsOnly = true
	r.expect(t, "a user", r.put(token, "a"), http.StatusForbidden, "ClusterRole collection-operator-administrator in namespace \""+r.namespace)
	r.expectNothingStored(t)
	r.allow(t, r.namespace, "use", "administration")
	r.expect(t, "an administrator", r.put(token, "a"), http.StatusCreated, "")
}

// Authorizers may decide by any attribute of a user.
func TestTheAPIServerIsAskedAboutTheWholeUser(t *testing.T) {
	r := newRig(t)
	token := r.uploader(t)
	var user authenticationv1.UserInfo
	var asked []authorizationv1.SubjectAccessReviewSpec
	r.Client = interceptor.NewClient(r.server.Client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			err := c.Create(ctx, object, options...)
			switch review := object.(type) {
			case *authenticationv1.TokenReview:
				user = review.Status.User
			case *authorizationv1.SubjectAccessReview:
				asked = append(asked, review.Spec)
			}
			return err
		},
	})
	r.expect(t, "an upload", r.put(token, "a"), http.StatusCreated, "")
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	want := []authorizationv1.SubjectAccessReviewSpec{{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: "zoscb.ibm.com", Version: "v2beta2", Resource: "operatorcollections", Verb: "update", Namespace: r.namespace, Name: "oc",
		},
	}}
	if len(extra) == 0 || user.UID == "" || len(user.Groups) == 0 || !reflect.DeepEqual(asked, want) {
		t.Errorf("asked %+v, want %+v", asked, want)
	}
}

// What fails here is not the user's fault, and its cause is for the log.
func TestAQuestionThatFails(t *testing.T) {
	away := errors.New("away")
	failing := func(fails func(client.Object) bool) interceptor.Funcs {
		return interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
				if fails(object) {
					return away
				}
				return c.Create(ctx, object, options...)
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
				if fails(object) {
					return away
				}
				return c.Get(ctx, key, object, options...)
			},
		}
	}
	for name, fails := range map[string]func(client.Object) bool{
		"whose token it is":        isOf[*authenticationv1.TokenReview],
		"what the user may do":     isOf[*authorizationv1.SubjectAccessReview],
		"what the upload is for":   isOf[*v2beta2.OperatorCollection],
		"nothing of what is asked": func(client.Object) bool { return false },
	} {
		r := newRig(t)
		c := interceptor.NewClient(r.server.Client, failing(fails))
		r.Client, r.Reader = c, c
		token := r.uploader(t)
		if name == "nothing of what is asked" {
			r.expect(t, name, r.put(token, "a"), http.StatusCreated, "")
			continue
		}
		if got := r.expect(t, name, r.put(token, "a"), http.StatusInternalServerError, "see the manager's log"); strings.Contains(got.text, "away") {
			t.Errorf("%s: the answer has the cause: %s", name, got.text)
		}
		r.expectNothingStored(t)
	}
}

// An OperatorCollection may change while its archive arrives.
func TestWhatChangesWhileAnArchiveArrives(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, r *rig)
		status int
		text   string
	}{
		"it is deleted": {func(t *testing.T, r *rig) {
			apiserver.Must(t, r.server.Client.Delete(t.Context(), &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "oc"}}))
		}, http.StatusNotFound, "does not exist"},
		"its archive is fetched": {func(t *testing.T, r *rig) {
			oc := &v2beta2.OperatorCollection{}
			apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKey{Namespace: r.namespace, Name: "oc"}, oc))
			oc.Spec.CollectionURL = "https://example.com/a.tar.gz"
			apiserver.Must(t, r.server.Client.Update(t.Context(), oc))
		}, http.StatusConflict, "has a spec.collectionURL"},
		"it is deleted before the upload is reported": {func(_ *testing.T, r *rig) {
			r.Received = func(context.Context, types.NamespacedName, digest.Digest) error {
				return fmt.Errorf("patch: %w", apierrors.NewNotFound(v2beta2.GroupVersion.WithResource("operatorcollections").GroupResource(), "oc"))
			}
		}, http.StatusNotFound, "was deleted meanwhile"},
	} {
		r := newRig(t)
		request := r.put(r.uploader(t), "")
		request.body = &onRead{Reader: strings.NewReader("a"), do: func() { test.change(t, r) }}
		r.expect(t, name, request, test.status, test.text)
		r.expectNothingStored(t)
	}
}

// The next attempt to import finds an archive whose report failed.
func TestAnUploadThatCannotBeReportedStays(t *testing.T) {
	r := newRig(t)
	r.Received = func(context.Context, types.NamespacedName, digest.Digest) error { return errors.New("away") }
	r.expect(t, "the report", r.put(r.uploader(t), "a"), http.StatusInternalServerError, "see the manager's log")
	if got, want := fmt.Sprint(r.files(t)), fmt.Sprintf("[%s]", filepath.Join("pushes", r.namespace, "oc", hexOf("a")+".tar.gz")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnArchiveThatDoesNotArriveInTime(t *testing.T) {
	r := newRig(t)
	r.Timeout = 10 * time.Millisecond
	body, never := io.Pipe()
	defer never.Close()
	request := r.put(r.uploader(t), "")
	request.body = body
	r.expect(t, "a body that stalls", request, http.StatusBadRequest, "the archive did not arrive")
	r.expectNothingStored(t)
}
