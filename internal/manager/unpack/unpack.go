// Package unpack downloads the archive of a collection in the init container of an operator, and unpacks it.
package unpack

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// maxSettingBytes is the maximum size of each file of the runtime ConfigMap, and maxBundleBytes of the one with certificate
// authorities.
const (
	maxSettingBytes = 4 << 10
	maxBundleBytes  = 64 << 10
)

// terminationLog is where the kubelet reads the last message of a container.
const terminationLog = "/dev/termination-log"

// dependenciesProgram is a part of the engine.
const dependenciesProgram = "/opt/ansible/engine/dependencies"

// mountInterval is how often a waiting init container looks for a new revision of the runtime ConfigMap.
const mountInterval = time.Second

// Command is the subcommand unpack.
func Command() *cobra.Command {
	var runtimeDir, version string
	options := store.InstallOptions{}
	cmd := &cobra.Command{
		Use:   "unpack",
		Short: "Downloads a collection archive by its digest and unpacks it for ansible-operator",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options.MaxBytes = fetch.DefaultMaxBytes
			options.Dir = os.TempDir()
			options.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			for {
				revision := mounted(runtimeDir)
				ctx, stop := whileMounted(cmd.Context(), runtimeDir, revision)
				err := unpack(ctx, revision, version, options)
				stop()
				if err == nil {
					return checkDependencies()
				}
				if mounted(runtimeDir) == revision || cmd.Context().Err() != nil {
					return reportUntrusted(err)
				}
				options.Log.Info("the settings have changed: starting again", "after", err)
			}
		},
	}
	cmd.Flags().StringVar(&runtimeDir, "runtime-dir", "/etc/zoscb/runtime", "directory with the runtime ConfigMap")
	cmd.Flags().StringVar(&version, "collection-version", os.Getenv(render.CollectionVersionVariable), "wait for the settings of this version of the collection; empty means any; default: environment variable "+render.CollectionVersionVariable)
	cmd.Flags().StringVar(&options.ContentDir, "content-dir", "/opt/ansible/content", "directory to unpack to; its content is deleted first")
	cmd.Flags().StringVar(&options.CollectionsDir, "collections-dir", "/opt/ansible/collections", "directory in which the content appears as a collection")
	return cmd
}

// unpack installs the archive that one revision of the runtime ConfigMap names, if it is of the version, or waits for another revision.
func unpack(ctx context.Context, revision, version string, options store.InstallOptions) error {
	for key, setting := range map[string]*string{
		render.KeyDigest: (*string)(&options.Digest), render.KeyArtifactURL: &options.URL,
		render.KeyGalaxyNamespace: &options.Namespace, render.KeyGalaxyName: &options.Name,
	} {
		var err error
		if *setting, err = readSetting(filepath.Join(revision, key), maxSettingBytes); err != nil {
			return fmt.Errorf("reading the runtime settings: %w", err)
		}
	}
	if err := useTLS(revision, &options); err != nil {
		return fmt.Errorf("reading the runtime settings: %w", err)
	}
	runs, err := os.ReadFile(filepath.Join(revision, gate.SettingsFile))
	if err != nil {
		return fmt.Errorf("reading the runtime settings: %w", err)
	}
	if err := checkVersion(runs, version); err != nil {
		options.Log.Info("waiting for the settings of this version", "error", err)
		<-ctx.Done()
		return err
	}
	if err := store.Install(ctx, options); err != nil {
		return err
	}
	return copyRuns(options.CollectionsDir, runs)
}

// checkVersion returns an error if the gate's settings are of another version than the pod: the Operator Lifecycle Manager replaces
// the pods, and the manager the settings, at about the same time. Permissions and image are those of the pod's version.
func checkVersion(runs []byte, version string) error {
	if version == "" {
		return nil
	}
	var settings gate.Settings
	if err := json.Unmarshal(runs, &settings); err != nil {
		return fmt.Errorf("reading %s: %w", gate.SettingsFile, err)
	}
	// A ClusterServiceVersion is named by what is compared: see model.Collection.VersionLabel.
	if is, _, _ := strings.Cut(settings.Version, "+"); strings.ToLower(is) != version {
		return fmt.Errorf("the ConfigMap has the settings of version %s, and this pod is of version %s", settings.Version, version)
	}
	return nil
}

// useTLS makes the download use the https URL, if the revision has one, and trust only the authorities of that revision.
func useTLS(revision string, options *store.InstallOptions) error {
	url, err := readSetting(filepath.Join(revision, render.KeyArtifactTLSURL), maxSettingBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // The manager serves http.
	}
	if err != nil {
		return err
	}
	bundle, err := readSetting(filepath.Join(revision, render.KeyArtifactAuthorities), maxBundleBytes)
	if err != nil {
		return err
	}
	options.URL, options.Authorities = url, x509.NewCertPool()
	if !options.Authorities.AppendCertsFromPEM([]byte(bundle)) {
		return fmt.Errorf("%s has no certificate in PEM", render.KeyArtifactAuthorities)
	}
	return nil
}

// checkDependencies becomes the engine's program that installs dependencies, if the pod has no container for it.
func checkDependencies() error {
	if os.Getenv(render.CheckDependenciesVariable) != "true" {
		return nil
	}
	err := syscall.Exec(dependenciesProgram, []string{dependenciesProgram, "install"}, os.Environ())
	return fmt.Errorf("starting %s: %w", dependenciesProgram, err) // It returns only if it failed.
}

// reportUntrusted makes the error part of the pod's status if the manager's certificate is not trusted.
func reportUntrusted(err error) error {
	var untrusted *store.UntrustedError
	if errors.As(err, &untrusted) {
		_ = os.WriteFile(terminationLog, []byte(render.ArchiveUntrusted+err.Error()), 0o644)
	}
	return err
}

// mounted returns the directory with the present revision of a mounted ConfigMap: symbolic links of the mount lead to it.
func mounted(dir string) string {
	if revision, err := filepath.EvalSymlinks(filepath.Join(dir, "..data")); err == nil {
		return revision
	}
	return dir
}

// whileMounted returns a context that ends when the kubelet mounts another revision: a pod may start with an older one, whose
// archive the manager does not have any more.
func whileMounted(parent context.Context, dir, revision string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		defer cancel()
		_ = wait.PollUntilContextCancel(ctx, mountInterval, false, func(context.Context) (bool, error) {
			return mounted(dir) != revision, nil
		})
	}()
	return ctx, cancel
}

// copyRuns keeps the gate's settings with the archive that they describe: the kubelet updates the mounted ones before the
// pod is replaced, and runs of the old archive would be recorded as runs of the new one.
func copyRuns(dir string, runs []byte) error {
	temporary := filepath.Join(dir, "."+gate.SettingsFile)
	if err := os.WriteFile(temporary, runs, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, gate.SettingsFile))
}

func readSetting(path string, maxBytes int64) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > maxBytes {
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxBytes)
	}
	content, err := os.ReadFile(path)
	return strings.TrimSpace(string(content)), err
}
