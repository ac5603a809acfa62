package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// addUploadFolder watches the folder into which clients copy archives. They copy into the pod of the manager that leads.
func addUploadFolder(mgr manager.Manager, s options, source *intake.Source) error {
	folder, err := store.NewUploadFolder(source.UploadDir, s.fetchMaxBytes)
	if err != nil {
		return err
	}
	log := mgr.GetLogger().WithName("uploads")
	folder.Warn = func(err error) { log.Error(err, "uploads are found later") }
	folder.Changed = func(ctx context.Context, name, version string) {
		source.FolderChanged(ctx, name, version)
		select {
		case <-mgr.Elected():
		default:
			if upload, err := folder.Latest(name, version); err == nil {
				log.Info("an archive that was copied into this pod is not imported while another manager leads: copy it into the pod with the label "+
					replica.LeaderLabel+"="+replica.LeaderLabelValue, "path", upload.Path)
			}
		}
	}
	source.Folder = folder
	return mgr.Add(folder)
}
