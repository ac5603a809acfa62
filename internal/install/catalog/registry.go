package catalog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"slices"

	godigest "github.com/opencontainers/go-digest"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"
	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Catalog is what a [Server] serves: the registry API of some packages. It does not change. Methods that OLM does not call are
// Unimplemented.
type Catalog struct {
	api.UnimplementedRegistryServer
	digest string
	// names of the packages, in the order in which they are listed.
	names    []string
	packages map[string]*servedPackage
}

// servedPackage is a package as OLM reads it.
type servedPackage struct {
	// of are the versions that it was made of.
	of      []*Version
	digest  godigest.Digest
	listed  *api.Package
	bundles []*api.Bundle
}

// Builder makes catalogs. It keeps what the last one has: a package whose versions are the same is not made again. It is not safe for
// concurrent use.
type Builder struct {
	last map[string]*servedPackage
}

// Build returns a catalog of the versions, by the rules of [Build].
func (b *Builder) Build(versions []*Version) (*Catalog, []*RefusalError) {
	return b.build(versions, MaxServedBytes)
}

func (b *Builder) build(versions []*Version, maxServed int) (*Catalog, []*RefusalError) {
	s := newSelection(maxServed)
	for i, v := range versions {
		if err := s.add(i, v); err != nil {
			s.refuse(i, err)
		}
	}
	c := &Catalog{packages: map[string]*servedPackage{}}
	refusals := s.each(func(p *pack) (err error) {
		served := b.last[p.name]
		if served == nil || !slices.Equal(served.of, p.versions) {
			if served, err = newServedPackage(p); err != nil {
				return err
			}
		}
		c.packages[p.name] = served
		return nil
	})
	c.names = slices.Sorted(maps.Keys(c.packages))
	sum := sha256.New()
	for _, name := range c.names {
		fmt.Fprintln(sum, c.packages[name].digest)
	}
	c.digest = godigest.NewDigest(godigest.SHA256, sum).String()
	b.last = c.packages
	return c, refusals
}

func newServedPackage(p *pack) (*servedPackage, error) {
	content, made, err := p.content()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	if err := declcfg.WriteJSON(*content, sum); err != nil {
		return nil, err
	}
	for _, bundle := range content.Bundles {
		_, _ = io.WriteString(sum, bundle.CsvJSON) // A hash returns no error.
	}
	served := &servedPackage{of: p.versions, digest: godigest.NewDigest(godigest.SHA256, sum)}
	return served, served.add(made)
}

func (s *servedPackage) add(p *model.Package) error {
	s.listed = &api.Package{Name: p.Name, DefaultChannelName: p.DefaultChannel.Name}
	for _, name := range slices.Sorted(maps.Keys(p.Channels)) {
		channel := p.Channels[name]
		head, err := channel.Head()
		if err != nil {
			return fmt.Errorf("channel %s: %w", name, err)
		}
		s.listed.Channels = append(s.listed.Channels, &api.Channel{Name: name, CsvName: head.Name})
		for _, csv := range slices.Sorted(maps.Keys(channel.Bundles)) {
			bundle, err := api.ConvertModelBundleToAPIBundle(*channel.Bundles[csv])
			if err != nil {
				return fmt.Errorf("bundle %s: %w", csv, err)
			}
			// OLM reads the ClusterServiceVersion from csvJson, and only objects of other kinds from here.
			bundle.Object = nil
			s.bundles = append(s.bundles, bundle)
		}
	}
	return nil
}

// Digest of the content, "sha256:<hex>".
func (c *Catalog) Digest() string { return c.digest }

// Packages returns the number of packages.
func (c *Catalog) Packages() int { return len(c.names) }

// Size returns the number of bundles, and the size of their ClusterServiceVersions in bytes.
func (c *Catalog) Size() (bundles, bytes int) {
	for _, served := range c.packages {
		bundles += len(served.bundles)
		for _, bundle := range served.bundles {
			bytes += len(bundle.CsvJson)
		}
	}
	return bundles, bytes
}

// ListPackages implements api.RegistryServer.
func (c *Catalog) ListPackages(_ *api.ListPackageRequest, stream api.Registry_ListPackagesServer) error {
	for _, name := range c.names {
		if err := stream.Send(&api.PackageName{Name: name}); err != nil {
			return err
		}
	}
	return nil
}

// ListBundles implements api.RegistryServer. A bundle is sent once for each channel that contains it.
func (c *Catalog) ListBundles(_ *api.ListBundlesRequest, stream api.Registry_ListBundlesServer) error {
	for _, name := range c.names {
		for _, bundle := range c.packages[name].bundles {
			if err := stream.Send(bundle); err != nil {
				return err
			}
		}
	}
	return nil
}

// GetPackage implements api.RegistryServer.
func (c *Catalog) GetPackage(_ context.Context, request *api.GetPackageRequest) (*api.Package, error) {
	p, err := c.find(request.GetName())
	if err != nil {
		return nil, err
	}
	return p.listed, nil
}

func (c *Catalog) find(name string) (*servedPackage, error) {
	if p := c.packages[name]; p != nil {
		return p, nil
	}
	return nil, status.Errorf(codes.NotFound, "package %q is not in the catalog", name)
}

// GetBundle implements api.RegistryServer.
func (c *Catalog) GetBundle(_ context.Context, request *api.GetBundleRequest) (*api.Bundle, error) {
	p, err := c.find(request.GetPkgName())
	if err != nil {
		return nil, err
	}
	for _, b := range p.bundles {
		if b.GetChannelName() == request.GetChannelName() && b.GetCsvName() == request.GetCsvName() {
			return b, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "package %q has no bundle %q in a channel %q", request.GetPkgName(), request.GetCsvName(), request.GetChannelName())
}

// GetBundleForChannel implements api.RegistryServer. It returns the newest bundle of the channel.
func (c *Catalog) GetBundleForChannel(ctx context.Context, request *api.GetBundleInChannelRequest) (*api.Bundle, error) {
	p, err := c.find(request.GetPkgName())
	if err != nil {
		return nil, err
	}
	for _, channel := range p.listed.GetChannels() {
		if channel.GetName() == request.GetChannelName() {
			return c.GetBundle(ctx, &api.GetBundleRequest{PkgName: request.GetPkgName(), ChannelName: channel.GetName(), CsvName: channel.GetCsvName()})
		}
	}
	return nil, status.Errorf(codes.NotFound, "package %q has no channel %q", request.GetPkgName(), request.GetChannelName())
}
