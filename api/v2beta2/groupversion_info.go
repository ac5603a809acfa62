// Package v2beta2 contains the API of Collection Operator. It is compatible with clients of IBM z/OS Cloud Broker:
// group, version, kinds and common fields are the same. All other fields are additions of this project.
//
// +kubebuilder:object:generate=true
// +groupName=zoscb.ibm.com
package v2beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "zoscb.ibm.com", Version: "v2beta2"}

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds of this package with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&OperatorCollection{}, &OperatorCollectionList{},
		&SubOperatorConfig{}, &SubOperatorConfigList{},
		&ZosEndpoint{}, &ZosEndpointList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
