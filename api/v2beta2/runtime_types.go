package v2beta2

import corev1 "k8s.io/api/core/v1"

// LabelRuntime on a Secret, ConfigMap or PersistentVolumeClaim lets operators in its namespace use it through spec.runtime, and lets
// their playbooks read a Secret that a custom resource names: all of them with the value "true", or one with its name,
// <domain>-<name>-operator.
const LabelRuntime = "zoscb.ibm.com/runtime"

// LabelRuntimeAll is the value of LabelRuntime for all operators.
const LabelRuntimeAll = "true"

// RuntimeVolume is a volume of the pod: exactly one of configMap, secret, persistentVolumeClaim and emptyDir. Except for emptyDir, it is
// an object of the pod's namespace with the label zoscb.ibm.com/runtime.
// +kubebuilder:validation:XValidation:rule="[has(self.configMap), has(self.secret), has(self.persistentVolumeClaim), has(self.emptyDir)].exists_one(x, x)",message="must have exactly one of configMap, secret, persistentVolumeClaim and emptyDir; other volumes, such as hostPath, are not supported"
type RuntimeVolume struct {
	// name of the volume. Volumes of the operator itself cannot be replaced.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['runtime', 'endpoints', 'content', 'collections', 'home', 'tmp', 'dependencies', 'dependency-credentials'])",message="is the name of a volume of the operator itself: choose another name"
	Name string `json:"name"`

	// configMap is a ConfigMap of the pod's namespace.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.name) && self.name != ''",message="needs the name of a ConfigMap"
	// +kubebuilder:validation:XValidation:rule="!has(self.optional) || !self.optional",message="cannot be optional: the label of an object that does not exist cannot be checked"
	ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`

	// secret is a Secret of the pod's namespace.
	// +optional
	// +kubebuilder:validation:XValidation:rule="has(self.secretName) && self.secretName != ''",message="needs the secretName of a Secret"
	// +kubebuilder:validation:XValidation:rule="!has(self.optional) || !self.optional",message="cannot be optional: the label of an object that does not exist cannot be checked"
	Secret *corev1.SecretVolumeSource `json:"secret,omitempty"`

	// persistentVolumeClaim is a PersistentVolumeClaim of the pod's namespace.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.claimName != ''",message="needs the claimName of a PersistentVolumeClaim"
	PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`

	// emptyDir is an empty directory that exists as long as the pod.
	// +optional
	EmptyDir *corev1.EmptyDirVolumeSource `json:"emptyDir,omitempty"`
}

// RuntimeVolumeMount mounts a volume of runtime.volumes in the operator container, and, except with the Operator Lifecycle Manager, in the
// container that installs dependencies.
type RuntimeVolumeMount struct {
	// name of a volume in runtime.volumes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// mountPath is the absolute path. Directories of the operator and of the system cannot be hidden.
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$`
	// +kubebuilder:validation:XValidation:rule="['/opt/ansible', '/etc/zoscb', '/etc/passwd', '/etc/group', '/tmp', '/dev', '/proc', '/sys', '/usr', '/bin', '/sbin', '/lib', '/lib64', '/tini', '/run/secrets', '/var/run/secrets'].all(p, self != p && !self.startsWith(p + '/') && !p.startsWith(self + '/'))",message="would hide a directory of the operator or of the system: choose another path, such as /mnt/data"
	MountPath string `json:"mountPath"`

	// subPath is the path of a file or directory in the volume. Such mounts do not follow changes of a ConfigMap or Secret.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[^/:]`
	// +kubebuilder:validation:XValidation:rule="!self.split('/').exists(part, part == '..')",message="must not contain '..'"
	SubPath string `json:"subPath,omitempty"`

	// readOnly mounts the volume read-only.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}

// RuntimeEnvSource is a ConfigMap or Secret of the pod's namespace, with the label zoscb.ibm.com/runtime, whose keys become environment
// variables.
// +kubebuilder:validation:XValidation:rule="has(self.configMapRef) != has(self.secretRef)",message="must have exactly one of configMapRef and secretRef"
type RuntimeEnvSource struct {
	// prefix of the variables' names.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Prefix string `json:"prefix,omitempty"`

	// configMapRef names a ConfigMap.
	// +optional
	ConfigMapRef *RuntimeObject `json:"configMapRef,omitempty"`

	// secretRef names a Secret.
	// +optional
	SecretRef *RuntimeObject `json:"secretRef,omitempty"`
}

// RuntimeObject names an object of the pod's namespace with the label zoscb.ibm.com/runtime.
type RuntimeObject struct {
	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
