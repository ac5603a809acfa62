package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/internal/author/localrun"
)

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

// untilSignal returns a context that ends when this program is told to end. A closed output, as of head, makes writes fail instead of ending
// this program, which has to remove the credential.
func untilSignal(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	closed := make(chan os.Signal, 1)
	signal.Notify(closed, syscall.SIGPIPE)
	return ctx, func() {
		signal.Stop(closed)
		stop()
	}
}
