package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"
	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// registry implements the registry API for one immutable catalog. Methods that OLM does not call are Unimplemented.
type registry struct {
	api.UnimplementedRegistryServer
	// packages and their bundles, in the order in which they are listed.
	packages []*api.Package
	bundles  []*api.Bundle
}

func newRegistry(catalog *declcfg.DeclarativeConfig) (*registry, error) {
	packages, err := declcfg.ConvertToModel(*catalog)
	if err != nil {
		return nil, fmt.Errorf("the catalog is not valid: %w", err)
	}
	r := &registry{}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if err := r.add(packages[name]); err != nil {
			return nil, fmt.Errorf("package %s: %w", name, err)
		}
	}
	return r, nil
}

func (r *registry) add(p *model.Package) error {
	listed := &api.Package{Name: p.Name, DefaultChannelName: p.DefaultChannel.Name}
	for _, name := range slices.Sorted(maps.Keys(p.Channels)) {
		channel := p.Channels[name]
		head, err := channel.Head()
		if err != nil {
			return fmt.Errorf("channel %s: %w", name, err)
		}
		listed.Channels = append(listed.Channels, &api.Channel{Name: name, CsvName: head.Name})
		for _, csv := range slices.Sorted(maps.Keys(channel.Bundles)) {
			bundle, err := api.ConvertModelBundleToAPIBundle(*channel.Bundles[csv])
			if err != nil {
				return fmt.Errorf("bundle %s: %w", csv, err)
			}
			r.bundles = append(r.bundles, bundle)
		}
	}
	r.packages = append(r.packages, listed)
	return nil
}

// ListPackages implements api.RegistryServer.
func (r *registry) ListPackages(_ *api.ListPackageRequest, stream api.Registry_ListPackagesServer) error {
	for _, p := range r.packages {
		if err := stream.Send(&api.PackageName{Name: p.GetName()}); err != nil {
			return err
		}
	}
	return nil
}

// ListBundles implements api.RegistryServer. A bundle is sent once for each channel that contains it.
func (r *registry) ListBundles(_ *api.ListBundlesRequest, stream api.Registry_ListBundlesServer) error {
	for _, bundle := range r.bundles {
		if err := stream.Send(bundle); err != nil {
			return err
		}
	}
	return nil
}

// GetPackage implements api.RegistryServer.
func (r *registry) GetPackage(_ context.Context, request *api.GetPackageRequest) (*api.Package, error) {
	for _, p := range r.packages {
		if p.GetName() == request.GetName() {
			return p, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "package %q is not in the catalog", request.GetName())
}

// GetBundle implements api.RegistryServer.
func (r *registry) GetBundle(_ context.Context, request *api.GetBundleRequest) (*api.Bundle, error) {
	for _, b := range r.bundles {
		if b.GetPackageName() == request.GetPkgName() && b.GetChannelName() == request.GetChannelName() && b.GetCsvName() == request.GetCsvName() {
			return b, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "package %q has no bundle %q in a channel %q", request.GetPkgName(), request.GetCsvName(), request.GetChannelName())
}

// GetBundleForChannel implements api.RegistryServer. It returns the newest bundle of the channel.
func (r *registry) GetBundleForChannel(ctx context.Context, request *api.GetBundleInChannelRequest) (*api.Bundle, error) {
	p, err := r.GetPackage(ctx, &api.GetPackageRequest{Name: request.GetPkgName()})
	if err != nil {
		return nil, err
	}
	for _, channel := range p.GetChannels() {
		if channel.GetName() == request.GetChannelName() {
			return r.GetBundle(ctx, &api.GetBundleRequest{PkgName: p.GetName(), ChannelName: channel.GetName(), CsvName: channel.GetCsvName()})
		}
	}
	return nil, status.Errorf(codes.NotFound, "package %q has no channel %q", request.GetPkgName(), request.GetChannelName())
}
