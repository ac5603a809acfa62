package manager

import (
	"context"
	"errors"
	"fmt"
	"os"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	operandsv1alpha1 "github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/cluster"
	"github.com/collection-operator/collection-operator/internal/operands/operandregistry"
	"github.com/collection-operator/collection-operator/internal/operands/operandrequest"
)

// operandSettings are the flags of the subcommand operands.
type operandSettings struct {
	leaderElect  bool
	namespace    string
	probeAddress string
}

func (s *operandSettings) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&s.leaderElect, "leader-elect", true, "elect a leader, so that only one process reconciles at a time")
	flags.StringVar(&s.namespace, "manager-namespace", os.Getenv("POD_NAMESPACE"), "namespace of the pod, with the lease and the default OperandRegistry; default: environment variable POD_NAMESPACE")
	flags.StringVar(&s.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
}

func (s *operandSettings) run(ctx context.Context) error {
	if s.namespace == "" {
		return errors.New("--manager-namespace is not set")
	}
	ctrl.SetLogger(zap.New())
	mgr, err := s.newManager()
	if err != nil {
		return fmt.Errorf("setting up the manager: %w", err)
	}
	if err := cluster.CheckNeighbors(ctx, mgr.GetAPIReader()); err != nil {
		return err
	}
	account, err := cluster.FindAccount(ctx, mgr.GetClient())
	if err != nil {
		return err
	}
	global, err := cluster.FindGlobalNamespace(ctx, mgr.GetAPIReader())
	if err != nil {
		return fmt.Errorf("looking for the namespace of operators for all namespaces: %w", err)
	}
	requests := &operandrequest.Reconciler{
		Access:   cluster.Access{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Account: account},
		Recorder: mgr.GetEventRecorder("collection-operator-operands"), GlobalNamespace: global,
	}
	registries := &operandregistry.Reconciler{Client: mgr.GetClient()}
	err = errors.Join(mgr.Add(&cluster.Defaults{Client: mgr.GetClient(), Namespace: s.namespace}), requests.SetupWithManager(mgr), registries.SetupWithManager(mgr),
		mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("ping", healthz.Ping))
	if err != nil {
		return fmt.Errorf("setting up a controller: %w", err)
	}
	return mgr.Start(ctx)
}

func (s *operandSettings) newManager() (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v2beta2.AddToScheme, operandsv1alpha1.AddToScheme,
		operatorsv1alpha1.AddToScheme, operatorsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	return ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		// They are read live: there is no permission to watch them.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&corev1.Namespace{}, &appsv1.Deployment{}, &apiextensionsv1.CustomResourceDefinition{},
		}}},
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        s.probeAddress,
		LeaderElection:                s.leaderElect,
		LeaderElectionID:              "operands.collection-operator.zoscb.ibm.com",
		LeaderElectionNamespace:       s.namespace,
		LeaderElectionReleaseOnCancel: true,
	})
}

// operandsCommand runs with a ServiceAccount of its own: the manager's permissions are not needed for requests.
func operandsCommand() *cobra.Command {
	return subcommand("operands", "Installs what OperandRequests ask for", &operandSettings{})
}
