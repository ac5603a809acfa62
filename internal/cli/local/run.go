package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/cli/author"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
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
		Args: kit.Exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := kit.UntilSignal(cmd.Context())
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
	kit.CompleteWords(command, "event", string(gate.EventCreate), string(gate.EventDelete))
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

// runOnce reads collection and resource, and runs the playbook.
func (o *runOptions) runOnce(ctx context.Context, cmd *cobra.Command, path, kind string) error {
	options, err := o.complete()
	if err != nil {
		return err
	}
	if options.Source, err = author.LoadRunSource(path); err != nil {
		return author.Refused(cmd, path, err)
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
	files, err := kit.WatchFiles(path, o.files, o.objects)
	if err != nil {
		return err
	}
	defer func() { _ = files.Close() }()
	for {
		if err := once(); err != nil && !errors.Is(err, kit.ErrFindings) && !errors.Is(err, kit.ErrPrinted) && ctx.Err() == nil {
			fmt.Fprintln(cmd.ErrOrStderr(), "error:", err)
		}
		if ctx.Err() == nil {
			fmt.Fprintln(cmd.OutOrStdout(), "\nWaiting for a change. Ctrl+C ends.")
		}
		changed, err := files.Next(ctx)
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
	return kit.ErrFindings
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

// localFlags are the flags of commands that run playbooks without a cluster: the endpoint, its credential, and objects.
type localFlags struct {
	files                            []string
	login                            localrun.Login
	passwordVariable, phraseVariable string
	secretFiles, secretVariables     []string
	namespace                        string
}

func (o *localFlags) addFlags(command *cobra.Command, files string) {
	flags := command.Flags()
	flags.StringArrayVarP(&o.files, "filename", "f", nil, files)
	flags.StringVar(&o.login.Host, "host", "", "USER@HOST or USER@HOST:PORT of the system; takes precedence over the ZosEndpoint")
	flags.BoolVar(&o.login.Local, "local", false, "run on this machine instead of a z/OS system")
	flags.StringVar(&o.login.KeyFile, "key", "", "private key (default: the Secret of the ZosEndpoint, or the first of ssh's usual keys)")
	flags.StringVar(&o.phraseVariable, "passphrase-env", "", "environment variable with the passphrase of the key")
	flags.StringVar(&o.passwordVariable, "password-env", "", "environment variable with the password to log on with")
	flags.StringVar(&o.login.KnownHosts, "known-hosts", "", "file with the host's key (default: that of ssh)")
	flags.StringArrayVar(&o.secretFiles, "secret-file", nil, "NAME/KEY=FILE: a key of a Secret that a variable names; may be repeated")
	flags.StringArrayVar(&o.secretVariables, "secret-env", nil, "NAME/KEY=VARIABLE: the same from an environment variable; may be repeated")
	flags.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the resource")
	command.MarkFlagsMutuallyExclusive("host", "local")
}

// complete checks the flags, and reads the files and variables that they name.
func (o *localFlags) complete() (localrun.Options, error) {
	options := localrun.Options{Login: o.login, Namespace: o.namespace}
	var errs []error
	if len(validation.IsDNS1123Label(o.namespace)) > 0 {
		errs = append(errs, fmt.Errorf("--namespace %q is not the name of a namespace", o.namespace))
	}
	for _, v := range []struct {
		flag, name string
		into       *[]byte
	}{{"password-env", o.passwordVariable, &options.Login.Password}, {"passphrase-env", o.phraseVariable, &options.Login.Passphrase}} {
		if v.name == "" {
			continue
		}
		if *v.into = []byte(os.Getenv(v.name)); len(*v.into) == 0 {
			errs = append(errs, fmt.Errorf("--%s: the environment variable %s is not set", v.flag, v.name))
		}
	}
	secrets, err := o.secrets()
	errs = append(errs, err)
	options.Secrets = secrets
	options.Objects, err = localrun.ReadObjects(o.files)
	errs = append(errs, err)
	options.Gate, err = os.Executable()
	return options, errors.Join(append(errs, err)...)
}

func (o *localFlags) secrets() ([]localrun.SecretValue, error) {
	var values []localrun.SecretValue
	var errs []error
	add := func(flag, text string, read func(string) ([]byte, error)) {
		key, from, ok := strings.Cut(text, "=")
		name, key, hasKey := strings.Cut(key, "/")
		if !ok || !hasKey || name == "" || key == "" || from == "" {
			errs = append(errs, fmt.Errorf("--%s %q is not of the form NAME/KEY=SOURCE", flag, text))
			return
		}
		value, err := read(from)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
		values = append(values, localrun.SecretValue{Secret: name, Key: key, Value: value})
	}
	for _, text := range o.secretFiles {
		add("secret-file", text, os.ReadFile)
	}
	for _, text := range o.secretVariables {
		add("secret-env", text, func(name string) ([]byte, error) {
			value, ok := os.LookupEnv(name)
			if !ok {
				return nil, fmt.Errorf("the environment variable %s is not set", name)
			}
			return []byte(value), nil
		})
	}
	return values, errors.Join(errs...)
}
