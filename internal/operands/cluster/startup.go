package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/internal/operands/plan"
)

const (
	// labelPartOf and its value are on our CRDs.
	labelPartOf = "app.kubernetes.io/part-of"
	partOf      = "collection-operator"
	// foreignDeployment is the Deployment of the Operand Deployment Lifecycle Manager.
	foreignDeployment = "operand-deployment-lifecycle-manager"
)

// CheckNeighbors fails if the Operand Deployment Lifecycle Manager, or its CRDs, are installed: both would write the same objects.
func CheckNeighbors(ctx context.Context, reader client.Reader) error {
	var foreign []string
	for _, plural := range []string{"operandregistries", "operandconfigs", "operandrequests", "operandbindinfos"} {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		name := plural + "." + v1alpha1.GroupVersion.Group
		if err := reader.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
			return fmt.Errorf("reading CRD %q: %w", name, err)
		}
		if crd.Labels[labelPartOf] != partOf {
			foreign = append(foreign, fmt.Sprintf("CRD %q without the label %s=%s", name, labelPartOf, partOf))
		}
	}
	deployments := &appsv1.DeploymentList{}
	if err := reader.List(ctx, deployments, client.MatchingFields{"metadata.name": foreignDeployment}); err != nil {
		return fmt.Errorf("listing Deployments named %q: %w", foreignDeployment, err)
	}
	for _, d := range deployments.Items {
		foreign = append(foreign, fmt.Sprintf("Deployment %q in namespace %q", d.Name, d.Namespace))
	}
	if len(foreign) == 0 {
		return nil
	}
	slices.Sort(foreign)
	return fmt.Errorf("the Operand Deployment Lifecycle Manager is installed, which handles the same objects: %s: remove it first", strings.Join(foreign, ", "))
}

// FindAccount asks the API server for the ServiceAccount of this process.
func FindAccount(ctx context.Context, c client.Client) (types.NamespacedName, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return types.NamespacedName{}, fmt.Errorf("asking for the user of this process: %w", err)
	}
	user := review.Status.UserInfo.Username
	parts := strings.Split(user, ":")
	if len(parts) != 4 || parts[1] != "serviceaccount" {
		return types.NamespacedName{Name: user}, nil
	}
	return types.NamespacedName{Namespace: parts[2], Name: parts[3]}, nil
}

// globalNamespaces are those of operators for all namespaces: on OpenShift, and on other clusters with the Operator Lifecycle Manager.
var globalNamespaces = []string{"openshift-operators", "operators"}

// FindGlobalNamespace returns the first of the namespaces of operators for all namespaces that exists, or the first one.
func FindGlobalNamespace(ctx context.Context, reader client.Reader) (string, error) {
	for _, name := range globalNamespaces {
		err := reader.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if err == nil || !apierrors.IsNotFound(err) {
			return name, err
		}
	}
	return globalNamespaces[0], nil
}

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
			err = d.Client.Create(ctx, object, client.FieldOwner(plan.FieldOwner))
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the default %T: %w", object, err)
		}
	}
	return nil
}
