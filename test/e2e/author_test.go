//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// author works in a folder of a machine that has podman, and uses the runtime image from the storage in which it was built.
type author struct{ folder string }

// authorSpecs run a collection in a container, as an author without Ansible does.
func authorSpecs() {
	It("is run by kubectl collection run --container, which leaves no container when it is interrupted", func(ctx context.Context) {
		a := newAuthor(ctx)
		By("creating what the resource describes")
		printed, err := a.command("run", "users", "User", "--filename=user.yaml").CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(printed))
		Expect(string(printed)).To(ContainSubstring("Succeeded after"))
		Expect(lpar1.shell(ctx, "stat -c '%U %a' /tmp/by-author.txt && cat /tmp/by-author.txt")).To(Equal("ibmuser 640\nHello from a desk\n"))

		By("being interrupted")
		playbook := filepath.Join(a.folder, "users", "playbooks", "user.yml")
		content, err := os.ReadFile(playbook)
		Expect(err).NotTo(HaveOccurred())
		content = append(content, "\n    - name: Hold\n      ansible.builtin.pause: {seconds: 600}\n"...)
		Expect(os.WriteFile(playbook, content, 0o600)).To(Succeed())
		command := a.command("run", "users", "User", "--filename=user.yaml", "--secret-env=mine/password=AUTHORS_PASSWORD")
		command.Env = append(command.Env, "AUTHORS_PASSWORD=correct horse battery")
		session, err := gexec.Start(command, GinkgoWriter, GinkgoWriter)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { session.Kill() })
		Eventually(ctx, session.Out).Should(gbytes.Say(`TASK \[Hold\]`))
		running := strings.TrimSpace(a.podman(ctx, "ps", "--quiet"))
		Expect(a.podman(ctx, "inspect", running)).NotTo(ContainSubstring("correct horse battery"))
		Expect(a.podman(ctx, "inspect", "--format={{.EffectiveCaps}} {{.HostConfig.ReadonlyRootfs}}", running)).To(Equal("[] true\n"))
		session.Interrupt()
		Eventually(ctx, session).Should(gexec.Exit(1))
		Expect(string(session.Out.Contents())).To(ContainSubstring("Cancelled after"))
		Expect(a.podman(ctx, "ps", "--all", "--quiet")).To(BeEmpty())
	})
}

// newAuthor makes a folder with a collection, a resource, and what ssh needs to log on to lpar1.
func newAuthor(ctx context.Context) author {
	GinkgoHelper()
	a := author{folder: GinkgoT().TempDir()}
	Run(ctx, kubectlCollection, "init", filepath.Join(a.folder, "users"), "--domain=desk", "--kind=User")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: lpar1.name + "-target"}}
	Expect(K8s.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
	hostKey, err := ssh.ParsePrivateKey(secret.Data["host_key"])
	Expect(err).NotTo(HaveOccurred())
	a.write("known_hosts", lpar1.address(ctx)+" "+string(ssh.MarshalAuthorizedKey(hostKey.PublicKey())))
	live := &corev1.Secret{}
	Expect(client.IgnoreNotFound(K8s.Get(ctx, client.ObjectKeyFromObject(lpar1.credential), live))).To(Succeed())
	a.write("key", cmp.Or(string(live.Data["ssh-privatekey"]), lpar1.credential.StringData["ssh-privatekey"]))
	a.write("user.yaml", `apiVersion: suboperator.zoscb.ibm.com/v0minor1patch0
kind: User
metadata: {name: mine}
spec: {zosendpoint: lpar1, filename: by-author.txt, content: Hello from a desk}
`)
	storage, err := os.ReadFile(filepath.Join(projectDir, ".devcluster", "containers", "storage.conf"))
	Expect(err).NotTo(HaveOccurred())
	a.write("storage.conf", storageBeside(string(storage), a.folder))
	// podman raises limits, which root of a virtual machine may not be allowed to.
	a.write("containers.conf", "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n")
	return a
}

// storageBeside returns the configuration of a storage in a folder that reads the images of another one.
func storageBeside(configuration, folder string) string {
	GinkgoHelper()
	var driver, images string
	for line := range strings.Lines(configuration) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch key {
		case "driver":
			driver = value
		case "graphroot":
			images = value
		}
	}
	Expect(images).NotTo(BeEmpty(), configuration)
	return "[storage]\ndriver = " + driver + "\ngraphroot = \"" + folder + "/storage\"\nrunroot = \"" + folder + "/state\"\n" +
		"[storage.options]\nadditionalimagestores = [" + images + "]\n[storage.options.overlay]\nskip_mount_home = \"true\"\n"
}

// address is that of the target's pod, which this machine reaches.
func (t *target) address(ctx context.Context) string {
	GinkgoHelper()
	return strings.TrimSpace(kubectl(ctx, "get", "pods", "-n", namespace, "-l", "app="+t.name, "-o", "jsonpath={.items[0].status.podIP}"))
}

func (a author) write(name, content string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(a.folder, name), []byte(content), 0o600)).To(Succeed())
}

// command is one of the tool in a container that logs on to lpar1.
func (a author) command(args ...string) *exec.Cmd {
	GinkgoHelper()
	known, err := os.ReadFile(filepath.Join(a.folder, "known_hosts"))
	Expect(err).NotTo(HaveOccurred())
	address, _, _ := strings.Cut(string(known), " ")
	args = append(args, "--host="+lpar1.user+"@"+address, "--key=key", "--known-hosts=known_hosts", "--container", "--image=localhost/collection-operator/runtime")
	command := exec.Command(kubectlCollection, args...)
	command.Dir, command.Env = a.folder, a.environment()
	return command
}

func (a author) environment() []string {
	return append(os.Environ(), "CONTAINERS_STORAGE_CONF="+filepath.Join(a.folder, "storage.conf"), "CONTAINERS_CONF="+filepath.Join(a.folder, "containers.conf"))
}

func (a author) podman(ctx context.Context, args ...string) string {
	GinkgoHelper()
	command := exec.CommandContext(ctx, "podman", args...)
	command.Env, command.Stderr = a.environment(), GinkgoWriter
	output, err := command.Output()
	Expect(err).NotTo(HaveOccurred())
	return string(output)
}
