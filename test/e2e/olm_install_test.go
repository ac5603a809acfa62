//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// deploymentRevision, on a Deployment, counts how often its pods were replaced.
const deploymentRevision = "deployment.kubernetes.io/revision"

func revisionAfter(revision string) string {
	GinkgoHelper()
	number, err := strconv.Atoi(revision)
	Expect(err).NotTo(HaveOccurred())
	return strconv.Itoa(number + 1)
}

func olmInstallation(e *olmEnvironment) {
	It("becomes a package, and a Subscription to its version", func(ctx context.Context) {
		imported := time.Now()
		oc := e.collection.DeepCopy()
		oc.Spec = e.spec(pagesArchive("1.0.0"), e.archives[pagesArchive("1.0.0")])
		Create(ctx, oc)
		Eventually(ctx, channels(ctx, e.namespace)).WithTimeout(OLMTimeout).Should(Equal(map[string]string{
			"stable": pagesPackage + ".v1.0.0", "v1.0.0": pagesPackage + ".v1.0.0",
		}))
		AddReportEntry("PackageManifest after", time.Since(imported).Round(100*time.Millisecond).String(), ReportEntryVisibilityAlways)
		Eventually(ctx, Condition(ctx, e.collection, v2beta2.ConditionPublished)).Should(ConditionTrue())

		succeeded(ctx, clusterServiceVersion(e.namespace, "1.0.0"))
		AddReportEntry("CSV Succeeded after", time.Since(imported).Round(100*time.Millisecond).String(), ReportEntryVisibilityAlways)
		live := subscription(e.namespace)
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
		Expect(live.Spec.Channel).To(Equal("v1.0.0"))
		Expect(live.Spec.CatalogSource).To(Equal(catalogName))
	})

	It("is Ready when OLM runs its operator, and status says so", func(ctx context.Context) {
		deployment := e.expectRunning(ctx, "1.0.0")
		Expect(deployment.OwnerReferences).To(ContainElement(And(
			HaveField("Kind", operatorsv1alpha1.ClusterServiceVersionKind), HaveField("Name", pagesPackage+".v1.0.0"))))
		Expect(deployment.Annotations).To(HaveKeyWithValue(deploymentRevision, "1"), "its pod started once")
		Expect(e.method(ctx)(Default)).To(Equal(v2beta2.InstallOLM))
		_, err := Output(ctx, kubectlPath(), "wait", "-n", e.namespace, "--for=condition=Ready", "--timeout=60s", "operatorcollection/"+e.collection.Name)
		Expect(err).NotTo(HaveOccurred())
	})

	It("gets a corrected setting while its pods cannot start, before OLM gives up", func(ctx context.Context) {
		Patch(ctx, e.soc, `{"spec":{"runtime":{"nodeSelector":{"e2e":"nowhere"}}}}`)
		Eventually(ctx, Condition(ctx, e.soc, v2beta2.ConditionReady)).Should(WithMessage("cannot be scheduled"))
		Patch(ctx, e.soc, `{"spec":{"runtime":null}}`)
		e.expectRunning(ctx, "1.0.0")
		Expect(Live(ctx, Default, subscription(e.namespace)).Object["spec"]).NotTo(HaveKey("config"))
	}) // OLM gives up after five.

	It("gets the settings that a Subscription can carry", func(ctx context.Context) {
		consents := func(name string) metav1.ObjectMeta {
			meta := e.meta(name)
			meta.Labels = map[string]string{v2beta2.LabelRuntime: v2beta2.LabelRuntimeAll}
			return meta
		}
		settings := &corev1.Secret{ObjectMeta: consents("settings"), StringData: map[string]string{"LICENSE": "licensed", "ANSIBLE_CONFIG": "/evil"}}
		notes := &corev1.ConfigMap{ObjectMeta: consents("notes"), Data: map[string]string{"text": "noted"}}
		Create(ctx, settings, notes)
		DeferCleanup(func(ctx context.Context) {
			Remove(ctx, settings)
			Remove(ctx, notes)
		})
		Patch(ctx, e.soc, MustJSON(map[string]any{"spec": map[string]any{"runtime": v2beta2.RuntimeSpec{
			PodAnnotations: map[string]string{"example.com/team": "mainframe"},
			EnvFrom:        []v2beta2.RuntimeEnvSource{{SecretRef: &v2beta2.RuntimeObject{Name: "settings"}}},
			Volumes: []v2beta2.RuntimeVolume{{Name: "notes", ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "notes"},
			}}},
			VolumeMounts: []v2beta2.RuntimeVolumeMount{{Name: "notes", MountPath: "/mnt/notes", ReadOnly: true}},
		}}}))
		deployment := e.expectRunning(ctx, "1.0.0")
		Expect(deployment.Spec.Template.Annotations).To(HaveKeyWithValue("example.com/team", "mainframe"))
		Expect(kubectl(ctx, "exec", "-n", e.namespace, "deployment/"+pagesPackage, "--", "/bin/sh", "-c",
			`cat /mnt/notes/text; echo; cat /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' | grep -aE '^(LICENSE|ANSIBLE_CONFIG)=' | sort -u`)).
			To(And(HavePrefix("noted\n"), ContainSubstring("LICENSE=licensed\n"), Not(ContainSubstring("/evil"))))

		By("refusing one that it cannot carry, while the operator goes on")
		Patch(ctx, e.soc, `{"spec":{"runtime":{"priorityClassName":"urgent"}}}`)
		Eventually(ctx, Condition(ctx, e.soc, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonRuntimeNotSupported), WithMessage("runtime.priorityClassName")))
		Expect(Live(ctx, Default, deployment.DeepCopy()).GetGeneration()).To(Equal(deployment.Generation))
		Patch(ctx, e.soc, `{"spec":{"runtime":null}}`)
		e.expectRunning(ctx, "1.0.0")
	})

	It("runs a playbook over SSH", func(ctx context.Context) {
		page := e.page(e.namespace, "first", "hello")
		Create(ctx, page)
		expectSuccess(ctx, page)
		e.expectPage(ctx, "first", "1.0.0 hello")
		Expect(e.zos.log(ctx)).To(ContainSubstring("Accepted publickey for " + e.zos.user))
	})
}

