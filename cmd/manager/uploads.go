package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// addUploadFolder watches the folder into which clients copy archives. A manager that does not lead gives them to the one that does.
func addUploadFolder(mgr manager.Manager, s options, source *intake.Source) error {
	folder, err := store.NewUploadFolder(source.UploadDir, s.fetchMaxBytes)
	if err != nil {
		return err
	}
	log := mgr.GetLogger().WithName("uploads")
	folder.Warn = func(err error) { log.Error(err, "uploads are found later") }
	var handOver *intake.HandOver
	if source.Peers != nil {
		token := intake.PeerToken(source.Collections.Key)
		give := func(ctx context.Context, upload store.Upload) error {
			return source.Peers.SendUpload(ctx, upload, token)
		}
		handOver = intake.NewHandOver(folder, give, source.Peers.Leader, mgr.Elected())
		if err := mgr.Add(handOver); err != nil {
			return err
		}
	}
	folder.Changed = func(ctx context.Context, name, version string) {
		source.FolderChanged(ctx, name, version)
		handOver.Wake()
	}
	source.Folder, source.HandOver = folder, handOver
	return mgr.Add(folder)
}
