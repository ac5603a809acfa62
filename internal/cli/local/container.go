package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/collection-operator/collection-operator/internal/author/container"
	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// containerFlags are the flags of commands that can run themselves again in a container.
type containerFlags struct {
	on          bool
	image, tool string
}

func (o *containerFlags) addFlags(command *cobra.Command) {
	flags := command.Flags()
	flags.BoolVar(&o.on, "container", false, "run in a container of the runtime image, with podman or docker, instead of with Ansible of this machine")
	flags.StringVar(&o.image, "image", render.DefaultSettings().RuntimeImage, "runtime image for --container")
	flags.StringVar(&o.tool, "container-tool", "", "this tool for Linux and the architecture of the image, for --container (default: this program)")
}

func (o *containerFlags) check(cmd *cobra.Command) error {
	for _, name := range []string{"image", "container-tool"} {
		if !o.on && cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is for --container", name)
		}
	}
	return nil
}

// run runs this command again in a container. All its output was printed by then.
func (o *containerFlags) run(ctx context.Context, cmd *cobra.Command, args []string) error {
	engine, err := container.FindEngine()
	if err != nil {
		return err
	}
	platform, err := engine.Platform(ctx, o.image)
	if err != nil {
		return err
	}
	program, err := o.program(platform)
	if err != nil {
		return err
	}
	folder, err := os.Getwd()
	if err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	call := newContainerCall(folder, home, cmd, args)
	if err := call.createOutputs(); err != nil {
		return err
	}
	defer call.removeEmpty()
	code, err := engine.Run(ctx, container.Command{
		Image: o.image, Program: program, Arguments: call.arguments, Folder: folder,
		User:   container.User{UID: os.Getuid(), GID: os.Getgid(), Home: home},
		Mounts: call.mounts, Variables: call.environment(),
	}, cmd.OutOrStdout(), cmd.ErrOrStderr())
	switch {
	case err != nil:
		return err
	case code == kit.ExitClean:
		return nil
	case code == kit.ExitFindings:
		return kit.ErrFindings
	}
	return kit.ErrPrinted
}

// program returns the path of this tool for the platform of an image.
func (o *containerFlags) program(platform string) (string, error) {
	if o.tool != "" {
		return filepath.Abs(o.tool)
	}
	if own := runtime.GOOS + "/" + runtime.GOARCH; own != platform {
		return "", fmt.Errorf("the image %s is for %s and this program for %s: name a build of %s for %s with --container-tool", o.image, platform, own, kit.ToolName, platform)
	}
	return os.Executable()
}

// flagUse is what the value of a flag means for a container.
type flagUse int

const (
	useValue          flagUse = iota // is only passed on
	useOutside                       // is not for the command in the container
	useFile                          // names a file that is read
	useSecretFile                    // NAME/KEY=FILE
	useVariable                      // names a variable of the environment
	useSecretVariable                // NAME/KEY=VARIABLE
	useNewFile                       // names a file that is written
	useNewFolder                     // names a folder into which files are written
)

// flagUses has all flags of the commands that can run in a container.
var flagUses = map[string]flagUse{
	"filename": useFile, "key": useFile, "known-hosts": useFile, "secret-file": useSecretFile,
	"passphrase-env": useVariable, "password-env": useVariable, "secret-env": useSecretVariable,
	"junit": useNewFile, "objects": useNewFolder,
	"container": useOutside, "image": useOutside, "container-tool": useOutside, "watch": useOutside,
	"host": useValue, "local": useValue, "namespace": useValue, "event": useValue, "check": useValue, "scenario": useValue, "verbose": useValue, "help": useValue,
}

// containerCall is what a command needs to run again in a container. The files are at the same paths there.
type containerCall struct {
	folder               string
	arguments            []string
	mounts               []container.Mount
	variables            []string
	newFiles, newFolders []string
	created              []string
}

// newContainerCall is that of a command whose first argument names a collection. folder is the working folder; both folders are absolute.
func newContainerCall(folder, home string, cmd *cobra.Command, args []string) *containerCall {
	c := &containerCall{folder: folder, variables: slices.Clone(localrun.DownloadVariables)}
	c.arguments = []string{cmd.Name()}
	flags := cmd.Flags()
	flags.Visit(c.addFlag)
	c.arguments = append(append(c.arguments, "--", c.mount(args[0], false)), args[1:]...)
	if certificates := os.Getenv("SSL_CERT_FILE"); certificates != "" {
		c.mount(certificates, false)
	}
	if flags.Changed("local") {
		return c
	}
	if !flags.Changed("known-hosts") {
		c.mountIfThere(filepath.Join(home, ".ssh", "known_hosts"))
	}
	if key := localrun.UsualKey(home); key != "" && !flags.Changed("key") && !flags.Changed("password-env") {
		c.mountIfThere(key)
	}
	return c
}

// addFlag adds the values of a flag that is set.
func (c *containerCall) addFlag(flag *pflag.Flag) {
	values := []string{flag.Value.String()}
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		values = list.GetSlice()
	}
	for _, value := range values {
		key, source, _ := strings.Cut(value, "=")
		switch flagUses[flag.Name] {
		case useOutside:
			continue
		case useFile:
			value = c.mount(value, false)
		case useSecretFile:
			value = key + "=" + c.mount(source, false)
		case useVariable:
			c.variables = append(c.variables, value)
		case useSecretVariable:
			c.variables = append(c.variables, source)
		case useNewFile:
			value = c.mount(value, true)
			c.newFiles = append(c.newFiles, c.absolute(value))
		case useNewFolder:
			value = c.mount(value, true)
			c.newFolders = append(c.newFolders, c.absolute(value))
		case useValue:
		}
		c.arguments = append(c.arguments, "--"+flag.Name+"="+value)
	}
}

func (c *containerCall) absolute(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(c.folder, path)
}

// mount makes a path visible and returns it. A path below the working folder stays as it is, so that messages have it as it was given.
func (c *containerCall) mount(path string, writable bool) string {
	full := c.absolute(path)
	c.mounts = append(c.mounts, container.Mount{Path: full, Writable: writable})
	if filepath.IsLocal(path) {
		return path
	}
	return full
}

func (c *containerCall) mountIfThere(path string) {
	if _, err := os.Stat(path); err == nil {
		c.mount(path, false)
	}
}

// environment returns the variables that are set.
func (c *containerCall) environment() map[string][]byte {
	values := map[string][]byte{}
	for _, name := range c.variables {
		if value, ok := os.LookupEnv(name); ok {
			values[name] = []byte(value)
		}
	}
	return values
}

// createOutputs creates files and folders that the command writes: only what exists can be mounted.
func (c *containerCall) createOutputs() error {
	var errs []error
	for _, path := range append(slices.Clone(c.newFiles), c.newFolders...) {
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if slices.Contains(c.newFolders, path) {
			errs = append(errs, os.MkdirAll(path, 0o755)) //nolint:gosec // As without a container.
		} else {
			errs = append(errs, os.WriteFile(path, nil, 0o666)) //nolint:gosec // As os.Create does.
		}
		c.created = append(c.created, path)
	}
	return errors.Join(errs...)
}

// removeEmpty removes what createOutputs has created and nobody has written to.
func (c *containerCall) removeEmpty() {
	for _, path := range c.created {
		if info, err := os.Stat(path); err == nil && (info.IsDir() || info.Size() == 0) {
			_ = os.Remove(path) // It fails if a folder has files.
		}
	}
}
