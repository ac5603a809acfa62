package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// runOptions are the flags of run.
type runOptions struct {
	localFlags
	container      containerFlags
	event, objects string
	check, watch   bool
}

func runCommand() *cobra.Command {
	o := runOptions{}
	command := &cobra.Command{
		Use:   "run PATH KIND --filename RESOURCE.yaml --host USER@HOST",
		Short: "Run the playbook of a resource without a cluster",
		Long: `Runs the playbook of a custom resource on this machine, against a z/OS system, as an operator does in a cluster: with the same
entry playbook, plugins and gate, the same variables, and the dependencies of the collection. The resource is checked against the
CustomResourceDefinition that a cluster would get, and its defaults are set.

The gate and the playbook talk to a small server of the Kubernetes API in this process. What the playbook writes there is shown, and written
to the folder of --objects. It has no RBAC: roles that are missing in operator-config.yml are not noticed.

It needs ansible-core, ansible-runner and OpenSSH on this machine, or with --container only podman or docker, and the runtime image. Host keys
are always checked.`,
		Example: `  # On this machine, and again after each change of a file
  kubectl collection run zos_users ZosUser -f user.yaml --local --watch

  # Create what the resource describes, and remove it again
  kubectl collection run zos_users ZosUser -f user.yaml --host ibmuser@lpar1.example.com
  kubectl collection run zos_users ZosUser -f user.yaml --host ibmuser@lpar1.example.com --event delete

  # With a ZosEndpoint and its Secret, as in a cluster
  kubectl collection run zos_users ZosUser -f user.yaml -f endpoint.yaml -f secret.yaml

  # Without Ansible on this machine
  kubectl collection run zos_users ZosUser -f user.yaml --host ibmuser@lpar1.example.com --container`,
		Args: exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			if err := o.container.check(cmd); err != nil {
				return err
			}
			once := func() error { return o.runOnce(ctx, cmd, args[0], args[1]) }
			if o.container.on {
				once = func() error { return o.runInContainer(ctx, cmd, args) }
			}
			if o.watch {
				return o.runOnChanges(ctx, cmd, args[0], once)
			}
			return once()
		},
	}
	o.addFlags(command)
	return command
}

func (o *runOptions) addFlags(command *cobra.Command) {
	o.localFlags.addFlags(command, "file with the resource; may be repeated, and have the ZosEndpoint, Secrets, and other objects that the playbook reads (required)")
	o.container.addFlags(command)
	flags := command.Flags()
	flags.StringVar(&o.event, "event", string(gate.EventCreate), "create or delete")
	flags.BoolVar(&o.check, "check", false, "run the playbook in Ansible's check mode, and show whether it would change something")
	flags.BoolVar(&o.watch, "watch", false, "run again each time a file of the collection or of --filename has changed, until Ctrl+C")
	flags.StringVar(&o.objects, "objects", "", "folder for the objects that the playbook creates in Kubernetes")
	completeWords(command, "event", string(gate.EventCreate), string(gate.EventDelete))
}

// complete checks all flags, and reads the files and variables that they name.
func (o *runOptions) complete() (localrun.Options, error) {
	var errs []error
	if len(o.files) == 0 {
		errs = append(errs, errors.New("give the resource with --filename RESOURCE.yaml"))
	}
	event := gate.Event(o.event)
	if event != gate.EventCreate && event != gate.EventDelete {
		errs = append(errs, fmt.Errorf("--event %q is neither create nor delete", o.event))
	}
	if event == gate.EventDelete && o.check {
		errs = append(errs, errors.New("--check is for --event create: operators check no deletion"))
	}
	options, err := o.localFlags.complete()
	options.Event, options.Check = event, o.check
	return options, errors.Join(append(errs, err)...)
}

// loadRunSource reads a collection with the content of its archive.
func loadRunSource(path string) (localrun.Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return localrun.Source{}, err
	}
	var content []byte
	if info.IsDir() {
		content, err = buildFolder(path)
	} else {
		content, err = os.ReadFile(path)
	}
	if err != nil {
		return localrun.Source{}, err
	}
	s, err := readSource(bytes.NewReader(content))
	if err != nil {
		return localrun.Source{}, err
	}
	return localrun.Source{Collection: s.collection, Archive: content, Digest: digest.FromBytes(content)}, nil
}

// runOnce reads collection and resource, and runs the playbook.
func (o *runOptions) runOnce(ctx context.Context, cmd *cobra.Command, path, kind string) error {
	options, err := o.complete()
	if err != nil {
		return err
	}
	if options.Source, err = loadRunSource(path); err != nil {
		return refused(cmd, path, err)
	}
	options.Kind, options.Output = kind, cmd.OutOrStdout()
	result, err := localrun.Run(ctx, options)
	if err != nil {
		return err
	}
	err = errors.Join(result.Print(cmd.OutOrStdout()), o.writeObjects(cmd.OutOrStdout(), result))
	if result.CleanUp != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "warning:", result.CleanUp)
	}
	if err != nil {
		return err
	}
	return verdict(result)
}

// runInContainer checks the flags, and does what runOnce does in a container.
func (o *runOptions) runInContainer(ctx context.Context, cmd *cobra.Command, args []string) error {
	if _, err := o.complete(); err != nil {
		return err
	}
	return o.container.run(ctx, cmd, args)
}

// runOnChanges runs the playbook now, and each time after a file of the collection or of the objects has changed.
func (o *runOptions) runOnChanges(ctx context.Context, cmd *cobra.Command, path string, once func() error) error {
	if _, err := o.complete(); err != nil {
		return err
	}
	files, err := watchFiles(path, o.files, o.objects)
	if err != nil {
		return err
	}
	defer func() { _ = files.close() }()
	for {
		if err := once(); err != nil && !errors.Is(err, errFindings) && !errors.Is(err, errPrinted) && ctx.Err() == nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "error:", err)
		}
		if ctx.Err() == nil {
			fmt.Fprintln(cmd.OutOrStdout(), "\nWaiting for a change. Ctrl+C ends.")
		}
		changed, err := files.next(ctx)
		if err != nil || changed == "" {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "Changed: %s\n", printable.Escape(changed))
	}
}

// verdict is the end of a run as the error of the command.
func verdict(result localrun.Result) error {
	switch {
	case !result.Ran:
		return errors.New("the playbook was not run: the output says why")
	case result.Succeeded():
		return nil
	}
	return errFindings
}

func (o *runOptions) writeObjects(w io.Writer, result localrun.Result) error {
	if o.objects == "" {
		return nil
	}
	names, err := result.WriteObjects(o.objects)
	if err != nil {
		return err
	}
	for _, name := range names {
		fmt.Fprintf(w, "Written: %s\n", printable.Escape(filepath.Join(o.objects, name)))
	}
	return nil
}
