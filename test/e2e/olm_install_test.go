//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

func olmInstallation(l *olmLab) {
	It("becomes a package, and a Subscription to its version", func(ctx context.Context) {
		imported := time.Now()
		oc := l.collection.DeepCopy()
		oc.Spec = l.spec("1.0.0")
		create(ctx, oc)
		Eventually(channels(ctx, l.namespace)).WithContext(ctx).WithTimeout(time.Minute).Should(Equal(map[string]string{
			"stable": pagesPackage + ".v1.0.0", "v1.0.0": pagesPackage + ".v1.0.0",
		}))
		AddReportEntry("PackageManifest after", time.Since(imported).Round(100*time.Millisecond).String(), ReportEntryVisibilityAlways)
		Expect(condition(ctx, l.collection, v2beta2.ConditionPublished)(Default)).To(beTrue())

		succeeded(ctx, clusterServiceVersion(l.namespace, "1.0.0"))
		AddReportEntry("CSV Succeeded after", time.Since(imported).Round(100*time.Millisecond).String(), ReportEntryVisibilityAlways)
		live := subscription(l.namespace)
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
		Expect(live.Spec.Channel).To(Equal("v1.0.0"))
		Expect(live.Spec.CatalogSource).To(Equal(catalogName))
	}, NodeTimeout(5*time.Minute))

	It("is Ready when OLM runs its operator, and status says so", func(ctx context.Context) {
		deployment := l.expectRunning(ctx, "1.0.0")
		Expect(deployment.OwnerReferences).To(ContainElement(And(
			HaveField("Kind", operatorsv1alpha1.ClusterServiceVersionKind), HaveField("Name", pagesPackage+".v1.0.0"))))
		Expect(l.method(ctx)(Default)).To(Equal(v2beta2.InstallOLM))
		_, err := output(ctx, kubectlPath(), "wait", "-n", l.namespace, "--for=condition=Ready", "--timeout=60s", "operatorcollection/"+l.collection.Name)
		Expect(err).NotTo(HaveOccurred())
	}, NodeTimeout(5*time.Minute))

	It("runs a playbook over SSH", func(ctx context.Context) {
		page := l.page(l.namespace, "first", "hello")
		create(ctx, page)
		expectSuccess(ctx, page)
		l.expectPage(ctx, "first", "1.0.0 hello")
		Expect(l.zos.log(ctx)).To(ContainSubstring("Accepted publickey for " + l.zos.user))
	}, NodeTimeout(4*time.Minute))

	It("costs nothing while nothing changes", func(ctx context.Context) {
		expectIdle(ctx, time.Minute, "system:serviceaccount:"+l.namespace+":")
	}, NodeTimeout(2*time.Minute))
}

// method is how the operator is installed in the lab's namespace.
func (l *olmLab) method(ctx context.Context) func(Gomega) v2beta2.InstallMethod {
	return func(g Gomega) v2beta2.InstallMethod {
		live := &v2beta2.SubOperatorConfig{}
		g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(l.soc), live)).To(Succeed())
		for _, installation := range live.Status.Installations {
			if installation.Namespace == l.namespace {
				return installation.Install
			}
		}
		return ""
	}
}

func olmUpgrades(l *olmLab) {
	var before types.UID

	It("replaces the old one while a resource is alive", func(ctx context.Context) {
		first := l.page(l.namespace, "first", "hello")
		before = read(ctx, Default, first).GetUID()
		l.imports(ctx, "1.1.0")
		Eventually(channels(ctx, l.namespace)).WithContext(ctx).Should(And(
			HaveKeyWithValue("stable", pagesPackage+".v1.1.0"), HaveKeyWithValue("v1.1.0", pagesPackage+".v1.1.0")))
		newer := clusterServiceVersion(l.namespace, "1.1.0")
		succeeded(ctx, newer)
		Expect(field(ctx, newer, "spec", "replaces")(Default)).To(Equal(pagesPackage + ".v1.0.0"))
		Eventually(gone(ctx, clusterServiceVersion(l.namespace, "1.0.0"))).WithContext(ctx).Should(BeTrue())
		l.expectRunning(ctx, "1.1.0")

		Expect(read(ctx, Default, first).GetUID()).To(Equal(before))
		l.expectPage(ctx, "first", "1.1.0 hello")
		l.pods.expectOneAtATime()
	}, NodeTimeout(6*time.Minute))

	It("waits for its approval if that is asked for, and says so", func(ctx context.Context) {
		patch(ctx, l.soc.DeepCopy(), `{"spec":{"installPlanApproval":"Manual"}}`)
		Eventually(func(g Gomega) {
			live := subscription(l.namespace)
			g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
			g.Expect(live.Spec.InstallPlanApproval).To(Equal(operatorsv1alpha1.ApprovalManual))
		}).WithContext(ctx).Should(Succeed())
		l.imports(ctx, "1.2.0")
		Eventually(condition(ctx, l.soc, v2beta2.ConditionReady)).WithContext(ctx).
			Should(And(beFalse(), because(v2beta2.ReasonWaitingForApproval), saying(pagesPackage+".v1.2.0")))

		// What runs goes on running.
		Consistently(field(ctx, clusterServiceVersion(l.namespace, "1.1.0"), "status", "phase")).WithContext(ctx).
			Should(BeEquivalentTo(operatorsv1alpha1.CSVPhaseSucceeded))
		patch(ctx, l.page(l.namespace, "first", ""), `{"spec":{"text":"still"}}`)
		l.expectPage(ctx, "first", "1.1.0 still")
	}, NodeTimeout(5*time.Minute))

	It("is installed when somebody approves the InstallPlan that status names", func(ctx context.Context) {
		message := condition(ctx, l.soc, v2beta2.ConditionReady)(Default).Message
		var plans operatorsv1alpha1.InstallPlanList
		Expect(k8s.List(ctx, &plans, client.InNamespace(l.namespace))).To(Succeed())
		i := slices.IndexFunc(plans.Items, func(p operatorsv1alpha1.InstallPlan) bool { return strings.Contains(message, l.namespace+"/"+p.Name) })
		Expect(i).To(BeNumerically(">=", 0), message)
		patch(ctx, &plans.Items[i], `{"spec":{"approved":true}}`)
		succeeded(ctx, clusterServiceVersion(l.namespace, "1.2.0"))
		l.expectRunning(ctx, "1.2.0")
		l.expectPage(ctx, "first", "1.2.0 still")
		l.pods.expectOneAtATime()
	}, NodeTimeout(6*time.Minute))
}

