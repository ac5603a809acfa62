package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// uploaderToken makes a ServiceAccount that may update OperatorCollections of its namespace, and returns a token of it. Without
// audiences the token is for the API server.
func uploaderToken(ctx context.Context, namespace string, audiences ...string) string {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("uploader%d", len(SecretValues))}}
	role := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "collection-operator-uploader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: account.Name}},
	}
	Create(ctx, account, role)
	user := "system:serviceaccount:" + namespace + ":" + account.Name
	awaitRight(ctx, user, namespace, "update", "operatorcollections", "zoscb.ibm.com")
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences}}
	Expect(K8s.SubResource("token").Create(ctx, account, request)).To(Succeed())
	SecretValues[fmt.Sprintf("token of an uploader (%d)", len(SecretValues))] = request.Status.Token
	return request.Status.Token
}

// request to the upload endpoint.
type request struct {
	method, path, token, digest string
	body                        io.Reader
}

func (r request) send(ctx context.Context) (status int, text string) {
	GinkgoHelper()
	outgoing, err := http.NewRequestWithContext(ctx, r.method, "https://"+theManager.artifactAddress, r.body)
	Expect(err).NotTo(HaveOccurred())
	outgoing.URL.Opaque = r.path // It is sent as it is, with its dots and escapes.
	outgoing.Header.Set("Expect", "100-continue")
	if r.token != "" {
		outgoing.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.digest != "" {
		outgoing.Header.Set("Collection-Digest", r.digest)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true, ExpectContinueTimeout: 10 * time.Second}
	response, err := transport.RoundTrip(outgoing)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	return response.StatusCode, strings.TrimSpace(string(content))
}

func push(ctx context.Context, namespace, token string, archive []byte) {
	GinkgoHelper()
	status, text := request{http.MethodPut, "/uploads/" + namespace + "/oc", token, DigestOf(archive), bytes.NewReader(archive)}.send(ctx)
	Expect(status).To(Equal(http.StatusCreated), text)
	Expect(text).To(Equal(DigestOf(archive)))
}

// pushed are the files of the upload endpoint.
func pushed() []string {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(theManager.storage, "uploads", "*", "*", "*"))
	Expect(err).NotTo(HaveOccurred())
	return files
}

func importedDigest(ctx context.Context, oc *v2beta2.OperatorCollection) func(Gomega) string {
	return Field(ctx, oc, "status", "artifact", "digest")
}

var skipping = v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true}

