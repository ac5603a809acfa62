package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// podRuntime uses objects of the namespace in all ways.
func podRuntime() *v2beta2.RuntimeSpec {
	return &v2beta2.RuntimeSpec{
		EnvFrom:          []v2beta2.RuntimeEnvSource{{Prefix: "APP_", ConfigMapRef: &v2beta2.RuntimeObject{Name: "settings"}}},
		ImagePullSecrets: []v2beta2.RuntimeObject{{Name: "registry"}},
		Volumes: []v2beta2.RuntimeVolume{
			{Name: "wheels", PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "wheels", ReadOnly: true}},
			{Name: "keytab", Secret: &corev1.SecretVolumeSource{SecretName: "keytab"}},
			{Name: "scratch", EmptyDir: &corev1.EmptyDirVolumeSource{}},
		},
		VolumeMounts: []v2beta2.RuntimeVolumeMount{
			{Name: "wheels", MountPath: "/mnt/wheels"}, {Name: "keytab", MountPath: "/etc/krb5.keytab", SubPath: "keytab", ReadOnly: true},
		},
		ServiceAccountAnnotations: map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"},
		PodAnnotations:            map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
		PodLabels:                 map[string]string{"team": "mainframe"},
		PriorityClassName:         "important",
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "mainframe"}},
		}},
	}
}

// createNamed creates the objects that podRuntime names.
func createNamed(ctx context.Context, namespace, allows string) {
	GinkgoHelper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: NamedIn(namespace, "wheels", allows), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}},
	}}
	for _, object := range []client.Object{
		claim, &corev1.Secret{ObjectMeta: NamedIn(namespace, "registry", allows)}, &corev1.Secret{ObjectMeta: NamedIn(namespace, "keytab", allows)},
		&corev1.ConfigMap{ObjectMeta: NamedIn(namespace, "settings", allows)},
	} {
		Create(ctx, object)
	}
}

// setEnvironment replaces the environment that a SubOperatorConfig gives to the pods.
func setEnvironment(ctx context.Context, soc *v2beta2.SubOperatorConfig, variables ...corev1.EnvVar) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, soc)
		soc.Spec.Runtime = &v2beta2.RuntimeSpec{Env: variables}
		g.Expect(K8s.Update(ctx, soc)).To(Succeed())
	}).Should(Succeed())
}

