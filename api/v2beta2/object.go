package v2beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is an object of one of this API's kinds.
type Object interface {
	metav1.Object
	runtime.Object
	// StatusConditions returns the conditions of its status, to be read and changed.
	StatusConditions() *[]metav1.Condition
}

// StatusConditions implements [Object].
func (o *OperatorCollection) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }

// StatusConditions implements [Object].
func (o *SubOperatorConfig) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }

// StatusConditions implements [Object].
func (o *ZosEndpoint) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }
