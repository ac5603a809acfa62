// Package podclient makes the Kubernetes client of the programs in an operator's pod. It is small: a program that starts
// for each reconciliation must not build schemes or discover API groups.
package podclient

import (
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Timeout of a request.
const Timeout = 5 * time.Second

// KubeconfigVariable is the environment variable with the path of a kubeconfig that is used instead of the pod's own service
// account. KUBECONFIG is ignored: ansible-operator sets it to its caching proxy.
const KubeconfigVariable = "ZOSCB_KUBECONFIG"

// New returns a client of the pod's own service account.
func New() (dynamic.Interface, error) {
	config, err := restConfig()
	if err != nil {
		return nil, fmt.Errorf("configure the Kubernetes client: %w", err)
	}
	config.Timeout = Timeout
	config.QPS = -1
	config.UserAgent = "collection-operator-engine"
	config.WarningHandler = rest.NoWarnings{}
	return dynamic.NewForConfig(config)
}

func restConfig() (*rest.Config, error) {
	if path := os.Getenv(KubeconfigVariable); path != "" {
		return clientcmd.BuildConfigFromFlags("", path)
	}
	return rest.InClusterConfig()
}
