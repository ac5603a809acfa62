//go:build e2e

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
	"github.com/collection-operator/collection-operator/test/registry"
)

// siteScript serves files over HTTPS with the certificate of the site, and as a proxy over HTTP, which takes any host for its own. Where it
// has no file it says what it was asked for.
const siteScript = `
import http.server, os, ssl, tarfile, threading, urllib.parse

tarfile.open("/etc/site/files.tar.gz").extractall("/srv")
os.chdir("/srv")

def serve(port, answer, context=None):
    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            asked, self.path = self.path, urllib.parse.urlsplit(self.path).path
            if os.path.exists(self.translate_path(self.path)):
                super().do_GET()
                return
            text = (answer + asked).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
    server = http.server.ThreadingHTTPServer(("", port), Handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/etc/site/tls.crt", "/etc/site/tls.key")
threading.Thread(target=serve, args=(8443, "trusted ", context)).start()
serve(3128, "proxied ")
`

// sitePlaybook says what it got from the site: variables, a file, and answers.
const sitePlaybook = `
- name: Tell what the site gives
  hosts: all
  gather_facts: false
  tasks:
    - name: Ask a server of the site's authority
      ansible.builtin.uri: {url: "https://site.e2e-site.svc.cluster.local/tls", return_content: true}
      register: trusted
      delegate_to: localhost
    - name: Ask through the site's proxy
      ansible.builtin.uri: {url: "http://outside.invalid/page", return_content: true}
      register: proxied
      delegate_to: localhost
    - name: Tell it
      operator_sdk.util.k8s_status:
        api_version: "{{ k8s_cr_version }}"
        kind: "{{ k8s_cr_kind }}"
        name: "{{ ansible_operator_meta.name }}"
        namespace: "{{ ansible_operator_meta.namespace }}"
        status:
          said: "{{ lookup('env', 'LICENSE') }}, {{ lookup('file', '/mnt/notes/text') }}, {{ trusted.content }}, {{ proxied.content }}, {{ ['deps_index'] | depslab.far.modules_versions }}"
      delegate_to: localhost
`

// connectScript connects to an address of nobody, and says how that failed.
const connectScript = `
import socket
try:
    socket.create_connection(("203.0.113.1", 443), timeout=20)
    print("connected")
except OSError as error:
    print(error.strerror or error)
`

// The site has everything itself: archives, a Galaxy server and a package index. A package comes through the proxy only.
var _ = Describe("A disconnected site with its own authority, proxy and settings", Ordered, func() {
	e := &environment{namespace: "e2e-site", domain: "site-lab"}
	host := "site." + e.namespace + ".svc.cluster.local"
	var archive []byte

	BeforeAll(func(ctx context.Context) {
		config := strings.NewReplacer("deps-lab", e.domain, "NAME", "site", "KIND", "SiteThing").Replace(dependentConfig)
		archive = Build(Minimal(e.domain, "site", "1.0.0", config, map[string]string{
			"play.yml": sitePlaybook, "requirements.yml": "- {name: depslab.far, version: 1.0.0}\n", "requirements.txt": "deps-index==1.0\n",
		}))
		e.start(ctx, nil)
		Create(ctx, &v2beta2.ZosEndpoint{ObjectMeta: e.meta("here"), Spec: v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointLocal}})
		authority, certificate, key := siteCertificate(host)
		files := registry.Files("https://"+host, []registry.Collection{sayingModules("far", "1.0.0")}, []registry.Package{{Name: "deps-index", Version: "1.0"}})
		files["site.tar.gz"] = archive
		e.startSite(ctx, certificate, key, registry.Tarball(files))
		trusted := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: "collection-operator-trusted-ca"},
			Data:       map[string]string{"ca-bundle.crt": authority},
		}
		Create(ctx, trusted)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, trusted) })
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	It("has no route outside", func(ctx context.Context) {
		Expect(kubectl(ctx, "exec", "-n", e.namespace, "deployment/site", "--", "python3", "-c", connectScript)).To(Equal("Network is unreachable\n"))
	})

	It("imports from there, installs dependencies from there, and reaches playbooks, but replaces nothing that decides what runs", func(ctx context.Context) {
		labelled := func(name string) metav1.ObjectMeta {
			meta := e.meta(name)
			meta.Labels = map[string]string{v2beta2.LabelRuntime: v2beta2.LabelRuntimeAll}
			return meta
		}
		Create(ctx,
			&corev1.Secret{ObjectMeta: labelled("settings"), StringData: map[string]string{
				"LICENSE": "licensed", "HTTP_PROXY": "http://" + host + ":3128",
				"PATH": "/evil", "ANSIBLE_CONFIG": "/evil", "PYTHONPATH": "/evil", "ZOSCB_SETTINGS": "/evil",
			}},
			&corev1.ConfigMap{ObjectMeta: labelled("notes"), Data: map[string]string{"text": "noted"}},
		)
		spec := e.spec("site.tar.gz", archive)
		spec.CollectionURL = "https://" + host + "/site.tar.gz"
		spec.Dependencies = &v2beta2.DependenciesSpec{
			GalaxyURL: "https://" + host + registry.GalaxyPath, PipIndexURL: "http://packages.invalid" + registry.IndexPath,
		}
		spec.Runtime = &v2beta2.RuntimeSpec{
			EnvFrom: []v2beta2.RuntimeEnvSource{{SecretRef: &v2beta2.RuntimeObject{Name: "settings"}}},
			Volumes: []v2beta2.RuntimeVolume{{Name: "notes", ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "notes"},
			}}},
			VolumeMounts: []v2beta2.RuntimeVolumeMount{{Name: "notes", MountPath: "/mnt/notes", ReadOnly: true}},
			PodLabels:    map[string]string{"team": "mainframe"},
		}
		e.installSpec(ctx, "site", spec)
		object := e.instance("v1minor0patch0", "SiteThing", "one", map[string]any{"zosendpoint": "here"})
		Create(ctx, object.DeepCopy())
		expectSuccess(ctx, object)
		Expect(Field(ctx, object, "status", "said")(Default)).To(Equal("licensed, noted, trusted /tls, proxied http://outside.invalid/page, far 1.0.0 with 1.0"))
		logs := kubectl(ctx, "logs", "-n", e.namespace, "deployment/"+e.domain+"-site-operator", "-c", "operator")
		Expect(logs).To(ContainSubstring(`runtime.envFrom cannot set ["ANSIBLE_CONFIG" "PATH" "PYTHONPATH" "ZOSCB_SETTINGS"]`))
	})
})

