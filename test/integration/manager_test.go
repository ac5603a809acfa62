package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	// managerAccount is the name of its ServiceAccount.
	managerAccount = ManagerName
	managerUser    = "system:serviceaccount:" + ManagerNamespace + ":" + managerAccount

	// fetchMaxBytes is the largest archive that the manager under test downloads.
	fetchMaxBytes = 1 << 20
	// fetchTimeout is how long a download may take.
	fetchTimeout = 3 * time.Second
	// probeInterval is how often endpoints are probed.
	probeInterval = 2 * time.Second
	// shortIntervals are how long the manager waits before it looks again at what is not watched.
	shortIntervals = "poll=500ms,missing=2s,conflict=200ms,run-grace=20s,storage-settles=2s,olm=1s,migration=1s,resources=1s,grant=500ms"
)

// usualFlags let the manager reach the servers of the specs, which are on loopback.
var usualFlags = []string{"--allow-local-addresses"}

// applyManifests installs CRDs, namespace and permissions as `make deploy` does, but no workload.
func applyManifests(ctx context.Context, config string) {
	GinkgoHelper()
	var files []string
	for _, pattern := range []string{"manager/namespace.yaml", "crd/bases/*.yaml", "rbac/*.yaml", "policy/*.yaml"} {
		matches, err := filepath.Glob(filepath.Join(config, pattern))
		Expect(err).NotTo(HaveOccurred())
		Expect(matches).NotTo(BeEmpty(), pattern)
		files = append(files, matches...)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		for _, object := range Manifests(file) {
			Expect(K8s.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("integration"))).To(Succeed(), file)
		}
	}
	Eventually(ctx, func(g Gomega) {
		crds := &apiextensionsv1.CustomResourceDefinitionList{}
		g.Expect(K8s.List(ctx, crds)).To(Succeed())
		g.Expect(crds.Items).NotTo(BeEmpty())
		for _, crd := range crds.Items {
			g.Expect(established(&crd)).To(BeTrue(), crd.Name)
		}
	}).Should(Succeed())
}

// managerProcess is the manager's binary, which can be killed and started again with the same storage.
type managerProcess struct {
	binary, storage, kubeconfig, logFile string
	artifactAddress, healthAddress       string
	metricsAddress                       string
	// flags are those that a spec may change before it starts the manager again.
	flags []string
	// wrapper is a command that runs the binary, if it is set.
	wrapper []string
	command *exec.Cmd
	exited  chan struct{}
}

func newManager(ctx context.Context, binary string) *managerProcess {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	m := &managerProcess{
		binary:          binary,
		storage:         filepath.Join(dir, "storage"),
		kubeconfig:      filepath.Join(dir, "kubeconfig"),
		logFile:         filepath.Join(dir, "log"),
		artifactAddress: freeAddress(),
		healthAddress:   freeAddress(),
		metricsAddress:  freeAddress(),
		flags:           usualFlags,
	}
	Expect(os.Mkdir(m.storage, 0o755)).To(Succeed())
	writeKubeconfig(ctx, managerAccount, m.kubeconfig)
	return m
}

// writeKubeconfig lets a process log on with a token of its ServiceAccount, so that its permissions are tested too.
func writeKubeconfig(ctx context.Context, name, file string) {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: name}}
	expiry := int64((2 * time.Hour).Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &expiry}}
	Expect(K8s.SubResource("token").Create(ctx, account, request)).To(Succeed())

	config := clientcmdapi.NewConfig()
	config.Clusters["cluster"] = &clientcmdapi.Cluster{
		Server: RestConfig.Host, CertificateAuthority: RestConfig.CAFile, CertificateAuthorityData: RestConfig.CAData,
	}
	config.AuthInfos["manager"] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["manager"] = &clientcmdapi.Context{Cluster: "cluster", AuthInfo: "manager"}
	config.CurrentContext = "manager"
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
}

