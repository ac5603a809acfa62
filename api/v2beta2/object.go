package v2beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// StatusConditions returns the conditions of the object's status, to be read and changed.
func (o *OperatorCollection) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }

// StatusConditions returns the conditions of the object's status, to be read and changed.
func (o *SubOperatorConfig) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }

// StatusConditions returns the conditions of the object's status, to be read and changed.
func (o *ZosEndpoint) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }
