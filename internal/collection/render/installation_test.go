package render

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func install(t *testing.T, c *model.Collection, o InstallationOptions) []Object {
	t.Helper()
	objects, err := Installation(c, o)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func kinds(objects []Object) []string {
	var kinds []string
	for _, object := range objects {
		kinds = append(kinds, object.GetObjectKind().GroupVersionKind().Kind)
	}
	return kinds
}

func TestInstallationOrder(t *testing.T) {
	c := testCollection("1.0.0")
	o := testOptions(model.Group)
	want := []string{"ServiceAccount", "Role", "RoleBinding", "NetworkPolicy", "ConfigMap", "Deployment"}
	if diff := cmp.Diff(want, kinds(install(t, c, o))); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	c.ClusterRoles = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}}
	want = []string{"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy", "ConfigMap", "Deployment"}
	objects := install(t, c, o)
	if diff := cmp.Diff(want, kinds(objects)); diff != "" {
		t.Errorf("kinds with cluster roles (-want +got):\n%s", diff)
	}
	for _, object := range objects {
		if diff := cmp.Diff(Labels(c), object.GetLabels()); diff != "" {
			t.Errorf("labels of %s (-want +got):\n%s", object.GetName(), diff)
		}
		clusterScoped := strings.HasPrefix(object.GetObjectKind().GroupVersionKind().Kind, "Cluster")
		if (object.GetNamespace() == "") != clusterScoped {
			t.Errorf("%s is in namespace %q", object.GetName(), object.GetNamespace())
		}
	}
}

func TestInstallationNeedsAnImage(t *testing.T) {
	o := testOptions(model.Group)
	o.Runtime.Image = ""
	if _, err := Installation(testCollection("1.0.0"), o); err == nil {
		t.Error("rendered without an image")
	}
}

func TestSecretsAreReadableOnlyForPasswordVariables(t *testing.T) {
	mayReadSecrets := func(c *model.Collection) bool {
		return slices.ContainsFunc(BaseRules(c, model.Group, false), func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.Resources, "secrets")
		})
	}
	if mayReadSecrets(testCollection("1.0.0", model.Var{Name: "x", Type: model.String})) {
		t.Error("secrets are readable without need")
	}
	password := model.Var{Name: "p", Type: model.Password}
	if !mayReadSecrets(testCollection("1.0.0", password)) {
		t.Error("secrets are not readable")
	}
	if !mayReadSecrets(testCollection("1.0.0", model.Var{Name: "x", Type: model.Object, Fields: []model.Var{password}})) {
		t.Error("secrets named by a member of an object are not readable")
	}
	if rules := BaseRules(testCollection("1.0.0"), model.Group, true); !slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Equal(rule.Resources, []string{"secrets"}) && slices.Equal(rule.Verbs, []string{"get"})
	}) {
		t.Error("the credentials of users are not readable")
	}
}

// TestPodIsRestricted checks the pod against the restricted Pod Security Standard and the requirements of OpenShift.
func TestPodIsRestricted(t *testing.T) {
	pod := find[*appsv1.Deployment](t, install(t, testCollection("1.0.0"), testOptions(model.Group))).Spec.Template.Spec
	if s := pod.SecurityContext; !ptr.Deref(s.RunAsNonRoot, false) || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("pod: %+v", s)
	}
	if pod.SecurityContext.RunAsUser != nil || pod.SecurityContext.FSGroup != nil {
		t.Errorf("the pod chooses its own IDs: %+v", pod.SecurityContext)
	}
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		s := container.SecurityContext
		if ptr.Deref(s.AllowPrivilegeEscalation, true) || !ptr.Deref(s.ReadOnlyRootFilesystem, false) ||
			!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || s.RunAsUser != nil {
			t.Errorf("container %s: %+v", container.Name, s)
		}
		for _, mount := range container.VolumeMounts {
			if mount.SubPath != "" || mount.SubPathExpr != "" {
				t.Errorf("container %s: %s is mounted by subPath, which is never refreshed", container.Name, mount.MountPath)
			}
			if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
				t.Errorf("container %s mounts %s, which is no volume", container.Name, mount.Name)
			}
		}
	}
}

