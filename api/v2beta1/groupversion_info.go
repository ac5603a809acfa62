// Package v2beta1 contains the settings object of IBM z/OS Cloud Broker, in the version in which its clients read it.
//
// +kubebuilder:object:generate=true
// +groupName=zoscb.ibm.com
package v2beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "zoscb.ibm.com", Version: "v2beta1"}

var (
	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the kinds of this package with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ZosCloudBroker{}, &ZosCloudBrokerList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
