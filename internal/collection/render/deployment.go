package render

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

func deployment(c *model.Collection, o InstallationOptions, config *corev1.ConfigMap) (*appsv1.Deployment, error) {
	if o.Runtime.Image == "" {
		return nil, errors.New("runtime: image is not set")
	}
	spec := deploymentSpec(c, o.podOptions(c))
	spec.Template.Annotations[RuntimeHashAnnotation] = runtimeHash(config.Data, nil)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: objectMeta(c, o.Namespace, c.OperatorName()),
		Spec:       spec,
	}, nil
}

// podOptions returns the options of a pod that the manager creates.
func (o InstallationOptions) podOptions(c *model.Collection) podOptions {
	options := podOptions{
		runtime: MergeRuntime(&o.Runtime, nil), architectures: o.Architectures,
		own:        []corev1.EnvVar{{Name: watchNamespace, Value: o.Namespace}},
		concurrent: concurrency(o.Runtime),
	}
	if usesDependencySecret(c, o) {
		options.credentials = dependencyCredentials(c)
	}
	return options
}

func deploymentSpec(c *model.Collection, o podOptions) appsv1.DeploymentSpec {
	return appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](1),
		// Two pods would run the same playbook at the same time.
		Strategy:             appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
		RevisionHistoryLimit: ptr.To[int32](2),
		// A selector is immutable, so it does not include the version.
		Selector: &metav1.LabelSelector{MatchLabels: IdentityLabels(c.ID())},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{
				// Those of the operator take precedence.
				Labels:      mergeMaps(maps.Clone(o.runtime.PodLabels), Labels(c)),
				Annotations: mergeMaps(maps.Clone(o.runtime.PodAnnotations), map[string]string{defaultContainer: OperatorContainer}),
			},
			Spec: podSpec(c, o),
		},
	}
}

func podSpec(c *model.Collection, o podOptions) corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName:           c.OperatorName(),
		AutomountServiceAccountToken: ptr.To(true),
		// Keeps variables for Services of the namespace out of ansible-operator and playbooks.
		EnableServiceLinks:            ptr.To(false),
		TerminationGracePeriodSeconds: ptr.To(int64(terminationSeconds(o.runtime))),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot:   ptr.To(true),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		ImagePullSecrets: pullSecrets(o.runtime),
		InitContainers:   initContainers(c, o),
		Containers:       []corev1.Container{operatorContainer(c, o)},
		Volumes:          slices.Concat(volumes(c), dependencyVolumes(c, o), userVolumes(o.runtime)),
		NodeSelector:     o.runtime.NodeSelector,
		Tolerations:      o.runtime.Tolerations,
		Affinity:         affinity(o.runtime.Affinity, o.architectures),

		PriorityClassName:         o.runtime.PriorityClassName,
		TopologySpreadConstraints: o.runtime.TopologySpreadConstraints,
	}
}

func initContainers(c *model.Collection, o podOptions) []corev1.Container {
	if c.Dependencies.Empty() {
		return []corev1.Container{unpackContainer(c, o)}
	}
	return []corev1.Container{unpackContainer(c, o), dependenciesContainer(c, o)}
}

func unpackContainer(c *model.Collection, o podOptions) corev1.Container {
	container := baseContainer(UnpackContainer, o)
	container.Command = []string{"/usr/local/bin/manager"}
	container.Args = []string{
		"unpack", "--runtime-dir=/etc/zoscb/runtime", "--content-dir=" + contentDir, "--collections-dir=" + collectionsDir,
	}
	// Not an argument: images of earlier versions do not know it.
	container.Env = []corev1.EnvVar{{Name: CollectionVersionVariable, Value: c.VersionLabel()}}
	// Another container takes a second to start.
	if needsDependencies(c) && c.Dependencies.Empty() {
		container.Env = append(container.Env, corev1.EnvVar{Name: CheckDependenciesVariable, Value: "true"})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: dependenciesVolume, MountPath: dependenciesDir})
	}
	container.Resources = resources("50m", "64Mi", "1", "256Mi")
	return container
}

func operatorContainer(c *model.Collection, o podOptions) corev1.Container {
	container := baseContainer(OperatorContainer, o)
	container.Command = []string{"/opt/ansible/engine/entrypoint"}
	container.Args = operatorArgs(o)
	container.Env = mergeEnv(o.runtime.Env, operatorEnv(o))
	container.Ports = []corev1.ContainerPort{{Name: "probes", ContainerPort: probePort, Protocol: corev1.ProtocolTCP}}
	container.Resources = ptr.Deref(o.runtime.Resources, resources("100m", "256Mi", "2", "2Gi"))
	addProbes(&container)
	container.VolumeMounts = slices.Insert(container.VolumeMounts, 1,
		corev1.VolumeMount{Name: "endpoints", MountPath: "/etc/zoscb/endpoints", ReadOnly: true})
	container.VolumeMounts = slices.Insert(container.VolumeMounts, 4, corev1.VolumeMount{Name: "home", MountPath: "/opt/ansible/home"})
	container.VolumeMounts = slices.Concat(container.VolumeMounts, dependencyMounts(c, o), userMounts(o.runtime))
	container.EnvFrom = envFrom(o.runtime)
	return container
}

