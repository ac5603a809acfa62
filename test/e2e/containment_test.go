//go:build e2e

package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// Groups of attacks.
const (
	permissions     = "Permissions"
	secretsAndHosts = "Secrets and hosts"
	podsAndNetwork  = "Pods and network"
)

// enforced is the label that makes the API server refuse pods below a level of the Pod Security Standards.
const enforced = "pod-security.kubernetes.io/enforce"

// requestScript sends requests, "METHOD URL" each, and prints the status of each answer. Those to a path go to the API
// server with the pod's own token.
const requestScript = `
import ssl, sys, urllib.error, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
tls = ssl.create_default_context(cafile=account + "ca.crt")
token = open(account + "token").read()
for line in sys.argv[1:]:
    method, url = line.split(" ", 1)
    headers = {}
    if url.startswith("/"):
        url, headers = "https://kubernetes.default.svc" + url, {"Authorization": "Bearer " + token}
    request = urllib.request.Request(url, method=method, headers=headers, data=b"{}" if method in ("POST", "PUT") else None)
    try:
        print(urllib.request.urlopen(request, timeout=10, context=tls).status)
    except urllib.error.HTTPError as error:
        print(error.code)
`

// statuses are the answers to requests that somebody sends who can run code in an operator's pod.
func statuses(ctx context.Context, namespace, deployment string, requests ...string) []string {
	GinkgoHelper()
	args := []string{"exec", "-n", namespace, "deployment/" + deployment, "-c", "operator", "--", "python3", "-c", requestScript}
	answers := strings.Fields(kubectl(ctx, append(args, requests...)...))
	Expect(answers).To(HaveLen(len(requests)))
	return answers
}

// expectRestrictedPods checks that a namespace enforces the level restricted and that the pods of a component run there.
func expectRestrictedPods(ctx context.Context, namespace string, labels client.MatchingLabels) {
	GinkgoHelper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	Expect(K8s.Get(ctx, client.ObjectKeyFromObject(space), space)).To(Succeed())
	Expect(space.Labels).To(HaveKeyWithValue(enforced, "restricted"))
	var pods corev1.PodList
	Expect(K8s.List(ctx, &pods, client.InNamespace(namespace), labels)).To(Succeed())
	Expect(pods.Items).To(HaveLen(1))
	Expect(pods.Items[0].Status.Phase).To(Equal(corev1.PodRunning))

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "weaker", Namespace: namespace}, Spec: *pods.Items[0].Spec.DeepCopy()}
	pod.Spec.NodeName = ""
	Expect(K8s.Create(ctx, pod.DeepCopy(), client.DryRunAll)).To(Succeed())
	pod.Spec.Containers[0].SecurityContext.AllowPrivilegeEscalation = ptr.To(true)
	err := K8s.Create(ctx, pod, client.DryRunAll)
	Expect(err).To(MatchError(ContainSubstring("restricted")))
	attack.Repelled(podsAndNetwork, "run the pod of "+labels["component"]+labels["operator-name"]+" with more privileges where restricted is enforced",
		"the namespace admits the pod as it is, and not one that may escalate privileges", err.Error())
}

func containmentSpecs() {
	It("lets an operator's pod read no other object than it must", attack.Label, useToken)

	It("serves an archive to whoever names its digest, and nothing else to anybody", attack.Label, useArchives)

	It("runs the manager where the level restricted is enforced", attack.Label, func(ctx context.Context) {
		expectRestrictedPods(ctx, ManagerNamespace, client.MatchingLabels{"component": "manager"})
	})
}

// try is an attack by requests, each of which must get the same answer.
type try struct {
	attack, expected string
	requests         []string
}

// from sends the requests from the pod of the collection's operator.
func (t try) from(ctx context.Context, group string) {
	GinkgoHelper()
	seen := statuses(ctx, namespace, operator.Name, t.requests...)
	Expect(seen).To(HaveEach(t.expected), t.attack)
	attack.Repelled(group, t.attack, t.expected, strings.Join(seen, " "))
}

// useToken tries, with the token of an operator, what no operator may do.
func useToken(ctx context.Context) {
	Expect(statuses(ctx, namespace, operator.Name, "GET /apis/"+instanceAPI+"/namespaces/"+namespace+"/datafiles")).To(Equal([]string{"200"}))
	own, custom := "/api/v1/namespaces/"+namespace, "/apis/zoscb.ibm.com/v2beta2/namespaces/"+namespace
	for _, t := range []try{
		{"list the Secrets and the endpoints of its namespace", "403", []string{"GET " + own + "/secrets", "GET " + custom + "/zosendpoints"}},
		{"read Secrets of other namespaces", "403", []string{"GET /api/v1/secrets", "GET /api/v1/namespaces/" + ManagerNamespace + "/secrets/any"}},
		{"list Pods, make one, and run a command in one", "403", []string{"GET " + own + "/pods", "POST " + own + "/pods", "POST " + own + "/pods/any/exec?command=id"}},
		{"take a token of another ServiceAccount", "403", []string{"POST " + own + "/serviceaccounts/default/token"}},
		{"bind a role", "403", []string{"POST /apis/rbac.authorization.k8s.io/v1/namespaces/" + namespace + "/rolebindings"}},
		{"import a collection, and change an endpoint", "403", []string{"POST " + custom + "/operatorcollections", "PUT " + custom + "/zosendpoints/any"}},
		{"replace its own Deployment", "403", []string{"PUT /apis/apps/v1/namespaces/" + namespace + "/deployments/" + operator.Name}},
	} {
		t.attack = "an operator's token: " + t.attack
		t.from(ctx, permissions)
	}
	// Its kind has a variable of type password, and the Secrets that it may name are not known.
	Expect(statuses(ctx, namespace, operator.Name, "GET "+own+"/secrets/"+lpar1.credential.Name)).To(Equal([]string{"200"}))
}

// useArchives asks the server of archives for more than it should give.
func useArchives(ctx context.Context) {
	server := "http://collection-operator-artifacts." + ManagerNamespace + ".svc"
	hex, folder := strings.TrimPrefix(digest("files.tar.gz"), "sha256:"), server+"/artifacts/sha256/"
	exact, absent := folder+hex+".tar.gz", folder+strings.Repeat("0", 64)+".tar.gz"
	for _, t := range []try{
		{"list archives", "404", []string{"GET " + server + "/", "GET " + server + "/artifacts/", "GET " + folder, "HEAD " + server + "/artifacts/sha256"}},
		{"name a part of a digest, capitals, or another digest", "404", []string{
			"GET " + folder + hex[:12] + ".tar.gz", "GET " + folder + hex, "GET " + folder + strings.ToUpper(hex) + ".tar.gz", "HEAD " + absent,
		}},
		{"leave the folder", "404", []string{
			"GET " + folder + "../../etc/passwd", "GET " + folder + "..%2f..%2fetc%2fpasswd", "GET " + server + "//etc/passwd", "GET " + exact + "/../../../etc/passwd",
		}},
		{"write or delete", "405", []string{"POST " + exact, "PUT " + exact, "DELETE " + exact, "POST " + absent}},
	} {
		t.attack = "at the server of archives, from a pod of another namespace: " + t.attack
		t.from(ctx, podsAndNetwork)
	}
	Expect(statuses(ctx, namespace, operator.Name, "HEAD "+exact, "GET "+exact)).To(Equal([]string{"200", "200"}))
}
