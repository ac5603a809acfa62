package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// managerPair are two managers, each with a storage and a loopback address of its own. They elect a leader within seconds. The
// specs write the status of their Pods, as a kubelet does.
type managerPair struct {
	managers [2]*managerProcess
	hosts    [2]string
}

// nowhere is a loopback address at which nobody listens.
const nowhere = "127.0.0.9"

// startPair ends the usual manager, which elects no leader, until the spec ends. HOST in a flag is a manager's own address, and PORT
// that of the archive servers.
func startPair(ctx context.Context, flags ...string) *managerPair {
	GinkgoHelper()
	theManager.stop()
	DeferCleanup(func(ctx context.Context) { theManager.start(ctx) })
	pair := &managerPair{hosts: [2]string{"127.0.0.1", "127.0.0.2"}}
	_, port, err := net.SplitHostPort(freeAddress())
	Expect(err).NotTo(HaveOccurred())
	for i, host := range pair.hosts {
		m := newManager(ctx, theManager.binary)
		m.artifactAddress = net.JoinHostPort(host, port)
		m.flags = []string{
			"--allow-local-addresses", "--leader-elect=true",
			"--intervals=" + shortIntervals + ",copies=3s,lease=4s,lease-renew-deadline=3s,lease-retry=500ms",
			"--pod-name=" + pair.pod(i).Name, "--artifact-url=http://127.0.0.1:" + port,
		}
		for _, flag := range flags {
			m.flags = append(m.flags, strings.NewReplacer("HOST", host, "PORT", port).Replace(flag))
		}
		pair.managers[i] = m
		pair.makePod(ctx, i)
		DeferCleanup(func() {
			m.stop()
			m.checkLog()
		})
	}
	for _, m := range pair.managers {
		m.start(ctx)
	}
	pair.leader(ctx)
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			for i, m := range pair.managers {
				AddReportEntry(fmt.Sprintf("the log of manager %d", i), m.log())
			}
		}
	})
	return pair
}

func (p *managerPair) pod(i int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: ManagerNamespace, Name: fmt.Sprintf("%s-%d", ManagerName, i),
		Labels: map[string]string{"app.kubernetes.io/name": "collection-operator"},
	}}
}

// makePod makes the Pod of a manager that runs.
func (p *managerPair) makePod(ctx context.Context, i int) {
	GinkgoHelper()
	pod := p.pod(i)
	pod.Spec = corev1.PodSpec{
		AutomountServiceAccountToken: ptr.To(false),
		SecurityContext:              &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{Name: "manager", Image: "manager", SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}}},
	}
	Create(ctx, pod)
	DeferCleanup(func(ctx context.Context) { Remove(ctx, p.pod(i)) })
	p.setStatus(ctx, i, p.hosts[i], true)
}

// setStatus says at which address a manager can be reached, and whether it is ready. One that is not has not been for long.
func (p *managerPair) setStatus(ctx context.Context, i int, address string, ready bool) {
	GinkgoHelper()
	pod := p.pod(i)
	status, since := corev1.ConditionTrue, time.Now()
	if !ready {
		status, since = corev1.ConditionFalse, since.Add(-time.Hour)
	}
	Eventually(ctx, func(g Gomega) { // The leader writes the labels.
		Get(ctx, g, pod)
		pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(since)}}
		g.Expect(K8s.Status().Update(ctx, pod)).To(Succeed())
	}).Should(Succeed())
}

// cut makes the managers unreachable for each other, and heal undoes it. They use a list of their Pods for a second.
func (p *managerPair) cut(ctx context.Context) {
	GinkgoHelper()
	for i := range p.managers {
		p.setStatus(ctx, i, nowhere, true)
	}
	Eventually(ctx, time.After(1500*time.Millisecond)).Should(Receive())
}

func (p *managerPair) heal(ctx context.Context) {
	GinkgoHelper()
	for i, host := range p.hosts {
		p.setStatus(ctx, i, host, true)
	}
}

// marked are the managers whose Pods have the label that clients look for.
func (p *managerPair) marked(ctx context.Context) func(Gomega) []int {
	return func(g Gomega) []int {
		var marked []int
		for i := range p.managers {
			pod := p.pod(i)
			g.Expect(client.IgnoreNotFound(K8s.Get(ctx, client.ObjectKeyFromObject(pod), pod))).To(Succeed())
			if pod.Labels["component"] == "manager" {
				marked = append(marked, i)
			}
		}
		return marked
	}
}

// leader waits for one.
func (p *managerPair) leader(ctx context.Context) int {
	GinkgoHelper()
	var marked []int
	Eventually(ctx, func(g Gomega) {
		marked = p.marked(ctx)(g)
		g.Expect(marked).To(HaveLen(1))
	}).Should(Succeed())
	return marked[0]
}

// kill ends a manager and its Pod's readiness, as when its node fails.
func (p *managerPair) kill(ctx context.Context, i int) {
	GinkgoHelper()
	p.managers[i].kill()
	p.setStatus(ctx, i, p.hosts[i], false)
}

// restart starts a manager that was killed.
func (p *managerPair) restart(ctx context.Context, i int) {
	GinkgoHelper()
	p.setStatus(ctx, i, p.hosts[i], true)
	p.managers[i].start(ctx)
}

// takeOver kills the leader and returns once the other one leads.
func (p *managerPair) takeOver(ctx context.Context, leader int) int {
	GinkgoHelper()
	p.kill(ctx, leader)
	p.awaitLeader(ctx, 1-leader)
	return 1 - leader
}

func (p *managerPair) awaitLeader(ctx context.Context, leader int) {
	GinkgoHelper()
	Eventually(ctx, p.marked(ctx)).Should(ConsistOf(leader))
}

// upload copies an archive into the pod of the manager that leads, and creates an OperatorCollection that takes it.
func (p *managerPair) upload(ctx context.Context, namespace string, s *sample) *v2beta2.OperatorCollection {
	GinkgoHelper()
	p.managers[p.leader(ctx)].upload(s.name, s.version, s.archive())
	return createUploaded(ctx, namespace, s)
}

func createUploaded(ctx context.Context, namespace string, s *sample) *v2beta2.OperatorCollection {
	GinkgoHelper()
	oc := newCollection(namespace, s.name, v2beta2.OperatorCollectionSpec{Digest: DigestOf(s.archive())})
	oc.Labels = s.labels()
	Create(ctx, oc)
	return oc
}

// serves returns the status with which a manager answers a pod that asks for an archive.
func (p *managerPair) serves(i int, content []byte) int {
	GinkgoHelper()
	response, err := http.Get("http://" + p.managers[i].artifactAddress + "/artifacts/sha256/" + DigestOf(content)[len("sha256:"):] + ".tar.gz")
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	return response.StatusCode
}

// holds says whether a manager has an archive.
func (p *managerPair) holds(i int, content []byte) func() bool {
	file := DigestOf(content)[len("sha256:"):] + ".tar.gz"
	return func() bool {
		for _, path := range p.managers[i].storedArchives() {
			if len(path) >= len(file) && path[len(path)-len(file):] == file {
				return true
			}
		}
		return false
	}
}

func (p *managerPair) expectCopies(ctx context.Context, content []byte) {
	GinkgoHelper()
	for i := range p.managers {
		Eventually(ctx, p.holds(i, content)).Should(BeTrue(), "manager %d", i)
	}
}