func TestPodTemplateFollowsWhatRuns(t *testing.T) {
	hash := func(change func(*model.Collection, *InstallationOptions)) string {
		c, o := testCollection("1.0.0"), testOptions(model.Group)
		change(c, &o)
		return find[*appsv1.Deployment](t, install(t, c, o)).Spec.Template.Annotations[RuntimeHashAnnotation]
	}
	same := hash(func(*model.Collection, *InstallationOptions) {})
	if again := hash(func(*model.Collection, *InstallationOptions) {}); again != same || len(same) != 16 {
		t.Errorf("hashes of the same input: %q and %q", same, again)
	}
	for name, change := range map[string]func(*model.Collection, *InstallationOptions){
		"digest": func(_ *model.Collection, o *InstallationOptions) { o.Digest = "sha256:other" },
		"period": func(_ *model.Collection, o *InstallationOptions) {
			o.Runtime.ReconcilePeriod = &metav1.Duration{Duration: time.Hour}
		},
		"retries": func(_ *model.Collection, o *InstallationOptions) { o.Runtime.MaxRetries = ptr.To[int32](0) },
		"finalizer": func(c *model.Collection, _ *InstallationOptions) {
			c.Resources[0].Finalizer = "playbooks/delete.yml"
		},
	} {
		if hash(change) == same {
			t.Errorf("a changed %s starts no new pods", name)
		}
	}
	if hash(func(_ *model.Collection, o *InstallationOptions) {
		o.TrustedAuthorities, o.Environment = "PEM", "HTTPS_PROXY=p\n"
	}) != same {
		t.Error("a changed authority or proxy, which runs follow, starts new pods")
	}
}

func TestRuntimeReachesTheDeployment(t *testing.T) {
	o := testOptions(model.Group)
	limits := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")}}
	o.Runtime = v2beta2.RuntimeSpec{
		Image:                   "registry.example/other:2",
		Resources:               &limits,
		NodeSelector:            map[string]string{"zone": "a"},
		Tolerations:             []corev1.Toleration{{Key: "ibm", Operator: corev1.TolerationOpExists}},
		Env:                     []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "proxy"}, {Name: "WATCH_NAMESPACE", Value: "kube-system"}},
		MaxConcurrentReconciles: ptr.To[int32](7),
	}
	pod := find[*appsv1.Deployment](t, install(t, testCollection("1.0.0"), o)).Spec.Template.Spec
	operator := pod.Containers[0]
	if operator.Image != "registry.example/other:2" || pod.InitContainers[0].Image != operator.Image {
		t.Errorf("images %s and %s", operator.Image, pod.InitContainers[0].Image)
	}
	if diff := cmp.Diff(limits, operator.Resources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if pod.NodeSelector["zone"] != "a" || len(pod.Tolerations) != 1 {
		t.Errorf("node selector %v, tolerations %v", pod.NodeSelector, pod.Tolerations)
	}
	if !slices.Contains(operator.Args, "--max-concurrent-reconciles=7") {
		t.Errorf("args %v", operator.Args)
	}
	env := map[string][]string{}
	for _, e := range operator.Env {
		env[e.Name] = append(env[e.Name], e.Value)
	}
	if !slices.Equal(env["HTTPS_PROXY"], []string{"proxy"}) || !slices.Equal(env["WATCH_NAMESPACE"], []string{"zos"}) {
		t.Errorf("env %v", env)
	}
}

func TestAffinity(t *testing.T) {
	zone := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}
	rack := corev1.NodeSelectorRequirement{Key: "rack", Operator: corev1.NodeSelectorOpExists}
	arch := onArchitecture("amd64", "s390x")
	required := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	term := func(expressions ...corev1.NodeSelectorRequirement) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: expressions}
	}
	tests := map[string]struct {
		user *corev1.Affinity
		want []corev1.NodeSelectorTerm
	}{
		"none":                 {nil, []corev1.NodeSelectorTerm{term(arch)}},
		"alternatives":         {required(term(zone), term(rack)), []corev1.NodeSelectorTerm{term(zone, arch), term(rack, arch)}},
		"a term for no node":   {required(term(), term(zone)), []corev1.NodeSelectorTerm{term(), term(zone, arch)}},
		"other affinity alone": {&corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}, []corev1.NodeSelectorTerm{term(arch)}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := testOptions(model.Group)
			o.Runtime.Affinity = tt.user
			before := tt.user.DeepCopy()
			got := find[*appsv1.Deployment](t, install(t, testCollection("1.0.0"), o)).Spec.Template.Spec.Affinity
			if diff := cmp.Diff(tt.want, got.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms); diff != "" {
				t.Errorf("terms (-want +got):\n%s", diff)
			}
			if preferred := got.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution; len(preferred) != 1 {
				t.Errorf("preferred %v", preferred)
			}
			if diff := cmp.Diff(before, tt.user); diff != "" {
				t.Errorf("the argument was changed:\n%s", diff)
			}
		})
	}
	t.Run("image for one architecture", func(t *testing.T) {
		got := affinity(nil, []string{"amd64"})
		if len(got.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 0 {
			t.Errorf("prefers nodes that the image does not run on: %v", got)
		}
	})
	t.Run("image for any architecture", func(t *testing.T) {
		if got := affinity(nil, nil); got != nil {
			t.Errorf("affinity %v", got)
		}
	})
}

