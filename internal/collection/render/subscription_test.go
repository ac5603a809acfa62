package render

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func testSubscription(o InstallationOptions) SubscriptionOptions {
	return SubscriptionOptions{Source: "collections", SourceNamespace: "olm", Image: o.Runtime.Image}
}

func subscribe(t *testing.T, c *model.Collection, o InstallationOptions) []Object {
	t.Helper()
	objects, err := Subscribed(c, o, testSubscription(o))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestGoldenSubscriptions compares the objects for the Operator Lifecycle Manager with the files in testdata/subscribed.
func TestGoldenSubscriptions(t *testing.T) {
	folders, err := os.ReadDir(filepath.Join("testdata", "collections"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		t.Run(folder.Name(), func(t *testing.T) {
			c := loadCollection(t, folder.Name())
			o := testOptions(c.Group(folder.Name() == "everything"))
			o.Runtime.MaxConcurrentReconciles = ptr.To[int32](4)
			got := map[string]string{}
			for i, object := range subscribe(t, c, o) {
				text, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				kind := strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind)
				got[fmt.Sprintf("%02d-%s-%s.yaml", i, kind, object.GetName())] = string(text)
			}
			golden := filepath.Join("testdata", "subscribed", folder.Name())
			if *update {
				writeGolden(t, golden, got)
			}
			if diff := cmp.Diff(readGolden(t, golden), got); diff != "" {
				t.Errorf("rendered objects differ from %s (-want +got); -update rewrites it:\n%s", golden, diff)
			}
		})
	}
}

// An operator gets the same configuration with both methods, and a change of it starts new pods.
func TestBothWaysShareTheRuntime(t *testing.T) {
	c := testCollection("1.0.0")
	c.Galaxy.RequiresAnsible = ">=2.15"
	for name, change := range map[string]func(*InstallationOptions){
		"nothing": func(*InstallationOptions) {},
		"digest":  func(o *InstallationOptions) { o.Digest = "sha256:other" },
		"period":  func(o *InstallationOptions) { o.Runtime.ReconcilePeriod = &metav1.Duration{Duration: time.Hour} },
		"credentials": func(o *InstallationOptions) {
			o.Dependencies.Credentials = map[string][]byte{KeyGalaxyToken: []byte("t")}
		},
		"egress": func(o *InstallationOptions) { o.Runtime.NetworkPolicy = testPolicy() },
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(model.Group)
			change(&o)
			direct, subscribed := install(t, c, o), subscribe(t, c, o)
			for _, object := range direct {
				kind := object.GetObjectKind().GroupVersionKind().Kind
				if !slices.Contains([]string{"ConfigMap", "Secret", "NetworkPolicy"}, kind) {
					continue
				}
				i := slices.IndexFunc(subscribed, func(other Object) bool { return other.GetObjectKind().GroupVersionKind().Kind == kind })
				if i < 0 {
					t.Fatalf("no %s with the Operator Lifecycle Manager", kind)
				}
				if diff := cmp.Diff(object, subscribed[i]); diff != "" {
					t.Errorf("%s (-direct +subscribed):\n%s", kind, diff)
				}
			}
			want := map[string]string{RuntimeHashAnnotation: runtimeHash(find[*corev1.ConfigMap](t, direct).Data, nil)}
			if diff := cmp.Diff(want, find[*operatorsv1alpha1.Subscription](t, subscribed).Spec.Config.Annotations); diff != "" {
				t.Errorf("annotations of the pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSubscriptionNamesOneVersion(t *testing.T) {
	c, o := testCollection("1.2.3-RC.1"), testOptions(model.Group)
	subscription := find[*operatorsv1alpha1.Subscription](t, subscribe(t, c, o))
	if diff := cmp.Diff(Labels(c), subscription.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	spec := *subscription.Spec
	spec.Config = nil
	want := operatorsv1alpha1.SubscriptionSpec{
		CatalogSource: "collections", CatalogSourceNamespace: "olm", Package: "acme-things-operator",
		Channel: "v1.2.3-rc.1", StartingCSV: "acme-things-operator.v1.2.3-rc.1", InstallPlanApproval: operatorsv1alpha1.ApprovalAutomatic,
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	s := testSubscription(o)
	s.Approval = v2beta2.ApprovalManual
	objects, err := Subscribed(c, o, s)
	if err != nil {
		t.Fatal(err)
	}
	if got := find[*operatorsv1alpha1.Subscription](t, objects).Spec.InstallPlanApproval; got != operatorsv1alpha1.ApprovalManual {
		t.Errorf("approval is %s", got)
	}
}

func TestRuntimeReachesTheSubscription(t *testing.T) {
	c, o := testCollection("1.0.0"), testOptions("things.acme.example.com")
	limits := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("8Gi")}}
	o.Runtime = v2beta2.RuntimeSpec{
		Image:        o.Runtime.Image,
		Resources:    &limits,
		NodeSelector: map[string]string{"zone": "a"},
		Tolerations:  []corev1.Toleration{{Key: "ibm", Operator: corev1.TolerationOpExists}},
		Env: []corev1.EnvVar{
			{Name: "HTTPS_PROXY", Value: "proxy"}, {Name: "WATCH_NAMESPACE", Value: "kube-system"}, {Name: "POD_NAME", Value: "other"},
			{Name: "MAX_CONCURRENT_RECONCILES", Value: "99"},
		},
		MaxConcurrentReconciles: ptr.To[int32](7),
	}
	config := find[*operatorsv1alpha1.Subscription](t, subscribe(t, c, o)).Spec.Config
	config.Annotations = nil // That of the ClusterServiceVersion has the architectures.
	want := &operatorsv1alpha1.SubscriptionConfig{
		Resources: &limits, NodeSelector: o.Runtime.NodeSelector, Tolerations: o.Runtime.Tolerations,
		Env: []corev1.EnvVar{
			{Name: "HTTPS_PROXY", Value: "proxy"},
			{Name: "MAX_CONCURRENT_RECONCILES", Value: "7"},
		},
	}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// OLM replaces the node affinity of the ClusterServiceVersion.
func TestAffinityInASubscriptionKeepsTheArchitectures(t *testing.T) {
	c, o := testCollection("1.0.0"), testOptions(model.Group)
	o.Runtime.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
	got := find[*operatorsv1alpha1.Subscription](t, subscribe(t, c, o)).Spec.Config.Affinity
	required := got.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if got.PodAffinity == nil || !slices.Equal(required.NodeSelectorTerms[0].MatchExpressions[0].Values, []string{"amd64", "s390x"}) {
		t.Errorf("got %v", got)
	}
}

func TestSubscriptionRefusesWhatItCannotPassOn(t *testing.T) {
	const begin = " cannot be set with the Operator Lifecycle Manager: "
	for want, runtime := range map[string]func(*v2beta2.RuntimeSpec){
		"runtime.image" + begin + "the catalog fixes the image of a version":                 func(r *v2beta2.RuntimeSpec) { r.Image = "registry.example/other:2" },
		"runtime.terminationSeconds" + begin + "the catalog fixes terminationSeconds to 300": func(r *v2beta2.RuntimeSpec) { r.TerminationSeconds = ptr.To[int32](600) },
		"runtime.podLabels, runtime.priorityClassName" + begin + "a Subscription has no such field": func(r *v2beta2.RuntimeSpec) {
			r.PodLabels, r.PriorityClassName = map[string]string{"team": "a"}, "high"
		},
		"runtime.imagePullSecrets, runtime.serviceAccountAnnotations, runtime.topologySpreadConstraints" + begin +
			"OLM creates the ServiceAccount of the operator, to which imagePullSecrets can be added; a Subscription has no such field": func(r *v2beta2.RuntimeSpec) {
			everything := everyRuntime()
			r.ImagePullSecrets, r.ServiceAccountAnnotations = everything.ImagePullSecrets, everything.ServiceAccountAnnotations
			r.TopologySpreadConstraints = everything.TopologySpreadConstraints
		},
	} {
		t.Run(want, func(t *testing.T) {
			c, o := testCollection("1.0.0"), testOptions(model.Group)
			s := testSubscription(o)
			runtime(&o.Runtime)
			_, err := Subscribed(c, o, s)
			var unsupported *UnsupportedRuntimeError
			if !errors.As(err, &unsupported) || err.Error() != want {
				t.Errorf("error is %v", err)
			}
		})
	}
	c, o := testCollection("1.0.0"), testOptions(model.Group)
	o.Runtime.TerminationSeconds = ptr.To(DefaultTerminationSeconds)
	if _, err := Subscribed(c, o, testSubscription(o)); err != nil {
		t.Errorf("with the default: %v", err)
	}
}

// Defaults of the manager, and what somebody else's Subscription does not have, do not keep an operator from running.
func TestSubscriptionIgnoresWhatOnlyTheManagerSets(t *testing.T) {
	c, o := testCollection("1.0.0"), testOptions(model.Group)
	s := testSubscription(o)
	o.Defaults = v2beta2.RuntimeSpec{PriorityClassName: "high", ImagePullSecrets: everyRuntime().ImagePullSecrets, TerminationSeconds: ptr.To[int32](600)}
	o.Runtime = MergeRuntime(&o.Defaults, &o.Runtime)
	const why = "the catalog fixes terminationSeconds to 300; OLM creates the ServiceAccount of the operator, to which imagePullSecrets can be added; " +
		"a Subscription has no such field"
	want := []string{"runtime.terminationSeconds, runtime.imagePullSecrets, runtime.priorityClassName have no effect with the Operator Lifecycle Manager: " + why}
	if _, err := Subscribed(c, o, s); err != nil || !slices.Equal(SubscriptionWarnings(o, s), want) {
		t.Errorf("defaults: %v, %q", err, SubscriptionWarnings(o, s))
	}
	o.Runtime.PriorityClassName = "of the user"
	var unsupported *UnsupportedRuntimeError
	if _, err := Subscribed(c, o, s); !errors.As(err, &unsupported) || len(unsupported.Fields) != 1 {
		t.Errorf("a user's: %v", err)
	}
	s.UserManaged = true
	if _, err := Subscribed(c, o, s); err != nil || !slices.Equal(SubscriptionWarnings(o, s), want) {
		t.Errorf("user-managed: %v, %q", err, SubscriptionWarnings(o, s))
	}
	o.Runtime, o.Defaults = testOptions(model.Group).Runtime, v2beta2.RuntimeSpec{}
	if got := SubscriptionWarnings(o, s); len(got) > 0 {
		t.Errorf("nothing is set: %q", got)
	}
}

// TestPodSettingsReachTheSubscription also checks that a change of them starts new pods.
func TestPodSettingsReachTheSubscription(t *testing.T) {
	c, o := testCollection("1.0.0"), testOptions(model.Group)
	before := find[*operatorsv1alpha1.Subscription](t, subscribe(t, c, o)).Spec.Config
	every := everyRuntime()
	o.Runtime.EnvFrom, o.Runtime.Volumes, o.Runtime.VolumeMounts, o.Runtime.PodAnnotations = every.EnvFrom, every.Volumes, every.VolumeMounts, every.PodAnnotations
	config := find[*operatorsv1alpha1.Subscription](t, subscribe(t, c, o)).Spec.Config
	if config.Annotations[RuntimeHashAnnotation] == before.Annotations[RuntimeHashAnnotation] {
		t.Error("no new pods are started")
	}
	delete(config.Annotations, RuntimeHashAnnotation)
	want := &operatorsv1alpha1.SubscriptionConfig{
		Annotations: every.PodAnnotations,
		EnvFrom: []corev1.EnvFromSource{
			{Prefix: "ZOSCB_FROM_APP_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
			{Prefix: "ZOSCB_FROM_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "proxy"}}},
		},
		Volumes:      userVolumes(every),
		VolumeMounts: []corev1.VolumeMount{{Name: "wheels", MountPath: "/mnt/wheels", SubPath: "python", ReadOnly: true}},
	}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestOperatorGroupIsNobodysOwn(t *testing.T) {
	o := testOptions(model.Group)
	groupOf := func(c *model.Collection) *operatorsv1.OperatorGroup {
		return find[*operatorsv1.OperatorGroup](t, subscribe(t, c, o))
	}
	other := testCollection("2.0.0")
	other.Name = "others"
	if diff := cmp.Diff(groupOf(testCollection("1.0.0")), groupOf(other)); diff != "" {
		t.Errorf("two collections in one namespace write different groups:\n%s", diff)
	}
	if got := groupOf(other).Spec.TargetNamespaces; !slices.Equal(got, []string{o.Namespace}) {
		t.Errorf("it targets %v", got)
	}
}

func TestRolesAreThoseOfAnInstallation(t *testing.T) {
	c, o := testCollection("1.0.0"), testOptions(model.Group)
	c.ClusterRoles = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get"}}}
	var want []Object
	for _, object := range install(t, c, o) {
		if kind := object.GetObjectKind().GroupVersionKind().Kind; kind == "Role" || kind == "ClusterRole" {
			want = append(want, object)
		}
	}
	if diff := cmp.Diff(want, Roles(c, o)); diff != "" {
		t.Errorf("(-installed +roles):\n%s", diff)
	}
}

func TestPersonalCredentialsAreReadableUnderOLM(t *testing.T) {
	c, o := testCollection("1.0.0"), testOptions(model.Group)
	roles := func() (found []*rbacv1.Role) {
		for _, object := range subscribe(t, c, o) {
			if role, isRole := object.(*rbacv1.Role); isRole {
				found = append(found, role)
			}
		}
		return found
	}
	if found := roles(); len(found) > 0 {
		t.Errorf("roles without need: %v", found)
	}
	o.PersonalCredentials = true
	found := roles()
	if len(found) != 1 || found[0].Name != c.OperatorName() || found[0].Namespace != o.Namespace || len(found[0].Rules) != 1 {
		t.Fatalf("roles %v", found)
	}
	if rule := found[0].Rules[0]; !slices.Equal(rule.Resources, []string{"secrets"}) || !slices.Equal(rule.Verbs, []string{"get"}) {
		t.Errorf("rule %v", rule)
	}
}
