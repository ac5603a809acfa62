// Package manager builds the programs that run the controllers from their flags and settings.
package manager

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/collection-operator/collection-operator/internal/manager/unpack"
)

// Command runs the manager with the arguments and the environment of the process.
func Command() *cobra.Command {
	var s options // For the usage and wrong arguments.
	policies, operands := policiesCommand(), operandsCommand()
	root := &cobra.Command{
		Use:           "manager",
		Short:         "Runs Ansible collections as Kubernetes operators",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			invocation, err := newInvocation(os.Args[1:], os.LookupEnv)
			if err != nil {
				return err
			}
			for _, name := range unknownVariables(os.Environ(), cmd.Flags(), policies.Flags(), operands.Flags()) {
				cmd.PrintErrf("warning: environment variable %s is ignored: there is no such flag\n", name)
			}
			return runProcess(cmd.Context(), invocation, os.Environ())
		},
	}
	s.addFlags(root.Flags())
	root.AddCommand(unpack.Command(), policies, operands)
	return root
}

// runProcess returns when the context ends, or with the manager's error.
func runProcess(ctx context.Context, i *invocation, environ []string) error {
	p := &process{invocation: i, started: make(chan struct{}), proven: make(chan struct{})}
	for _, variable := range environ {
		if refused, ok := strings.CutPrefix(variable, refusedVariable+"="); ok {
			p.refused = parseRefusal(refused)
		} else {
			p.environ = append(p.environ, variable)
		}
	}
	base, _ := i.with(nil) // Its problems are reported with those of the ConfigMap.
	p.log = zap.New(zap.UseFlagOptions(&base.settings.log)).WithName("settings")
	if err := p.connect(ctx, base.settings.render.ArtifactServer.Namespace); err != nil {
		return err
	}
	if err := p.choose(ctx, base.settings.probeAddress); err != nil || ctx.Err() != nil {
		return err
	}
	for key, value := range p.running.environment {
		if err := os.Setenv(key, value); err != nil {
			return fmt.Errorf("setting %s: %w", key, err)
		}
	}
	b, err := build(ctx, p.running.settings, p.valid)
	if err == nil {
		err = p.manage(ctx, b.mgr, b.peers, b.ready)
	}
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, errNewSettings):
		return p.execute(p.refused)
	case err != nil && !p.isProven() && !isTransient(err):
		p.log.Error(err, "the manager did not start with new settings, and starts again with the last good ones")
		return p.execute(p.refused.again(p.running.hash(), err, time.Now()))
	}
	return err
}