func olmIdle(e *olmEnvironment) {
	It("costs nothing while nothing changes", func(ctx context.Context) {
		oc := e.collection.DeepCopy()
		oc.Spec = e.spec(pagesArchive("1.0.0"), e.archives[pagesArchive("1.0.0")])
		Create(ctx, oc)
		e.expectRunning(ctx, "1.0.0")
		Expect(e.method(ctx)(Default)).To(Equal(v2beta2.InstallOLM))
		page := e.page(e.namespace, "first", "hello")
		Create(ctx, page)
		expectSuccess(ctx, page)
		expectIdle(ctx, time.Minute, "system:serviceaccount:"+e.namespace+":")
	})
}

// method is how the operator is installed in the lab's namespace.
func (e *olmEnvironment) method(ctx context.Context) func(Gomega) v2beta2.InstallMethod {
	return func(g Gomega) v2beta2.InstallMethod {
		live := &v2beta2.SubOperatorConfig{}
		g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(e.soc), live)).To(Succeed())
		for _, installation := range live.Status.Installations {
			if installation.Namespace == e.namespace {
				return installation.Install
			}
		}
		return ""
	}
}

func olmUpgrades(e *olmEnvironment) {
	var before types.UID

	It("replaces the old one while a resource is alive", func(ctx context.Context) {
		first := e.page(e.namespace, "first", "hello")
		before = Live(ctx, Default, first).GetUID()
		revision := e.expectRunning(ctx, "1.0.0").Annotations[deploymentRevision]
		e.imports(ctx, "1.1.0")
		Eventually(ctx, channels(ctx, e.namespace)).WithTimeout(OLMTimeout).Should(And(
			HaveKeyWithValue("stable", pagesPackage+".v1.1.0"), HaveKeyWithValue("v1.1.0", pagesPackage+".v1.1.0")))
		newer := clusterServiceVersion(e.namespace, "1.1.0")
		succeeded(ctx, newer)
		Expect(Field(ctx, newer, "spec", "replaces")(Default)).To(Equal(pagesPackage + ".v1.0.0"))
		Eventually(ctx, Gone(ctx, clusterServiceVersion(e.namespace, "1.0.0"))).Should(BeTrue())
		deployment := e.expectRunning(ctx, "1.1.0")
		Expect(deployment.Annotations).To(HaveKeyWithValue(deploymentRevision, revisionAfter(revision)), "its pod started once")

		Expect(Live(ctx, Default, first).GetUID()).To(Equal(before))
		ask(ctx, first)
		e.expectPage(ctx, "first", "1.1.0 hello")
		e.pods.expectOneAtATime()
	})

	It("waits for its approval if that is asked for, and says so", func(ctx context.Context) {
		Patch(ctx, e.soc.DeepCopy(), `{"spec":{"installPlanApproval":"Manual"}}`)
		Eventually(ctx, func(g Gomega) {
			live := subscription(e.namespace)
			g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(live), live)).To(Succeed())
			g.Expect(live.Spec.InstallPlanApproval).To(Equal(operatorsv1alpha1.ApprovalManual))
		}).Should(Succeed())
		e.imports(ctx, "1.2.0")
		Eventually(ctx, Condition(ctx, e.soc, v2beta2.ConditionReady)).WithTimeout(OLMTimeout).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonWaitingForApproval), WithMessage(pagesPackage+".v1.2.0")))

		// What runs goes on running.
		Consistently(ctx, Field(ctx, clusterServiceVersion(e.namespace, "1.1.0"), "status", "phase")).
			Should(BeEquivalentTo(operatorsv1alpha1.CSVPhaseSucceeded))
		Patch(ctx, e.page(e.namespace, "first", ""), `{"spec":{"text":"still"}}`)
		e.expectPage(ctx, "first", "1.1.0 still")
	})

	It("is installed when somebody approves the InstallPlan that status names", func(ctx context.Context) {
		message := Condition(ctx, e.soc, v2beta2.ConditionReady)(Default).Message
		var plans operatorsv1alpha1.InstallPlanList
		Expect(K8s.List(ctx, &plans, client.InNamespace(e.namespace))).To(Succeed())
		i := slices.IndexFunc(plans.Items, func(p operatorsv1alpha1.InstallPlan) bool { return strings.Contains(message, e.namespace+"/"+p.Name) })
		Expect(i).To(BeNumerically(">=", 0), message)
		Patch(ctx, &plans.Items[i], `{"spec":{"approved":true}}`)
		succeeded(ctx, clusterServiceVersion(e.namespace, "1.2.0"))
		e.expectRunning(ctx, "1.2.0")
		ask(ctx, e.page(e.namespace, "first", ""))
		e.expectPage(ctx, "first", "1.2.0 still")
		e.pods.expectOneAtATime()
	})
}