var _ = Describe("spec.runtime", func() {
	It("reads variables of the environment only from objects that are labelled for it, also in its own namespace", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		UserSecret(ctx, namespace, "loot", "", "password")
		Create(ctx, &corev1.ConfigMap{ObjectMeta: NamedIn(namespace, "limits", "")})
		secretVariable := func(name string, isOptional bool) corev1.EnvVar {
			return corev1.EnvVar{Name: "LOOT", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "password", Optional: &isOptional,
			}}}
		}
		limits := corev1.EnvVar{Name: "LIMITS", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "limits"}, Key: "k",
		}}}
		soc := newSOC(namespace, "soc", "oc", mapTo(namespace)...)
		soc.Spec.Runtime = &v2beta2.RuntimeSpec{Env: []corev1.EnvVar{secretVariable("loot", false)}}
		Create(ctx, soc)
		importSample(ctx, namespace, s)
		refused := func(what string) {
			GinkgoHelper()
			ExpectFailure(ctx, soc, v2beta2.ReasonRuntimeObjectNotAllowed, fmt.Sprintf("runtime.env: %s does not allow its use by operators: "+
				"it needs the label zoscb.ibm.com/runtime=true, or zoscb.ibm.com/runtime=%s", what, s.operator()), false)
		}
		refused(fmt.Sprintf(`Secret "%s/loot"`, namespace))
		Expect(Gone(ctx, deployment(namespace, s.operator()))(Default)).To(BeTrue())
		attack.Repelled("Secrets and hosts", "read a Secret through a variable of a pod's environment, in the SubOperatorConfig's own namespace",
			"only with a label that its owner sets", "RuntimeObjectNotAllowed")

		By("refusing ConfigMaps, and what is optional, in the same way")
		setEnvironment(ctx, soc, limits)
		refused(fmt.Sprintf(`ConfigMap "%s/limits"`, namespace))
		setEnvironment(ctx, soc, secretVariable("missing", true))
		ExpectFailure(ctx, soc, v2beta2.ReasonRuntimeObjectMissing, `runtime.env: Secret "`+namespace+`/missing" does not exist`, false)
		setEnvironment(ctx, soc, secretVariable(s.operator()+"-endpoints", true))
		ExpectFailure(ctx, soc, v2beta2.ReasonRuntimeObjectNotAllowed, "belongs to Collection Operator", false)

		By("using what is labelled, and what pods use already")
		label := func(value string) {
			Patch(ctx, &corev1.Secret{ObjectMeta: NamedIn(namespace, "loot", "")}, fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, v2beta2.LabelRuntime, value))
		}
		label(`"true"`)
		setEnvironment(ctx, soc, secretVariable("loot", false))
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, soc)
		label("null")
		variables := func() (names []string) {
			d := deployment(namespace, s.operator())
			Get(ctx, Default, d)
			for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
				names = append(names, variable.Name)
			}
			return names
		}
		setEnvironment(ctx, soc, secretVariable("loot", false), corev1.EnvVar{Name: "OTHER", Value: "x"})
		Eventually(ctx, variables).Should(ContainElements("LOOT", "OTHER"))
		setEnvironment(ctx, soc, secretVariable("loot", false), limits)
		refused(fmt.Sprintf(`ConfigMap "%s/limits"`, namespace))

		By("refusing another key of what pods use, and what its owner has forbidden since then")
		other := secretVariable("loot", false)
		other.Name, other.ValueFrom.SecretKeyRef.Key = "USER", "user"
		setEnvironment(ctx, soc, secretVariable("loot", false), other)
		refused(fmt.Sprintf(`Secret "%s/loot"`, namespace))
		setEnvironment(ctx, soc, secretVariable("loot", false))
		Eventually(ctx, variables).Should(And(ContainElement("LOOT"), Not(ContainElement("OTHER"))))
		label(`"false"`)
		setEnvironment(ctx, soc, secretVariable("loot", false), corev1.EnvVar{Name: "OTHER", Value: "y"})
		refused(fmt.Sprintf(`Secret "%s/loot"`, namespace))
	})

	It("uses objects of the mapped namespace that are labelled for it, and keeps the operator as it is where one is not", attack.Label, func(ctx context.Context) {
		own, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, other, own)
		createNamed(ctx, own, v2beta2.LabelRuntimeAll) // Those of the SubOperatorConfig's namespace are not meant.
		soc := newSOC(own, "soc", "oc", mapTo(other)...)
		soc.Spec.Runtime = podRuntime()
		Create(ctx, soc)
		importSample(ctx, own, s)
		for _, field := range []string{"podAnnotations", "podLabels", "serviceAccountAnnotations"} {
			ExpectFailure(ctx, soc, v2beta2.ReasonMappingNotAllowed, fmt.Sprintf("runtime.%s must not be set for the mapped namespace %q", field, other), false)
			Patch(ctx, soc, fmt.Sprintf(`{"spec":{"runtime":{%q:null}}}`, field))
		}
		const hint = `runtime.envFrom: ConfigMap "%s/settings" does not exist, or does not allow its use by operators: it needs the label zoscb.ibm.com/runtime=true, or zoscb.ibm.com/runtime=%s`
		unusable := fmt.Sprintf(hint, other, s.operator())
		ExpectFailure(ctx, soc, v2beta2.ReasonRuntimeObjectNotAllowed, unusable, false)
		Expect(madeIn(ctx, other)).To(BeEmpty())

		By("refusing objects that are not labelled, or for another operator")
		createNamed(ctx, other, "another-operator")
		touch := func() {
			Patch(ctx, soc, fmt.Sprintf(`{"metadata":{"labels":{"touched":"%d"}}}`, time.Now().UnixNano()))
		}
		label := func(object client.Object, value string) {
			object.SetNamespace(other)
			Patch(ctx, object, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v2beta2.LabelRuntime, value))
			touch()
		}
		settings, registry := &corev1.ConfigMap{}, &corev1.Secret{}
		settings.Name, registry.Name = "settings", "registry"
		touch()
		ExpectFailure(ctx, soc, v2beta2.ReasonRuntimeObjectNotAllowed, unusable, false) // Nobody learns which objects exist.
		label(settings, s.operator())
		ExpectFailure(ctx, soc, v2beta2.ReasonRuntimeObjectNotAllowed, `runtime.imagePullSecrets: Secret "`+other+`/registry"`, false)
		label(registry, v2beta2.LabelRuntimeAll)
		ExpectFailure(ctx, soc, v2beta2.ReasonRuntimeObjectNotAllowed, `runtime.volumes: PersistentVolumeClaim "`+other+`/wheels"`, false)
		wheels, keytab := &corev1.PersistentVolumeClaim{}, &corev1.Secret{}
		wheels.Name, keytab.Name = "wheels", "keytab"
		label(wheels, v2beta2.LabelRuntimeAll)
		ExpectFailure(ctx, soc, v2beta2.ReasonRuntimeObjectNotAllowed, `runtime.volumes: Secret "`+other+`/keytab"`, false)
		Expect(madeIn(ctx, other)).To(ConsistOf("Secret/keytab", "Secret/registry", "ConfigMap/settings"), "nothing but the users' own")
		label(keytab, v2beta2.LabelRuntimeAll)

		By("passing everything to the pod")
		d := deployment(other, s.operator())
		Eventually(ctx, Gone(ctx, d)).Should(BeFalse())
		makeAvailable(ctx, other, s.operator())
		ExpectReady(ctx, soc)
		Get(ctx, Default, d)
		template := d.Spec.Template
		Expect(template.Spec.ImagePullSecrets).To(ConsistOf(HaveField("Name", "registry")))
		Expect(template.Spec.PriorityClassName).To(Equal("important"))
		Expect(template.Spec.TopologySpreadConstraints).To(HaveLen(1))
		operator := template.Spec.Containers[0]
		Expect(operator.EnvFrom).To(ConsistOf(HaveField("Prefix", "ZOSCB_FROM_APP_")))
		Expect(operator.VolumeMounts).To(ContainElements(
			And(HaveField("Name", "wheels"), HaveField("MountPath", "/mnt/wheels")), And(HaveField("Name", "keytab"), HaveField("SubPath", "keytab")),
		))

		By("not touching the running operator when the label is withdrawn")
		before := d.ResourceVersion
		Patch(ctx, settings, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, v2beta2.LabelRuntime))
		Patch(ctx, soc, `{"spec":{"installPlanApproval":"Manual"}}`)
		ExpectReady(ctx, soc) // Nothing is read, since the pods are configured already.
		Patch(ctx, soc, `{"spec":{"runtime":{"maxRetries":7}}}`)
		ExpectFailure(ctx, soc, v2beta2.ReasonRuntimeObjectNotAllowed, `ConfigMap "`+other+`/settings"`, false)
		Get(ctx, Default, d)
		Expect(d.ResourceVersion).To(Equal(before))
		attack.Repelled("Tenancy", "mount a Secret, ConfigMap or claim of a mapped namespace into a pod there",
			"only with a label that its owner sets", "RuntimeObjectNotAllowed until it has the label; nothing is installed before")

		By("removing what is not set any more")
		Patch(ctx, soc, `{"spec":{"runtime":null}}`)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, d)
			g.Expect(d.Spec.Template.Spec.Containers[0].EnvFrom).To(BeEmpty())
			g.Expect(d.Spec.Template.Spec.ImagePullSecrets).To(BeEmpty())
		}).Should(Succeed())
	})
})

var _ = Describe("spec.runtime in the API server", func() {
	It("accepts what pods usually need", func(ctx context.Context) {
		runtime := podRuntime()
		runtime.PodLabels["app.kubernetes.io/name"] = "files"
		soc := newSOC("default", "accepted", "oc")
		soc.Spec.Runtime = runtime
		Expect(K8s.Create(ctx, soc, client.DryRunAll)).To(Succeed())
	})
})