var _ = Describe("An upload", func() {
	It("is accepted only from who may update the OperatorCollection, and only as what it claims to be", attack.Label, func(ctx context.Context) {
		serveTLS(ctx, fmt.Sprintf("--max-uploaded-bytes-per-namespace=%d", fetchMaxBytes/2))
		mine, theirs := newNamespace(ctx), newNamespace(ctx)
		s := newSample()
		archive := s.archive()
		Create(ctx, newCollection(mine, "oc", skipping), newCollection(theirs, "oc", skipping), newCollection(mine, "fetched", s.pinned()))
		token, stranger := uploaderToken(ctx, mine), uploaderToken(ctx, theirs)
		elsewhere := uploaderToken(ctx, mine, "vault")
		path := "/uploads/" + mine + "/oc"
		small := func() io.Reader { return bytes.NewReader(archive) }
		large := func() io.Reader { return bytes.NewReader(make([]byte, fetchMaxBytes+1)) }
		for _, row := range []struct {
			attack  string
			request request
			status  int
			message string
		}{
			{"upload without a token", request{"PUT", path, "", "", small()}, 401, "token"},
			{"ask whether a namespace exists, without a token", request{"GET", "/uploads/kube-system/oc", "", "", nil}, 401, "token"},
			{"upload with a made-up token", request{"PUT", path, "eyJhbGciOiJub25lIn0.e30.", "", small()}, 401, "does not accept the token"},
			{"upload with a token for another service", request{"PUT", path, elsewhere, "", small()}, 401, "does not accept the token"},
			{"upload with the token of another tenant", request{"PUT", path, stranger, "", small()}, 403, "may not update OperatorCollection"},
			{"ask whether another tenant has an OperatorCollection", request{"PUT", "/uploads/" + mine + "/none", stranger, "", small()}, 403, "may not update"},
			{"leave the own folder with ..", request{"PUT", "/uploads/" + mine + "/../" + theirs + "/oc", token, "", small()}, 404, "path of an upload"},
			{"leave the own folder with an escaped path", request{"PUT", "/uploads/" + mine + "/..%2F" + theirs, token, "", small()}, 404, "path of an upload"},
			{"write to the folder of all uploads", request{"PUT", "/uploads/../suboperator/x", token, "", small()}, 404, "path of an upload"},
			{"read an upload", request{"GET", path, token, "", nil}, 405, "PUT"},
			{"upload for an OperatorCollection that does not exist", request{"PUT", "/uploads/" + mine + "/none", token, "", small()}, 404, "does not exist"},
			{"replace an archive that is fetched", request{"PUT", "/uploads/" + mine + "/fetched", token, "", small()}, 409, "spec.collectionURL"},
			{"upload too much", request{"PUT", path, token, "", large()}, 413, "larger than"},
			{"upload too much without saying how much", request{"PUT", path, token, "", io.MultiReader(large())}, 413, "larger than"},
			{"upload more than the namespace may keep", request{"PUT", path, token, "", bytes.NewReader(make([]byte, fetchMaxBytes/2+1))}, 507, "--max-uploaded-bytes-per-namespace"},
			{"upload another archive than announced", request{"PUT", path, token, DigestOf([]byte("other")), small()}, 400, "digest"},
			{"announce an unusable digest", request{"PUT", path, token, "md5:x", small()}, 400, "sha256"},
		} {
			status, text := row.request.send(ctx)
			Expect(status).To(Equal(row.status), row.attack+": "+text)
			Expect(text).To(ContainSubstring(row.message), row.attack)
			attack.Repelled("Uploads", row.attack, fmt.Sprintf("%d, and nothing is stored", row.status), fmt.Sprintf("%d %s", status, text))
		}
		Expect(pushed()).To(BeEmpty())

		By("being imported at once, with a token for the API server or for the manager alone")
		push(ctx, mine, token, archive)
		oc := newCollection(mine, "oc", skipping)
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(archive)))
		s.version = "1.0.1"
		newer := s.archive()
		push(ctx, mine, uploaderToken(ctx, mine, "collection-operator"), newer)
		Eventually(ctx, importedDigest(ctx, oc)).Should(Equal(DigestOf(newer)))

		By("not being touched by the same collection of another tenant")
		s.variables = "{name: other, displayName: Other, type: integer}"
		push(ctx, theirs, stranger, s.archive())
		Eventually(ctx, Condition(ctx, newCollection(theirs, "oc", skipping), v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithMessage(mine)))
		Eventually(ctx, pushed).Should(HaveExactElements(ContainSubstring("/"+theirs+"/oc/")),
			"uploads are kept until they are imported")
		Expect(importedDigest(ctx, oc)(Default)).To(Equal(DigestOf(newer)))
		attack.Repelled("Uploads", "upload another archive with the name and version of another tenant's collection",
			"each OperatorCollection has its own uploads", "the other tenant's archive is unchanged")

		By("being deleted with its OperatorCollection")
		removeCollections(ctx, theirs)
		Eventually(ctx, pushed).Should(BeEmpty())
	})

	It("is accepted only from administrators, where only they may change OperatorCollections", attack.Label, func(ctx context.Context) {
		serveTLS(ctx, "--administrators-only-uploads")
		namespace, s := newNamespace(ctx), newSample()
		archive := s.archive()
		Create(ctx, newCollection(namespace, "oc", skipping))
		token := uploaderToken(ctx, namespace) // As the roles that the Operator Lifecycle Manager extends let users update.
		status, text := request{"PUT", "/uploads/" + namespace + "/oc", token, "", bytes.NewReader(archive)}.send(ctx)
		Expect(status).To(Equal(http.StatusForbidden), text)
		Expect(text).To(ContainSubstring("collection-operator-administrator"))
		attack.Repelled("Uploads", "upload with the roles that the Operator Lifecycle Manager extends, where only administrators may change OperatorCollections",
			"403, and nothing is stored", fmt.Sprintf("%d %s", status, text))
		Expect(pushed()).To(BeEmpty())

		applyFile(ctx, "../../config/components/administrators-only/policy.yaml")
		Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "administrators"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "collection-operator-administrator"},
			Subjects:   []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + namespace}},
		})
		Eventually(ctx, func() int {
			status, _ := request{"PUT", "/uploads/" + namespace + "/oc", token, "", bytes.NewReader(archive)}.send(ctx)
			return status
		}).Should(Equal(http.StatusCreated))
		Eventually(ctx, importedDigest(ctx, newCollection(namespace, "oc", skipping))).Should(Equal(DigestOf(archive)))
	})

	It("is verified, does not run when it is older, and is not mistaken for an earlier one", func(ctx context.Context) {
		serveTLS(ctx)
		namespace, s := newNamespace(ctx), newSample()
		token := uploaderToken(ctx, namespace)
		archive := s.archive()
		oc := newCollection(namespace, "oc", v2beta2.OperatorCollectionSpec{Digest: DigestOf(archive)})
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonInvalidURL, "kubectl collection push", true)
		s.version = "0.9.0"
		older := s.archive()
		push(ctx, namespace, token, older)
		ExpectFailure(ctx, oc, v2beta2.ReasonDigestMismatch, DigestOf(older), true)
		push(ctx, namespace, token, archive)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())

		Patch(ctx, oc, `{"spec":{"digest":null,"skipSignatureVerification":true}}`)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		push(ctx, namespace, token, older)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionFalse(), WithReason(v2beta2.ReasonArtifactChanged)))
		Expect(importedDigest(ctx, oc)(Default)).To(Equal(DigestOf(archive)))

		push(ctx, namespace, token, archive)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Eventually(ctx, pushed).Should(BeEmpty())

		By("running on the volume of a former leader, which has an earlier upload and another OperatorCollection's")
		theManager.kill()
		theManager.loseArchives()
		for _, name := range []string{"oc", "gone"} {
			folder := filepath.Join(theManager.storage, "uploads", namespace, name)
			Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
			Expect(os.WriteFile(filepath.Join(folder, strings.TrimPrefix(DigestOf(older), "sha256:")+".tar.gz"), older, 0o644)).To(Succeed())
		}
		theManager.start(ctx)
		ExpectFailure(ctx, oc, v2beta2.ReasonArchiveNotUploaded, "upload it again", false)
		Eventually(ctx, pushed).Should(HaveExactElements(ContainSubstring("/oc/")))
		push(ctx, namespace, token, archive)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Eventually(ctx, pushed).Should(BeEmpty())
	})

	It("is made by kubectl collection push, which waits for the import", attack.Label, func(ctx context.Context) {
		serveTLS(ctx)
		namespace, s := newNamespace(ctx), newSample()
		binary, archive := toolBinary(), filepath.Join(GinkgoT().TempDir(), "archive.tar.gz")
		Expect(os.WriteFile(archive, s.archive(), 0o600)).To(Succeed())
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}}
		Create(ctx, account)
		arguments := func(more ...string) []string {
			return append([]string{"push", archive, "oc", "-n", namespace, "--manager-url=https://" + theManager.artifactAddress}, more...)
		}
		pushing := func(code int, message string, more ...string) {
			GinkgoHelper()
			session := startTool(binary, arguments(more...)...)
			Eventually(ctx, session).Should(gexec.Exit(code))
			Expect(string(session.Out.Contents()) + string(session.Err.Contents())).To(ContainSubstring(message))
		}
		pushing(2, "the kubeconfig has no token")
		pushing(2, "may not update OperatorCollection", "--service-account=robot")
		Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "collection-operator-uploader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "robot"}},
		})
		Eventually(ctx, func() string {
			session := startTool(binary, arguments("--service-account=robot")...)
			Eventually(ctx, session).Should(gexec.Exit(2))
			return string(session.Err.Contents())
		}).Should(ContainSubstring("does not exist in namespace"))
		oc := newCollection(namespace, "oc", skipping)
		Create(ctx, oc)
		pushing(0, DigestOf(s.archive()), "--service-account=robot")
		Expect(importedDigest(ctx, oc)(Default)).To(Equal(DigestOf(s.archive())))

		Expect(os.WriteFile(archive, []byte("no archive"), 0o600)).To(Succeed())
		pushing(1, "operatorcollections.zoscb.ibm.com/oc: ", "--service-account=robot", "--timeout=30s")

		By("not being sent to a server that is not the manager")
		impostor := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { defer GinkgoRecover(); Fail("it sent " + r.Method) }))
		defer impostor.Close()
		session := startTool(binary, "push", archive, "oc", "-n", namespace, "--manager-url="+impostor.URL, "--service-account=robot")
		Eventually(ctx, session).Should(gexec.Exit(2))
		Expect(string(session.Err.Contents())).To(ContainSubstring("certificate"))
		attack.Repelled("Uploads", "answer instead of the manager to get the token of who uploads", "the token is not sent", string(session.Err.Contents()))
	})

	It("into the manager's pod is ignored when the administrator switched that off", attack.Label, func(ctx context.Context) {
		theManager.restart(ctx, append(usualFlags[:len(usualFlags):len(usualFlags)], "--allow-exec-uploads=false")...)
		namespace, s := newNamespace(ctx), newSample()
		theManager.upload(s.name, s.version, s.archive())
		oc := newCollection(namespace, "oc", skipping)
		oc.Labels = map[string]string{"operator-domain": domain, "operator-name": s.name, "operator-version": s.version}
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonArchiveNotUploaded, "--allow-exec-uploads=false", false)
		attack.Repelled("Uploads", "copy an archive into the manager's pod, which is switched off", "it is ignored, and the status says so", oc.Status.Message)
	})
})
