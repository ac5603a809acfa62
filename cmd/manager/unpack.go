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
			for key, setting := range map[string]*string{
				render.KeyDigest: (*string)(&options.Digest), render.KeyArtifactURL: &options.URL,
				render.KeyGalaxyNamespace: &options.Namespace, render.KeyGalaxyName: &options.Name,
			} {
				var err error
				if *setting, err = readSetting(filepath.Join(runtimeDir, key)); err != nil {
					return fmt.Errorf("reading the runtime settings: %w", err)
				}
			}
			return artifact.Install(cmd.Context(), options)
		},
	}
	cmd.Flags().StringVar(&runtimeDir, "runtime-dir", "/etc/zoscb/runtime", "directory with the runtime ConfigMap")
	cmd.Flags().StringVar(&contentDir, "content-dir", "/opt/ansible/content", "directory to unpack to; its content is deleted first")
	cmd.Flags().StringVar(&collectionsDir, "collections-dir", "/opt/ansible/collections", "directory in which the content appears as a collection")
	return cmd
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
