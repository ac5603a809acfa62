// Command manager runs the controllers of Collection Operator. The subcommand unpack runs in the init container of installed
// operators, the subcommand policies where the Operator Lifecycle Manager installs the manager, and the subcommand operands with the
// component operands.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/internal/manager"
)

func main() {
	if err := manager.Command().ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
