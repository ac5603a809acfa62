package v2beta2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// StatusConditions returns a pointer to the conditions in the status.
func (o *OperatorCollection) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }

// StatusConditions returns a pointer to the conditions in the status.
func (o *SubOperatorConfig) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }

// StatusConditions returns a pointer to the conditions in the status.
func (o *ZosEndpoint) StatusConditions() *[]metav1.Condition { return &o.Status.Conditions }