func olmSwitches(e *olmEnvironment) {
	It("may change from OLM to Direct, and never do two operators run", func(ctx context.Context) {
		Patch(ctx, e.soc.DeepCopy(), `{"spec":{"install":"Direct","installPlanApproval":"Automatic"}}`)
		Eventually(ctx, e.method(ctx)).WithTimeout(OLMTimeout).Should(Equal(v2beta2.InstallDirect))
		Eventually(ctx, Gone(ctx, subscription(e.namespace))).Should(BeTrue())
		Eventually(ctx, Gone(ctx, clusterServiceVersion(e.namespace, "1.2.0"))).Should(BeTrue())
		deployment := e.expectRunning(ctx, "1.2.0")
		Expect(deployment.OwnerReferences).NotTo(ContainElement(HaveField("Kind", operatorsv1alpha1.ClusterServiceVersionKind)))
		Patch(ctx, e.page(e.namespace, "first", ""), `{"spec":{"text":"direct"}}`)
		e.expectPage(ctx, "first", "1.2.0 direct")
		e.pods.expectOneAtATime()
	})

	It("may change back", func(ctx context.Context) {
		Patch(ctx, e.soc.DeepCopy(), `{"spec":{"install":"OLM"}}`)
		Eventually(ctx, e.method(ctx)).WithTimeout(OLMTimeout).Should(Equal(v2beta2.InstallOLM))
		succeeded(ctx, clusterServiceVersion(e.namespace, "1.2.0"))
		deployment := e.expectRunning(ctx, "1.2.0")
		Expect(deployment.OwnerReferences).To(ContainElement(HaveField("Kind", operatorsv1alpha1.ClusterServiceVersionKind)))
		Patch(ctx, e.page(e.namespace, "first", ""), `{"spec":{"text":"subscribed"}}`)
		e.expectPage(ctx, "first", "1.2.0 subscribed")
		e.pods.expectOneAtATime()
	})
}

// olmDeletion compares those objects of the cluster, before and after, that a function picks.
func olmDeletion(e *olmEnvironment, pick func([]string) []string) {
	It("runs the finalizer playbooks and leaves what is documented", func(ctx context.Context) {
		e.removeTile(ctx)
		Expect(Live(ctx, Default, e.page(e.namespace, "first", "")).GetFinalizers()).To(ContainElement(InstanceFinalizer))
		Remove(ctx, e.collection.DeepCopy())
		Eventually(ctx, Gone(ctx, e.collection)).Should(BeTrue())
		Expect(e.zos.shell(ctx, "ls /tmp/page-first 2>/dev/null || true")).To(BeEmpty())
		Eventually(ctx, func(g Gomega) {
			after, before := pick(listObjects(ctx, e.namespace)), pick(slices.Clone(e.before))
			left := slices.DeleteFunc(slices.Clone(after), in(before))
			// OLM's own note of what belonged to a package, which only a person removes.
			left = slices.DeleteFunc(left, func(item string) bool { return strings.HasPrefix(item, "operators /"+pagesPackage+".") })
			g.Expect(left).To(BeEmpty(), "left behind")
			g.Expect(slices.DeleteFunc(slices.Clone(before), in(after))).To(BeEmpty(), "gone too")
		}).Should(Succeed())
	})
}

// eventsOn are the reasons and texts of the events on an object.
func eventsOn(ctx context.Context, object client.Object) func(Gomega) []string {
	return func(g Gomega) []string {
		var events corev1.EventList
		g.Expect(K8s.List(ctx, &events, client.InNamespace(object.GetNamespace()))).To(Succeed())
		var told []string
		for _, event := range events.Items {
			if event.InvolvedObject.UID == object.GetUID() {
				told = append(told, fmt.Sprintf("%s: %s", event.Reason, event.Message))
			}
		}
		return told
	}
}
