// Package v1alpha1 contains the API of operand requests. It is compatible with objects for the Operand Deployment Lifecycle
// Manager (ODLM): group, version, kinds and fields are the same. Fields that ODLM does not have say so.
//
// +kubebuilder:object:generate=true
// +groupName=operator.ibm.com
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "operator.ibm.com", Version: "v1alpha1"}

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds of this package with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&OperandRegistry{}, &OperandRegistryList{},
		&OperandConfig{}, &OperandConfigList{},
		&OperandRequest{}, &OperandRequestList{},
		&OperandBindInfo{}, &OperandBindInfoList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
