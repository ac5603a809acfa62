package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

const (
	// RuntimeHashAnnotation on the pod template rolls the pods when a file of the runtime ConfigMap changes. With the Operator
	// Lifecycle Manager, it comes from the Subscription, and is missing if CatalogHashAnnotation says the same.
	RuntimeHashAnnotation = "zoscb.ibm.com/runtime-hash"

	// CatalogHashAnnotation on the pod template of a ClusterServiceVersion is the RuntimeHashAnnotation of an installation that
	// sets nothing of its own. It has another name, since a Subscription cannot change annotations of a ClusterServiceVersion.
	CatalogHashAnnotation = "zoscb.ibm.com/catalog-runtime-hash"

	// OperatorContainer is the name of the container that runs ansible-operator.
	OperatorContainer = gate.OperatorContainer

	// InitPrefix begins the names of init containers. Authors' tools take other containers that have ended for failed ones. Those of
	// managers before had names without it.
	InitPrefix = "init-"

	// UnpackContainer is the name of the init container that downloads the archive.
	UnpackContainer = InitPrefix + "unpack"

	// ArchiveUntrusted begins the termination message of UnpackContainer if the manager's certificate is not trusted.
	ArchiveUntrusted = "archive not trusted: "

	// DefaultMaxConcurrentReconciles is the default limit of concurrent playbooks of one kind.
	DefaultMaxConcurrentReconciles int32 = 2

	probePort = 6789

	// watchNamespace is the variable with the namespace that ansible-operator watches.
	watchNamespace = "WATCH_NAMESPACE"

	// settingsVariable is the variable with the path of the gate's settings: the init container's copy, which stays the same as
	// long as the unpacked archive.
	settingsVariable = "ZOSCB_SETTINGS"

	// CollectionVersionVariable is the variable of UnpackContainer with the version of the collection: a pod does not start with the
	// ConfigMap of another version.
	CollectionVersionVariable = "ZOSCB_COLLECTION_VERSION"

	// CheckDependenciesVariable is the variable of UnpackContainer that lets it do the work of DependenciesContainer for a collection
	// that only requires a version of Ansible.
	CheckDependenciesVariable = "ZOSCB_CHECK_DEPENDENCIES"

	// defaultContainer annotates a pod with the container that kubectl uses by default.
	defaultContainer = "kubectl.kubernetes.io/default-container"

	// DefaultTerminationSeconds is the default time that running playbooks have to end.
	DefaultTerminationSeconds int32 = 300

	// shutdownReserve is how many seconds before the end of the pod ansible-operator ends, before it is killed.
	shutdownReserve = 10
)

const (
	contentDir     = "/opt/ansible/content"
	collectionsDir = "/opt/ansible/collections"
	entryPlaybook  = "/opt/ansible/engine/entry.yml"
)

// podOptions is the input of podSpec in addition to the collection.
type podOptions struct {
	// runtime is not shared: it may be changed.
	runtime       v2beta2.RuntimeSpec
	architectures []string
	// own variables of the operator container, including the namespace to watch.
	own []corev1.EnvVar
	// concurrent is the limit of concurrent playbooks of one kind, as an argument.
	concurrent string
	// credentials for dependencies, or nil.
	credentials *corev1.SecretVolumeSource
}

// baseContainer is what all containers of the pod have in common.
func baseContainer(name string, o podOptions) corev1.Container {
	return corev1.Container{
		Name:            name,
		Image:           o.runtime.Image,
		ImagePullPolicy: corev1.PullIfNotPresent,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			ReadOnlyRootFilesystem:   ptr.To(true),
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "runtime", MountPath: "/etc/zoscb/runtime", ReadOnly: true},
			{Name: "content", MountPath: contentDir},
			{Name: "collections", MountPath: collectionsDir},
			{Name: "tmp", MountPath: "/tmp"},
		},
	}
}

func fieldEnv(name, fieldPath string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: fieldPath},
	}}
}

func resources(cpuRequest, memoryRequest, cpuLimit, memoryLimit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpuRequest), corev1.ResourceMemory: resource.MustParse(memoryRequest),
		},
		Limits: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpuLimit), corev1.ResourceMemory: resource.MustParse(memoryLimit),
		},
	}
}

func emptyDir(name, size string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse(size))},
	}}
}

// privateDir returns an emptyDir in memory, for copies of SSH keys: ssh rejects key files that are readable for the group.
func privateDir(name, size string) corev1.Volume {
	volume := emptyDir(name, size)
	volume.EmptyDir.Medium = corev1.StorageMediumMemory
	return volume
}
