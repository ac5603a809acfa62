package integration

import (
	"context"
	"os"
	"os/exec"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("A manager of an earlier version, which was a Deployment with one volume", func() {
	claim := func(name string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: name}}
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "old-archives"}}
	migrate := func(ctx context.Context, args ...string) (string, error) {
		command := exec.CommandContext(ctx, "../../hack/migrate.sh", args...)
		command.Env = append(os.Environ(), "KUBECTL="+findKubectl())
		// An interruption ends the script's commands too.
		command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
		output, err := command.CombinedOutput()
		return string(output), err
	}
	newClaim := claim("archives-" + ManagerName + "-0")

	It("hands its volume to the StatefulSet, also after an interruption, and no manager starts before", func(ctx context.Context) {
		capacity := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")}
		old := claim("collection-operator-archives")
		old.Spec = corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: volume.Name,
			Resources: corev1.VolumeResourceRequirements{Requests: capacity},
		}
		DeferCleanup(func(ctx context.Context) {
			for _, object := range []client.Object{deployment(ManagerNamespace, ManagerName), claim(old.Name), newClaim, volume} {
				_ = TryPatch(ctx, object, `{"metadata":{"finalizers":null}}`)
				Remove(ctx, object)
			}
		})
		Create(ctx, old)
		v := volume.DeepCopy()
		v.Spec = corev1.PersistentVolumeSpec{
			AccessModes: old.Spec.AccessModes, Capacity: capacity, StorageClassName: "fast",
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: old.Namespace, Name: old.Name, UID: old.UID},
		}
		Create(ctx, v)
		manager := deployment(ManagerNamespace, ManagerName)
		manager.Spec = deploymentSpec(newSample(), "registry.invalid/manager:0")
		Create(ctx, manager)

		By("which the new manager asks for")
		theManager.stop()
		DeferCleanup(func(ctx context.Context) { theManager.start(ctx) })
		command := exec.CommandContext(ctx, theManager.binary, "--runtime-image=x", "--artifact-url=http://127.0.0.1", "--storage-dir="+GinkgoT().TempDir(),
			"--artifact-bind-address="+freeAddress(), "--health-probe-bind-address="+freeAddress(), "--metrics-bind-address=0")
		command.Env = append(os.Environ(), "KUBECONFIG="+theManager.kubeconfig)
		output, err := command.CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(output)).To(ContainSubstring(`run hack/migrate.sh, which removes it`))

		By("keeping the volume while its old claim is being deleted")
		_, err = migrate(ctx, "--check")
		Expect(err).NotTo(HaveOccurred())
		interrupted, interrupt := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(done)
			_, err := migrate(interrupted)
			Expect(err).To(HaveOccurred())
		}()
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, old)
			g.Expect(old.DeletionTimestamp).NotTo(BeNil())
		}).Should(Succeed())
		interrupt()
		Eventually(ctx, done).Should(BeClosed())
		Get(ctx, Default, v)
		Expect(v.Spec.PersistentVolumeReclaimPolicy).To(Equal(corev1.PersistentVolumeReclaimRetain))
		Expect(Gone(ctx, manager)(Default)).To(BeTrue())

		By("finishing later, with the controllers of volumes, whose part the spec plays")
		Patch(ctx, old, `{"metadata":{"finalizers":null}}`)
		Eventually(ctx, Gone(ctx, old)).Should(BeTrue())
		go func() {
			defer GinkgoRecover()
			Eventually(ctx, func(g Gomega) {
				bound := claim(newClaim.Name)
				Get(ctx, g, bound)
				bound.Status.Phase = corev1.ClaimBound
				g.Expect(K8s.Status().Update(ctx, bound)).To(Succeed())
			}).Should(Succeed())
		}()
		text, err := migrate(ctx)
		Expect(err).NotTo(HaveOccurred(), text)
		bound := claim(newClaim.Name)
		Get(ctx, Default, bound)
		Expect(bound.Spec.VolumeName).To(Equal(volume.Name))
		Expect(*bound.Spec.StorageClassName).To(Equal("fast"))
		Get(ctx, Default, v)
		Expect(v.Spec.PersistentVolumeReclaimPolicy).To(Equal(corev1.PersistentVolumeReclaimDelete), "as it was")
		Expect(v.Spec.ClaimRef).To(HaveField("Name", newClaim.Name))
		_, err = migrate(ctx, "--check")
		Expect(err).To(HaveOccurred(), "there is nothing left to migrate")
	})

	It("is replaced by two with the claims that the migration expects, or by one without a volume", func(ctx context.Context) {
		output, err := deployManager(ctx, "registry.invalid/manager:1")
		Expect(err).NotTo(HaveOccurred(), output)
		set := managerSet()
		Get(ctx, Default, set)
		Expect(*set.Spec.Replicas).To(BeEquivalentTo(2))
		Expect(set.Spec.VolumeClaimTemplates[0].Name + "-" + set.Name + "-0").To(Equal(newClaim.Name))

		Remove(ctx, set)
		Eventually(ctx, Gone(ctx, set)).Should(BeTrue())
		output, err = deployManager(ctx, "registry.invalid/manager:1", "single-manager", "ephemeral-storage")
		Expect(err).NotTo(HaveOccurred(), output)
		set = managerSet()
		Get(ctx, Default, set)
		Expect(*set.Spec.Replicas).To(BeEquivalentTo(1))
		Expect(set.Spec.VolumeClaimTemplates).To(BeEmpty())
	})
})
