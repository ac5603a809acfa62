package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

// defaultName is the name of the OperandRegistry and the OperandConfig that exist after an installation.
const defaultName = "default"

// Defaults creates an empty OperandRegistry and an empty OperandConfig, unless they exist.
type Defaults struct {
	Client client.Client
	// Namespace is that of this process.
	Namespace string
}

// Start implements [sigs.k8s.io/controller-runtime/pkg/manager.Runnable]. It runs on the leader.
func (d *Defaults) Start(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: d.Namespace, Name: defaultName}
	for _, object := range []client.Object{&v1alpha1.OperandRegistry{ObjectMeta: meta}, &v1alpha1.OperandConfig{ObjectMeta: meta}} {
		err := d.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
		if apierrors.IsNotFound(err) {
			err = d.Client.Create(ctx, object, client.FieldOwner(FieldOwner))
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the default %T: %w", object, err)
		}
	}
	return nil
}
