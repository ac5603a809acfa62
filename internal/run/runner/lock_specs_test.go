package runner_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("The lock of an operator's pod", func() {
	It("ends by SIGTERM when it has just been taken", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newOperatorPod(ctx, namespace)
		engine := filepath.Join(pod.Dir, "bin/engine")
		Expect(os.Symlink(EngineBinary, engine)).To(Succeed())
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		port := listener.Addr().(*net.TCPAddr).Port
		Expect(listener.Close()).To(Succeed())
		for range 5 {
			lease := gateLease(namespace)
			Get(ctx, Default, lease)
			lease.Spec = coordinationv1.LeaseSpec{}
			Expect(K8s.Update(ctx, lease)).To(Succeed())
			// As in the entrypoint of the pod.
			command := exec.Command("/bin/sh", "-c", `"$0" lock && exec sleep 1000`, engine)
			command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			command.Env = append(pod.Environment(), "ZOSCB_PROBE_PORT="+strconv.Itoa(port))
			command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
			Expect(command.Start()).To(Succeed())
			DeferCleanup(func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) })
			ended := make(chan error)
			go func() { ended <- command.Wait() }()
			Eventually(ctx, func(g Gomega) {
				Get(ctx, g, lease)
				g.Expect(lease.Spec.HolderIdentity).NotTo(BeNil())
			}).WithPolling(time.Millisecond).Should(Succeed())
			Expect(command.Process.Signal(syscall.SIGTERM)).To(Succeed())
			Eventually(ctx, ended).WithTimeout(10 * time.Second).Should(Receive())
		}
	})
})
