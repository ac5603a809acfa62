package integration

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// withFlags restarts the manager with more flags than usual until the spec ends.
func withFlags(ctx context.Context, flags ...string) {
	GinkgoHelper()
	theManager.restart(ctx, append(slices.Clone(usualFlags), flags...)...)
}

// readySays is the reason and the message of an OperatorCollection.
func readySays(ctx context.Context, oc *v2beta2.OperatorCollection) string {
	GinkgoHelper()
	ready := Condition(ctx, oc, v2beta2.ConditionReady)(Default)
	return ready.Reason + ": " + ready.Message
}

// expectOverBudget waits until an OperatorCollection is not imported because of a budget.
func expectOverBudget(ctx context.Context, oc *v2beta2.OperatorCollection, message string) {
	GinkgoHelper()
	Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(
		ConditionFalse(), WithReason(v2beta2.ReasonBudgetExceeded), WithMessage(message)))
}

var _ = Describe("A budget", attack.Label, func() {
	const group = "Denial of service"

	It("of kinds keeps a collection with too many from being imported, and takes nothing away when it is lowered", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		other := newNamespace(ctx)
		installed := installSample(ctx, other, newSample())
		withFlags(ctx, "--max-kinds-per-namespace=1", "--max-kinds=2")
		another := newCollection(namespace, "another", newSample().pinned())
		Create(ctx, another)
		expectOverBudget(ctx, another, fmt.Sprintf("the budget of kinds in namespace %q is exceeded: 1 of 1 are used and 1 more are needed", namespace))
		stranger := newCollection(newNamespace(ctx), "oc", newSample().pinned())
		Create(ctx, stranger)
		expectOverBudget(ctx, stranger, "the budget of kinds in all namespaces is exceeded: 2 of 2 are used and 1 more are needed")
		ExpectReady(ctx, oc)
		ExpectReady(ctx, installed)
		By("upgrading what is installed: the same kind in another version needs no more")
		s.version = "1.1.0"
		Patch(ctx, oc, MustJSON(map[string]any{"spec": s.pinned()}))
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(WithMessage("version 1.1.0"))
		attack.Repelled(group, "import more kinds than the budget of the namespace, or of all, allows", "they are not imported, and what is installed is upgraded", readySays(ctx, stranger))
	})

	It("of versions keeps a CRD from growing without end: the next one is refused", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		withFlags(ctx, "--max-crd-versions=2")
		upgrade := func(version string) {
			s.version = version
			Patch(ctx, oc, MustJSON(map[string]any{"spec": s.pinned()}))
		}
		runs := func(version string) {
			GinkgoHelper()
			Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionTrue(), WithMessage("version "+version)))
			soc := defaultSOC(oc)
			Eventually(ctx, func(g Gomega) {
				Get(ctx, g, oc)
				Get(ctx, g, soc)
				g.Expect(soc.Status.Installations).To(HaveLen(1))
				g.Expect(soc.Status.Installations[0].Digest).To(Equal(oc.Status.Artifact.Digest))
			}).Should(Succeed())
			makeAvailable(ctx, namespace, s.operator())
			ExpectReady(ctx, soc)
		}
		definition := customResourceDefinition(s.crdName())
		names := func() []string {
			Get(ctx, Default, definition)
			var names []string
			for _, version := range definition.Spec.Versions {
				names = append(names, version.Name)
			}
			return names
		}
		upgrade("1.1.0")
		runs("1.1.0")
		Expect(names()).To(Equal([]string{"v1minor1patch0", "v1minor0patch0"}))
		By("refusing a third version")
		upgrade("1.2.0")
		expectOverBudget(ctx, oc, fmt.Sprintf("the budget of versions of CRD %q is exceeded: 2 of 2 are used and 1 more is needed", s.crdName()))
		observed := readySays(ctx, oc)
		Expect(names()).To(Equal([]string{"v1minor1patch0", "v1minor0patch0"}))
		Expect(Condition(ctx, defaultSOC(oc), v2beta2.ConditionReady)(Default)).To(ConditionTrue())
		By("importing it when an administrator has raised the limit")
		withFlags(ctx, "--max-crd-versions=3")
		runs("1.2.0")
		Expect(names()).To(HaveLen(3))
		attack.Repelled(group, "publish version after version", "the next one is refused, and the operator runs on", observed)
	})

	It("of probed ZosEndpoints lets the oldest be probed", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		withFlags(ctx, "--max-probed-endpoints-per-namespace=1")
		first := &v2beta2.ZosEndpoint{Spec: v2beta2.ZosEndpointSpec{Host: "127.0.0.1", Port: 1, CredentialName: "none"}}
		first.Namespace, first.Name = namespace, "first"
		Create(ctx, first)
		Eventually(ctx, Condition(ctx, first, v2beta2.ConditionReachable)).Should(WithReason(v2beta2.ReasonHostUnreachable))
		second := &v2beta2.ZosEndpoint{Spec: first.Spec}
		second.Namespace, second.Name = namespace, "second"
		Create(ctx, second)
		Eventually(ctx, Condition(ctx, second, v2beta2.ConditionReachable)).Should(And(
			ConditionFalse(), WithReason(v2beta2.ReasonBudgetExceeded), WithMessage("the budget of probed ZosEndpoints in namespace")))
		Expect(Condition(ctx, second, v2beta2.ConditionReady)(Default)).To(ConditionTrue())
	})

	It("of connections keeps the archives available while a client stalls hundreds of downloads", func(ctx context.Context) {
		s := newSample()
		s.files = map[string]string{"large.txt": noise(700 << 10)} // More than the buffers of a connection take.
		oc := importSample(ctx, newNamespace(ctx), s)
		Get(ctx, Default, oc)
		path := "/artifacts/sha256/" + strings.TrimPrefix(oc.Status.Artifact.Digest, "sha256:") + ".tar.gz"
		connections := stallDownloads(ctx, theManager.artifactAddress, path, 500)
		defer connections.close()
		content, err := downloadFrom(ctx, "127.0.0.3", "http://"+theManager.artifactAddress+path)
		Expect(err).NotTo(HaveOccurred())
		Expect(DigestOf(content)).To(Equal(oc.Status.Artifact.Digest))
		attack.Repelled(group, "stall 500 downloads of an archive", "others download it", fmt.Sprintf("another client got %d bytes", len(content)))
	})
})

