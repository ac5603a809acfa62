package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/collection-operator/collection-operator/internal/artifact"
	"github.com/collection-operator/collection-operator/internal/fetch"
	"github.com/collection-operator/collection-operator/internal/gate"
	"github.com/collection-operator/collection-operator/internal/render"
)

// maxSettingBytes is the maximum size of each file of the runtime ConfigMap.
const maxSettingBytes = 4 << 10

func unpackCommand() *cobra.Command {
	var runtimeDir, contentDir, collectionsDir string
	cmd := &cobra.Command{
		Use:   "unpack",
		Short: "Downloads a collection archive by its digest and unpacks it for ansible-operator",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options := artifact.InstallOptions{ContentDir: contentDir, CollectionsDir: collectionsDir}
			options.MaxBytes = fetch.DefaultMaxBytes
			options.Dir = os.TempDir()
			options.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
			// Symbolic links of the mount lead to one revision of the ConfigMap.
			if revision, err := filepath.EvalSymlinks(filepath.Join(runtimeDir, "..data")); err == nil {
				runtimeDir = revision
			}
			for key, setting := range map[string]*string{
				render.KeyDigest: (*string)(&options.Digest), render.KeyArtifactURL: &options.URL,
				render.KeyGalaxyNamespace: &options.Namespace, render.KeyGalaxyName: &options.Name,
			} {
				var err error
				if *setting, err = readSetting(filepath.Join(runtimeDir, key)); err != nil {
					return fmt.Errorf("reading the runtime settings: %w", err)
				}
			}
			runs, err := os.ReadFile(filepath.Join(runtimeDir, gate.SettingsFile))
			if err != nil {
				return fmt.Errorf("reading the runtime settings: %w", err)
			}
			if err := artifact.Install(cmd.Context(), options); err != nil {
				return err
			}
			return copyRuns(collectionsDir, runs)
		},
	}
	cmd.Flags().StringVar(&runtimeDir, "runtime-dir", "/etc/zoscb/runtime", "directory with the runtime ConfigMap")
	cmd.Flags().StringVar(&contentDir, "content-dir", "/opt/ansible/content", "directory to unpack to; its content is deleted first")
	cmd.Flags().StringVar(&collectionsDir, "collections-dir", "/opt/ansible/collections", "directory in which the content appears as a collection")
	return cmd
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

func readSetting(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > maxSettingBytes {
		return "", fmt.Errorf("%s is larger than %d bytes", path, maxSettingBytes)
	}
	content, err := os.ReadFile(path)
	return strings.TrimSpace(string(content)), err
}