func operatorArgs(o podOptions) []string {
	return []string{
		"run",
		"--watches-file=/etc/zoscb/runtime/" + KeyWatches,
		// Deleting a resource must not delete objects that its playbook created or discovered.
		"--inject-owner-ref=false",
		"--max-concurrent-reconciles=" + o.concurrent,
		// A higher verbosity logs the arguments of tasks.
		"--ansible-verbosity=0",
		// The gate writes the output of runs.
		"--ansible-log-events=Nothing",
		// The default for a period of 0s in watches.yaml.
		"--reconcile-period=0s",
		fmt.Sprintf("--health-probe-bind-address=:%d", probePort),
		"--metrics-bind-address=0",
		fmt.Sprintf("--graceful-shutdown-timeout=%ds", terminationSeconds(o.runtime)-shutdownReserve),
	}
}

func terminationSeconds(runtime v2beta2.RuntimeSpec) int32 {
	return ptr.Deref(runtime.TerminationSeconds, DefaultTerminationSeconds)
}

func concurrency(runtime v2beta2.RuntimeSpec) string {
	return strconv.Itoa(int(ptr.Deref(runtime.MaxConcurrentReconciles, DefaultMaxConcurrentReconciles)))
}

func operatorEnv(o podOptions) []corev1.EnvVar {
	return append(slices.Clone(o.own),
		fieldEnv("POD_NAME", "metadata.name"),
		fieldEnv("POD_UID", "metadata.uid"),
		corev1.EnvVar{Name: settingsVariable, Value: path.Join(collectionsDir, gate.SettingsFile)},
	)
}

// HasGate reports whether a container that this package rendered decides about runs by the gate's settings. Those of
// managers before the gate do not.
func HasGate(operator *corev1.Container) bool {
	return slices.ContainsFunc(operator.Env, func(e corev1.EnvVar) bool { return e.Name == settingsVariable })
}

// addProbes adds the probes of the operator container. It may wait for hours before it starts ansible-operator: for missing
// dependencies, or for the end of the pod before it. Then it answers /healthz, and not /readyz. A playbook that takes all CPU
// time, or a node that does, delays answers: a container that is killed for that interrupts its playbooks.
func addProbes(container *corev1.Container) {
	container.StartupProbe = probe("/readyz", 1, 5, startupSeconds)
	container.ReadinessProbe = probe("/readyz", 10, 10, 6)
	container.LivenessProbe = probe("/healthz", 30, 20, 10)
}

// startupSeconds is how long a container may wait before it starts ansible-operator: a day. The kubelet restarts it then.
const startupSeconds = 24 * 60 * 60

// probe returns a probe of the operator container. Period and timeout are in seconds.
func probe(path string, period, timeout, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt32(probePort)},
		},
		PeriodSeconds: period, TimeoutSeconds: timeout, FailureThreshold: failures,
	}
}

// volumes returns the volumes of the pod. ConfigMap and Secret are mounted without subPath, so that the kubelet updates
// them. Writable directories are emptyDirs. The Secret's files are readable for group 0, which every UID on OpenShift
// belongs to.
func volumes(c *model.Collection) []corev1.Volume {
	return []corev1.Volume{
		{Name: "runtime", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: ConfigMapName(c)},
		}}},
		{Name: "endpoints", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: EndpointsSecretName(c), DefaultMode: ptr.To[int32](0o440),
		}}},
		// An archive has at most 1Gi. Playbooks may write to the directory as well.
		emptyDir("content", "2Gi"),
		// The link to the content, and collections that are dependencies.
		emptyDir("collections", "1Gi"),
		privateDir("home", "64Mi"),
		emptyDir("tmp", "4Gi"),
	}
}

// affinity adds the architectures of the image to the user's affinity, and prefers s390x. The terms of a required node
// affinity are alternatives, so the requirement is added to each of them.
func affinity(user *corev1.Affinity, architectures []string) *corev1.Affinity {
	if len(architectures) == 0 {
		return user
	}
	if user == nil {
		user = &corev1.Affinity{}
	}
	if user.NodeAffinity == nil {
		user.NodeAffinity = &corev1.NodeAffinity{}
	}
	node := user.NodeAffinity
	if node.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		node.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{onArchitecture(architectures...)}},
		}}
	} else {
		terms := node.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		for i, term := range terms {
			// An empty term matches no node, and must stay empty.
			if len(term.MatchExpressions) > 0 || len(term.MatchFields) > 0 {
				terms[i].MatchExpressions = append(term.MatchExpressions, onArchitecture(architectures...))
			}
		}
	}
	if slices.Contains(architectures, "s390x") {
		node.PreferredDuringSchedulingIgnoredDuringExecution = append(node.PreferredDuringSchedulingIgnoredDuringExecution,
			corev1.PreferredSchedulingTerm{Weight: 50, Preference: corev1.NodeSelectorTerm{
				MatchExpressions: []corev1.NodeSelectorRequirement{onArchitecture("s390x")},
			}})
	}
	return user
}

func onArchitecture(architectures ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{
		Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: architectures,
	}
}