var _ = Describe("A full volume", attack.Label, func() {
	It("is reported, keeps nothing half written, and does not affect what is installed", func(ctx context.Context) {
		theManager.stop()
		theManager.wrapper = []string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
			`mount -t tmpfs -o size=512k tmpfs "$0" && exec "$@"`, theManager.storage}
		DeferCleanup(func(ctx context.Context) {
			theManager.stop()
			theManager.wrapper = nil
			theManager.start(ctx)
		})
		theManager.start(ctx)
		namespace, s := newNamespace(ctx), newSample()
		installed := installSample(ctx, namespace, s)
		large := newSample()
		large.files = map[string]string{"large.txt": noise(700 << 10)}
		refused := newCollection(namespace, "large", large.pinned())
		Create(ctx, refused)
		Eventually(ctx, Condition(ctx, refused, v2beta2.ConditionReady)).Should(And(
			WithReason(v2beta2.ReasonStorageFull), WithMessage("the manager's volume for archives is full: enlarge it, or delete OperatorCollections")))
		inside := filepath.Join("/proc", fmt.Sprint(theManager.command.Process.Pid), "root", theManager.storage, ".artifacts", "tmp")
		Eventually(ctx, func() ([]os.DirEntry, error) { return os.ReadDir(inside) }).Should(BeEmpty())
		By("serving, installing and upgrading as before")
		Get(ctx, Default, installed)
		content, err := downloadFrom(ctx, "127.0.0.1", "http://"+theManager.artifactAddress+"/artifacts/sha256/"+strings.TrimPrefix(installed.Status.Artifact.Digest, "sha256:")+".tar.gz")
		Expect(err).NotTo(HaveOccurred())
		Expect(DigestOf(content)).To(Equal(installed.Status.Artifact.Digest))
		ExpectReady(ctx, installed)
		installSample(ctx, newNamespace(ctx), newSample())
		attack.Repelled("Denial of service", "fill the manager's volume", "a condition says so, and what is installed is unaffected", readySays(ctx, refused))
	})
})

// noise is text that does not compress well.
func noise(bytes int) string {
	text := make([]byte, bytes)
	for i := range text {
		text[i] = byte(' ' + rand.IntN(95))
	}
	return string(text)
}

// stalledDownloads are connections from which nothing is read.
type stalledDownloads []net.Conn

func (s stalledDownloads) close() {
	for _, connection := range s {
		_ = connection.Close()
	}
}

// stallDownloads asks for an archive over many connections from one address.
func stallDownloads(ctx context.Context, address, path string, number int) stalledDownloads {
	GinkgoHelper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}, Timeout: 10 * time.Second}
	var all stalledDownloads
	for range number {
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			continue // Refused, which is as good.
		}
		all = append(all, connection)
		_ = connection.(*net.TCPConn).SetReadBuffer(4 << 10)
		_, _ = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
	}
	return all
}

// downloadFrom downloads from a loopback address of its own.
func downloadFrom(ctx context.Context, from, url string) ([]byte, error) {
	GinkgoHelper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	browser := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := browser.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}