func olmSwitches(l *olmLab) {
	It("may change from OLM to Direct, and never do two operators run", func(ctx context.Context) {
		patch(ctx, l.soc.DeepCopy(), `{"spec":{"install":"Direct","installPlanApproval":"Automatic"}}`)
		Eventually(l.method(ctx)).WithContext(ctx).Should(Equal(v2beta2.InstallDirect))
		Eventually(gone(ctx, subscription(l.namespace))).WithContext(ctx).Should(BeTrue())
		Eventually(gone(ctx, clusterServiceVersion(l.namespace, "1.2.0"))).WithContext(ctx).Should(BeTrue())
		deployment := l.expectRunning(ctx, "1.2.0")
		Expect(deployment.OwnerReferences).NotTo(ContainElement(HaveField("Kind", operatorsv1alpha1.ClusterServiceVersionKind)))
		patch(ctx, l.page(l.namespace, "first", ""), `{"spec":{"text":"direct"}}`)
		l.expectPage(ctx, "first", "1.2.0 direct")
		l.pods.expectOneAtATime()
	}, NodeTimeout(6*time.Minute))

	It("may change back", func(ctx context.Context) {
		patch(ctx, l.soc.DeepCopy(), `{"spec":{"install":"OLM"}}`)
		Eventually(l.method(ctx)).WithContext(ctx).Should(Equal(v2beta2.InstallOLM))
		succeeded(ctx, clusterServiceVersion(l.namespace, "1.2.0"))
		deployment := l.expectRunning(ctx, "1.2.0")
		Expect(deployment.OwnerReferences).To(ContainElement(HaveField("Kind", operatorsv1alpha1.ClusterServiceVersionKind)))
		patch(ctx, l.page(l.namespace, "first", ""), `{"spec":{"text":"subscribed"}}`)
		l.expectPage(ctx, "first", "1.2.0 subscribed")
		l.pods.expectOneAtATime()
	}, NodeTimeout(6*time.Minute))
}

func olmDeletion(l *olmLab) {
	It("runs the finalizer playbooks and leaves what is documented", func(ctx context.Context) {
		l.removeTile(ctx)
		Expect(read(ctx, Default, l.page(l.namespace, "first", "")).GetFinalizers()).To(ContainElement(instanceFinalizer))
		remove(ctx, l.collection.DeepCopy())
		Eventually(gone(ctx, l.collection)).WithContext(ctx).WithTimeout(4 * time.Minute).Should(BeTrue())
		Expect(l.zos.shell(ctx, "ls /tmp/page-first 2>/dev/null || true")).To(BeEmpty())
		Eventually(func(g Gomega) {
			after := listObjects(ctx, l.namespace)
			left := slices.DeleteFunc(slices.Clone(after), in(l.before))
			// OLM's own note of what belonged to a package, which only a person removes.
			left = slices.DeleteFunc(left, func(item string) bool { return strings.HasPrefix(item, "operators /"+pagesPackage+".") })
			g.Expect(left).To(BeEmpty(), "left behind")
			g.Expect(slices.DeleteFunc(slices.Clone(l.before), in(after))).To(BeEmpty(), "gone too")
		}).WithContext(ctx).Should(Succeed())
	}, NodeTimeout(8*time.Minute))
}

// eventsOn are the reasons and texts of the events on an object.
func eventsOn(ctx context.Context, object client.Object) func(Gomega) []string {
	return func(g Gomega) []string {
		var events corev1.EventList
		g.Expect(k8s.List(ctx, &events, client.InNamespace(object.GetNamespace()))).To(Succeed())
		var told []string
		for _, event := range events.Items {
			if event.InvolvedObject.UID == object.GetUID() {
				told = append(told, fmt.Sprintf("%s: %s", event.Reason, event.Message))
			}
		}
		return told
	}
}