// siteCertificate returns an authority and a certificate of it with its key, in PEM.
func siteCertificate(host string) (authority, certificate, key string) {
	GinkgoHelper()
	issue := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		Expect(err).NotTo(HaveOccurred())
		template.SerialNumber, template.NotAfter = big.NewInt(time.Now().UnixNano()), time.Now().Add(time.Hour)
		if parent == nil {
			parent, signer = template, private
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
		Expect(err).NotTo(HaveOccurred())
		issued, err := x509.ParseCertificate(der)
		Expect(err).NotTo(HaveOccurred())
		return issued, private
	}
	own, signer := issue(&x509.Certificate{Subject: pkix.Name{CommonName: "site"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	leaf, private := issue(&x509.Certificate{DNSNames: []string{host}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, own, signer)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	Expect(err).NotTo(HaveOccurred())
	encode := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return encode("CERTIFICATE", own.Raw), encode("CERTIFICATE", leaf.Raw), encode("PRIVATE KEY", der)
}

// startSite starts the server and the proxy.
func (e *environment) startSite(ctx context.Context, certificate, key string, files []byte) {
	GinkgoHelper()
	labels := map[string]string{"app": "site"}
	container := corev1.Container{
		Name: "site", Image: "localhost/collection-operator/ssh-target:dev", ImagePullPolicy: corev1.PullIfNotPresent,
		Command:        []string{"python3", "-c", siteScript},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(3128)}}},
		VolumeMounts:   []corev1.VolumeMount{{Name: "certificate", MountPath: "/etc/site"}},
	}
	Create(ctx,
		&corev1.Secret{
			ObjectMeta: e.meta("site"), StringData: map[string]string{"tls.crt": certificate, "tls.key": key}, Data: map[string][]byte{"files.tar.gz": files},
		},
		&appsv1.Deployment{ObjectMeta: e.meta("site"), Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{container}, TerminationGracePeriodSeconds: new(int64),
				Volumes: []corev1.Volume{{Name: "certificate", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "site"}}}},
			}},
		}},
		&corev1.Service{ObjectMeta: e.meta("site"), Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{
			{Name: "https", Port: 443, TargetPort: intstr.FromInt32(8443)}, {Name: "proxy", Port: 3128, TargetPort: intstr.FromInt32(3128)},
		}}})
	kubectl(ctx, "rollout", "status", "-n", e.namespace, "deployment/site", "--timeout=3m")
}
