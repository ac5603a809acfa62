package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// Scope specifies from where an operand may be requested.
// +kubebuilder:validation:Enum=public;private
type Scope string

const (
	// ScopePrivate lets OperandRequests in the namespace of the OperandRegistry request an operand. It is the default.
	ScopePrivate Scope = "private"
	// ScopePublic lets OperandRequests in all namespaces request an operand.
	ScopePublic Scope = "public"
)

// Values of installMode.
const (
	// InstallModeNamespace installs an operator in its namespace. It is the default.
	InstallModeNamespace = "namespace"
	// InstallModeCluster installs an operator for all namespaces.
	InstallModeCluster = "cluster"
	// InstallModeNoOp installs no operator.
	InstallModeNoOp = "no-op"
)

// OperatorCollectionReference names an OperatorCollection.
type OperatorCollectionReference struct {
	// name of the OperatorCollection.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// namespace of the OperatorCollection. Defaults to that of the OperandRegistry. In another namespace, the annotation
	// operator.ibm.com/allow-registries-from of the OperatorCollection must list the namespace of the OperandRegistry.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// zosendpoints that the operator may use in a namespace to which it is brought, with their credentials. If absent, it may use every
	// ZosEndpoint in the namespace of the OperatorCollection. If empty, it may use none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1000
	ZosEndpoints *[]v2beta2.EndpointMapping `json:"zosendpoints,omitempty"`
}

// Operator is an operator that may be requested.
// +kubebuilder:pruning:PreserveUnknownFields
type Operator struct {
	// name by which OperandConfig and OperandRequests refer to the operator. Of several with one name, the first counts.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// collection is the OperatorCollection whose operator is installed. ODLM does not have this field. With it, packageName,
	// channel and the fields about catalogs have no effect.
	// +optional
	Collection *OperatorCollectionReference `json:"collection,omitempty"`

	// namespace in which the operator is installed. Defaults to that of the OperandRegistry.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// scope specifies from where the operator and its resources may be requested: private, the default, from the namespace of the
	// OperandRegistry, and public from all namespaces.
	// +optional
	Scope Scope `json:"scope,omitempty"`

	// installMode is namespace (the default), cluster, or no-op, which installs nothing.
	// +optional
	InstallMode string `json:"installMode,omitempty"`

	// packageName is the package of the operator in a catalog of the Operator Lifecycle Manager.
	// +optional
	PackageName string `json:"packageName,omitempty"`

	// channel of the package.
	// +optional
	Channel string `json:"channel,omitempty"`

	// fallbackChannels are further channels of the package that may be used.
	// +optional
	// +listType=atomic
	FallbackChannels []string `json:"fallbackChannels,omitempty"`

	// sourceName is the CatalogSource with the package.
	// +optional
	SourceName string `json:"sourceName,omitempty"`

	// sourceNamespace is the namespace of the CatalogSource.
	// +optional
	SourceNamespace string `json:"sourceNamespace,omitempty"`

	// installPlanApproval is Automatic (the default) or Manual.
	// +optional
	InstallPlanApproval string `json:"installPlanApproval,omitempty"`

	// startingCSV is the ClusterServiceVersion that is installed first.
	// +optional
	StartingCSV string `json:"startingCSV,omitempty"`

	// subscriptionConfig is the config of the operator's Subscription.
	// +optional
	SubscriptionConfig *apiextensionsv1.JSON `json:"subscriptionConfig,omitempty"`

	// targetNamespaces are those of an OperatorGroup that is created for the operator.
	// +optional
	// +listType=atomic
	TargetNamespaces []string `json:"targetNamespaces,omitempty"`

	// configName is the name of the operator's service in the OperandConfig. Defaults to name.
	// +optional
	ConfigName string `json:"configName,omitempty"`

	// description of the operator.
	// +optional
	Description string `json:"description,omitempty"`
}

// OperandRegistrySpec lists the operators that may be requested.
// +kubebuilder:pruning:PreserveUnknownFields
type OperandRegistrySpec struct {
	// operators that may be requested.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=1000
	Operators []Operator `json:"operators,omitempty"`
}

// Phases of an OperandRegistry.
const (
	// RegistryReady means that no operator is requested.
	RegistryReady = "Ready for Deployment"
	// RegistryRunning means that an operator is requested.
	RegistryRunning = "Running"
)

// RequestReference names an OperandRequest.
type RequestReference struct {
	// name of the OperandRequest.
	Name string `json:"name"`
	// namespace of the OperandRequest.
	Namespace string `json:"namespace"`
}

// OperatorStatus says who requests an operator.
type OperatorStatus struct {
	// phase of the operator: Installing, Updating, Running or Failed.
	// +optional
	Phase OperatorPhase `json:"phase,omitempty"`
	// reconcileRequests are the OperandRequests for the operator.
	// +optional
	// +listType=atomic
	ReconcileRequests []RequestReference `json:"reconcileRequests,omitempty"`
}

// OperandRegistryStatus is the observed state of an OperandRegistry.
// +kubebuilder:pruning:PreserveUnknownFields
type OperandRegistryStatus struct {
	// phase is "Ready for Deployment", or Running while an operator is requested.
	// +optional
	Phase string `json:"phase,omitempty"`
	// observedGeneration is the generation that the status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// operatorsStatus says for each requested operator who requests it.
	// +optional
	OperatorsStatus map[string]OperatorStatus `json:"operatorsStatus,omitempty"`
}

// OperandRegistry lists operators that OperandRequests may ask for.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="app.kubernetes.io/part-of=collection-operator"
// +kubebuilder:resource:shortName=opreg
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Created At",type=string,JSONPath=`.metadata.creationTimestamp`
type OperandRegistry struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec OperandRegistrySpec `json:"spec,omitempty"`
	// +optional
	Status OperandRegistryStatus `json:"status,omitempty"`
}

// OperandRegistryList is a list of OperandRegistries.
//
// +kubebuilder:object:root=true
type OperandRegistryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []OperandRegistry `json:"items"`
}

// Find returns the first operator with a name, or nil.
func (r *OperandRegistry) Find(name string) *Operator {
	for i := range r.Spec.Operators {
		if r.Spec.Operators[i].Name == name {
			return &r.Spec.Operators[i]
		}
	}
	return nil
}