func TestTermination(t *testing.T) {
	for name, tc := range map[string]struct {
		seconds *int32
		grace   int64
		arg     string
	}{
		"default":  {nil, 300, "--graceful-shutdown-timeout=290s"},
		"shortest": {ptr.To[int32](30), 30, "--graceful-shutdown-timeout=20s"},
		"longest":  {ptr.To[int32](86400), 86400, "--graceful-shutdown-timeout=86390s"},
	} {
		t.Run(name, func(t *testing.T) {
			c, o := testCollection("1.0.0"), testOptions(model.Group)
			o.Runtime.TerminationSeconds = tc.seconds
			pod := find[*appsv1.Deployment](t, install(t, c, o)).Spec.Template.Spec
			if got := ptr.Deref(pod.TerminationGracePeriodSeconds, 0); got != tc.grace || !slices.Contains(pod.Containers[0].Args, tc.arg) {
				t.Errorf("grace period %d, arguments %v", got, pod.Containers[0].Args)
			}
		})
	}
}

func TestMergeRuntime(t *testing.T) {
	base := &v2beta2.RuntimeSpec{
		Image:        "base",
		NodeSelector: map[string]string{"a": "1"},
		Env:          []corev1.EnvVar{{Name: "A", Value: "base"}, {Name: "B", Value: "base"}},
		RerunOn:      []v2beta2.RerunTrigger{v2beta2.RerunOnSpec},
		MaxRetries:   ptr.To[int32](1),
		RunTimeout:   &metav1.Duration{Duration: time.Hour},
		MaxArtifacts: ptr.To[int32](2),

		TerminationSeconds: ptr.To[int32](60),

		ReconcilePeriod: &metav1.Duration{Duration: time.Hour},

		DriftCheckPeriod: &metav1.Duration{Duration: time.Hour}, DriftCheckSkipModules: []string{"a.b.one", "a.b.two"},
		ReconcilePeriods: []v2beta2.KindReconcilePeriod{
			{Kind: "A", Period: metav1.Duration{Duration: time.Hour}}, {Kind: "B", Period: metav1.Duration{Duration: time.Hour}},
		},
		NetworkPolicy: testPolicy(),
	}
	override := &v2beta2.RuntimeSpec{
		NodeSelector:            map[string]string{"b": "2"},
		Env:                     []corev1.EnvVar{{Name: "A", Value: "override"}},
		MaxConcurrentReconciles: ptr.To[int32](3),
		RerunOn:                 []v2beta2.RerunTrigger{v2beta2.RerunOnCollection},
		MaxRetries:              ptr.To[int32](0),
		TerminationSeconds:      ptr.To[int32](30),
		ReconcilePeriods:        []v2beta2.KindReconcilePeriod{{Kind: "A"}},
		DriftCheckPeriod:        &metav1.Duration{},
		DriftCheckSkipModules:   []string{"a.b.two", "three"},
		NetworkPolicy:           &v2beta2.NetworkPolicySpec{Egress: v2beta2.EgressUnrestricted},
	}
	want := v2beta2.RuntimeSpec{
		Image:                   "base",
		NodeSelector:            map[string]string{"b": "2"},
		Env:                     []corev1.EnvVar{{Name: "B", Value: "base"}, {Name: "A", Value: "override"}},
		RerunOn:                 []v2beta2.RerunTrigger{v2beta2.RerunOnCollection},
		MaxRetries:              ptr.To[int32](0),
		RunTimeout:              &metav1.Duration{Duration: time.Hour},
		TerminationSeconds:      ptr.To[int32](30),
		MaxArtifacts:            ptr.To[int32](2),
		ReconcilePeriod:         &metav1.Duration{Duration: time.Hour},
		ReconcilePeriods:        []v2beta2.KindReconcilePeriod{{Kind: "B", Period: metav1.Duration{Duration: time.Hour}}, {Kind: "A"}},
		DriftCheckPeriod:        &metav1.Duration{},
		DriftCheckSkipModules:   []string{"a.b.one", "a.b.two", "three"},
		MaxConcurrentReconciles: ptr.To[int32](3),
		NetworkPolicy:           &v2beta2.NetworkPolicySpec{Egress: v2beta2.EgressUnrestricted},
	}
	if diff := cmp.Diff(want, MergeRuntime(base, override)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(*base, MergeRuntime(base, nil)); diff != "" {
		t.Errorf("without override (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(*base, MergeRuntime(nil, base)); diff != "" {
		t.Errorf("without base (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(v2beta2.RuntimeSpec{}, MergeRuntime(nil, nil)); diff != "" {
		t.Errorf("without both (-want +got):\n%s", diff)
	}
}

// Specification: Operator Resources, finalizer MAY: is a playbook that runs when a resource is deleted
// Specification: Operator Resources, finalizer MAY: is the same playbook as `playbook`
// Specification: Operator Resources, finalizer MAY: is left out: resources on z/OS stay behind
// Specification: Resource Variables, name SHALL: is passed as extra variable of this name
// Specification: Provided Variables, playbooks MAY: run elsewhere, too
// Specification: Provided Variables, tasks MAY: be for one place only
func TestWatches(t *testing.T) {
	c := testCollection("1.0.0")
	c.Resources[0].Finalizer = "playbooks/delete.yml"
	o := testOptions("things.acme-corp.suboperator.zoscb.ibm.com")
	o.Runtime.ReconcilePeriod, o.Runtime.MaxArtifacts = &metav1.Duration{Duration: 90 * time.Minute}, ptr.To[int32](7)
	text, err := watchesYAML(c, o)
	if err != nil {
		t.Fatal(err)
	}
	var watches []map[string]any
	if err := yaml.Unmarshal([]byte(text), &watches); err != nil {
		t.Fatal(err)
	}
	got := watches[0]
	for key, want := range map[string]any{
		"markUnsafe": true, "snakeCaseParameters": false, "manageStatus": false, "watchAnnotationsChanges": true,
		"reconcilePeriod": "0s", "maxRunnerArtifacts": float64(7),
		"playbook": "/opt/ansible/engine/entry.yml", "version": "v1minor0patch0",
	} {
		if got[key] != want {
			t.Errorf("%s is %v, want %v", key, got[key], want)
		}
	}
	vars := got["vars"].(map[string]any)
	if diff := cmp.Diff(map[string]any{}, vars["_things_acme_corp_suboperator_zoscb_ibm_com_thing"]); diff != "" {
		t.Errorf("the whole resource stays a template: %v", vars)
	}
	if vars["k8s_cr_version"] != "things.acme-corp.suboperator.zoscb.ibm.com/v1minor0patch0" {
		t.Errorf("k8s_cr_version %v", vars["k8s_cr_version"])
	}
	finalizer := got["finalizer"].(map[string]any)
	want := map[string]any{"k8s_cr_event": "delete", "zoscb_playbook": "/opt/ansible/content/playbooks/delete.yml"}
	if diff := cmp.Diff(want, finalizer["vars"]); diff != "" || finalizer["name"] != Finalizer {
		t.Errorf("finalizer %v (-want +got):\n%s", finalizer["name"], diff)
	}
}

func TestWatchesRefuseEnvironmentVariables(t *testing.T) {
	for _, playbook := range []string{"playbooks/$HOME.yml", "playbooks/${HOME}.yml", "a$.yml"} {
		c := testCollection("1.0.0")
		c.Resources[0].Playbook = playbook
		_, err := Installation(c, testOptions(model.Group))
		if err == nil || !strings.Contains(err.Error(), playbook) {
			t.Errorf("playbook %s: error %v", playbook, err)
		}
	}
}

func TestClusterRoleNamesAreDistinct(t *testing.T) {
	seen := map[string]string{}
	for _, parts := range [][3]string{{"a", "b", "c"}, {"a-b", "c", "d"}, {"a", "b-c", "d"}} {
		c := testCollection("1.0.0")
		c.Domain, c.Name = parts[1], parts[2]
		name := ClusterRoleName(c, parts[0])
		if other, ok := seen[name]; ok {
			t.Errorf("%v and %s are both %s", parts, other, name)
		}
		seen[name] = fmt.Sprint(parts)
	}
}