// start returns once the manager serves and its controllers have begun to work. It does nothing if the manager runs.
func (m *managerProcess) start(ctx context.Context) {
	GinkgoHelper()
	if m.runs() {
		return
	}
	log, err := os.OpenFile(m.logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	Expect(err).NotTo(HaveOccurred())
	defer log.Close()
	words := append(slices.Clone(m.wrapper), m.binary)
	if m.binary == filepath.Join(binaries, "manager") { // A former version does not have the flag.
		words = append(words, "--intervals="+shortIntervals)
	}
	m.command = exec.Command(words[0], append(words[1:], append([]string{
		"--runtime-image=registry.invalid/runtime:integration",
		"--storage-dir=" + m.storage,
		"--artifact-bind-address=" + m.artifactAddress,
		"--artifact-url=http://" + m.artifactAddress,
		"--health-probe-bind-address=" + m.healthAddress,
		"--metrics-bind-address=" + m.metricsAddress,
		"--leader-elect=false",
		"--endpoint-probe-interval=" + probeInterval.String(),
		"--fetch-timeout=" + fetchTimeout.String(),
		fmt.Sprintf("--fetch-max-bytes=%d", fetchMaxBytes),
		"--zap-log-level=debug", "--zap-time-encoding=rfc3339nano",
	}, m.flags...)...)...)
	m.command.Env = append(os.Environ(), "KUBECONFIG="+m.kubeconfig)
	m.command.Stdout, m.command.Stderr = log, log
	Expect(m.command.Start()).To(Succeed())
	m.exited = make(chan struct{})
	go func(command *exec.Cmd, exited chan struct{}) {
		_ = command.Wait()
		close(exited)
	}(m.command, m.exited)
	Eventually(ctx, func(g Gomega) {
		select {
		case <-m.exited:
			StopTrying("the manager ended:\n" + m.log()).Now()
		default:
		}
		response, err := http.Get("http://" + m.healthAddress + "/readyz")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	}).Should(Succeed())
}

func (m *managerProcess) runs() bool {
	if m.exited == nil {
		return false
	}
	select {
	case <-m.exited:
		return false
	default:
		return true
	}
}

// restart starts the manager with other flags than usual until the spec ends.
func (m *managerProcess) restart(ctx context.Context, flags ...string) {
	GinkgoHelper()
	m.stop()
	m.flags = flags
	m.start(ctx)
	DeferCleanup(func(ctx context.Context) {
		m.stop()
		m.flags = usualFlags
		m.start(ctx)
	})
}

// kill ends the manager as a crash of its node would.
func (m *managerProcess) kill() {
	GinkgoHelper()
	Expect(m.command.Process.Kill()).To(Succeed())
	<-m.exited
}

// stop ends the manager as a kubelet does.
func (m *managerProcess) stop() {
	GinkgoHelper()
	_ = m.command.Process.Signal(os.Interrupt)
	Eventually(m.exited).Should(BeClosed())
}

func (m *managerProcess) log() string {
	content, err := os.ReadFile(m.logFile)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// logSince is the part of the log that was written at or after a time.
func (m *managerProcess) logSince(since time.Time) string {
	var lines []string
	for _, line := range strings.Split(m.log(), "\n") {
		_, rest, _ := strings.Cut(line, `"ts":"`)
		stamp, _, _ := strings.Cut(rest, `"`)
		if at, err := time.Parse(time.RFC3339Nano, stamp); err == nil && at.Before(since) {
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// checkLog looks for what must not happen in any spec.
func (m *managerProcess) checkLog() {
	GinkgoHelper()
	log := m.log()
	for _, word := range []string{"panic", "no kind is registered", "is forbidden: User"} {
		Expect(linesWith(log, word)).To(BeEmpty(), "in the manager's log")
	}
	for name, value := range SecretValues {
		Expect(strings.Contains(log, value)).To(BeFalse(), "the manager's log holds the %s", name)
	}
}

func linesWith(text, word string) []string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, word) {
			lines = append(lines, line)
		}
	}
	return lines
}

// portsOfProcess are those from which each process of the suite takes addresses. They lie below what the kernel gives outgoing connections,
// which could take a port between the moment that it is found free and that a manager listens.
const portsOfProcess = 1000

var lastPort int

// freeAddress returns an address that no other process of the suite gets.
func freeAddress() string {
	GinkgoHelper()
	for range portsOfProcess {
		lastPort = (lastPort + 1) % portsOfProcess
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 18000+portsOfProcess*GinkgoParallelProcess()+lastPort))
		if err == nil {
			defer listener.Close()
			return listener.Addr().String()
		}
	}
	Fail("no port is free")
	return ""
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue {
			return true
		}
	}
	return false
}

// upload puts an archive where clients upload them to.
func (m *managerProcess) upload(name, version string, archive []byte) {
	GinkgoHelper()
	dir := filepath.Join(m.storage, "suboperator", name, version)
	Expect(os.MkdirAll(dir, 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(dir, name+".tar.gz"), archive, 0o644)).To(Succeed())
}

// loseArchives empties the artifact store, as the loss of an emptyDir does.
func (m *managerProcess) loseArchives() {
	GinkgoHelper()
	Expect(os.RemoveAll(filepath.Join(m.storage, ".artifacts"))).To(Succeed())
}

// storedArchives are the files of the artifact store.
func (m *managerProcess) storedArchives() []string {
	GinkgoHelper()
	files, err := filepath.Glob(filepath.Join(m.storage, ".artifacts", "sha256", "*"))
	Expect(err).NotTo(HaveOccurred())
	return files
}
