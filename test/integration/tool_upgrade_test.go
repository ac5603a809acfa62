package integration

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// nextVersion is a version of a sample with other variables.
func (s *sample) nextVersion(version, variables string) *sample {
	next := *s
	next.version, next.variables = version, variables
	return &next
}

// archiveFile writes the sample's archive into a file.
func (s *sample) archiveFile() string {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), s.version+".tar.gz")
	Expect(os.WriteFile(file, s.archive(), 0o600)).To(Succeed())
	return file
}

var _ = Describe("kubectl collection", func() {
	It("shows what an upgrade means for living resources, and does it", func(ctx context.Context) {
		serveTLS(ctx)
		binary, namespace, s := toolBinary(), newNamespace(ctx), newSample()
		s.variables = "{name: size, displayName: Size, type: integer, default: 3}\n" +
			"      - {name: mode, displayName: Mode, type: string, options: [a, b], default: a}"
		breaking := s.nextVersion("2.0.0", "{name: mode, displayName: Mode, type: string, options: [a], default: a}")
		fitting := s.nextVersion("1.1.0", s.variables+"\n      - {name: more, displayName: More, type: string}")
		last := s.nextVersion("1.2.0", fitting.variables)
		oc := installSample(ctx, namespace, s)
		createInstances(ctx, namespace, s, "fits")
		broken := s.instance(namespace, "broken")
		Expect(unstructured.SetNestedField(broken.Object, "b", "spec", "mode")).To(Succeed())
		Create(ctx, broken)

		By("comparing with the right to list the kind alone")
		Create(ctx, &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{SharedGroup}, Resources: []string{s.plural()}, Verbs: []string{"list"}}},
		}, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "reader"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader-" + namespace}},
		})
		older, newer := s.archiveFile(), breaking.archiveFile()
		compare := func(more ...string) string {
			GinkgoHelper()
			return runTool(ctx, 1, binary, append([]string{"diff", older, newer, "--live", "--as=reader-" + namespace, "--as-group=system:authenticated"}, more...)...)
		}
		Eventually(ctx, compare).WithArguments("-n", namespace).Should(And(
			ContainSubstring("!   "+s.kind+" "+namespace+"/broken: spec.mode: has a value that version 2.0.0 does not allow"),
			ContainSubstring(s.kind+" "+namespace+"/fits: spec.size: is not declared by version 2.0.0"),
			ContainSubstring("2 custom resources read: version 2.0.0 does not fit 1 of them (!), and means a change for 2."),
			Not(ContainSubstring("not read"))))
		Expect(compare("-A")).To(And(ContainSubstring("?   not read: list "+s.kind), ContainSubstring("0 custom resources read")))
		var report struct {
			Live struct {
				Blocked  int
				Problems []struct{ Name, Field string }
			}
		}
		Expect(json.Unmarshal([]byte(compare("-n", namespace, "-o", "json")), &report)).To(Succeed())
		Expect(report.Live.Blocked).To(Equal(1))
		Expect(report.Live.Problems).To(HaveExactElements(And(HaveField("Name", "broken"), HaveField("Field", "spec.mode"))))

		By("leaving the OperatorCollection alone if the version does not fit")
		address := breaking.pinned().CollectionURL
		for _, more := range [][]string{{"--dry-run"}, nil} {
			out := runTool(ctx, 1, binary, append([]string{"upgrade", "oc", "-n", namespace, "--to", address}, more...)...)
			Expect(out).To(And(ContainSubstring("/broken: spec.mode"), ContainSubstring("Nothing was changed.")))
		}
		Expect(runTool(ctx, 0, binary, "upgrade", "oc", "-n", namespace, "--to", fitting.pinned().CollectionURL, "--dry-run")).
			To(ContainSubstring("2 custom resources read: version 1.1.0 does not fit 0 of them"))
		By("refusing another collection")
		session := startTool(binary, "upgrade", "oc", "-n", namespace, "--to", newSample().archiveFile())
		Eventually(ctx, session).Should(gexec.Exit(2))
		Expect(string(session.Err.Contents())).To(ContainSubstring("create another OperatorCollection for it"))
		Get(ctx, Default, oc)
		Expect(oc.Generation).To(BeEquivalentTo(1))

		By("upgrading to a URL")
		session = startTool(binary, "upgrade", "oc", "-n", namespace, "--to", fitting.pinned().CollectionURL, "--timeout=1m")
		makeReadyAgain(ctx, oc, s, "1.1.0")
		Eventually(ctx, session).Should(gexec.Exit(0))
		Get(ctx, Default, oc)
		Expect(oc.Spec.Digest).To(Equal(DigestOf(fitting.archive())))

		By("upgrading to a file")
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}}
		Create(ctx, account, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "collection-operator-uploader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "robot"}},
		})
		session = startTool(binary, "upgrade", "oc", "-n", namespace, "--to", last.archiveFile(), "--timeout=1m",
			"--manager-url=https://"+theManager.artifactAddress, "--service-account=robot")
		makeReadyAgain(ctx, oc, s, "1.2.0")
		Eventually(ctx, session).Should(gexec.Exit(0))
		Get(ctx, Default, oc)
		Expect(oc.Spec).To(And(HaveField("CollectionURL", ""), HaveField("Digest", DigestOf(last.archive()))))

		By("without the archive of the installed version")
		Expect(runTool(ctx, 1, binary, "upgrade", "oc", "-n", namespace, "--to", address, "--dry-run")).To(ContainSubstring("Give it with --from."))
		Expect(runTool(ctx, 1, binary, "upgrade", "oc", "-n", namespace, "--to", address, "--dry-run", "--from", last.archiveFile())).
			To(ContainSubstring("spec.size: is not declared by version 2.0.0"))
	})
})
