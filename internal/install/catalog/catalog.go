// Package catalog builds and serves a file-based catalog of collections for the Operator Lifecycle Manager (OLM).
//
// Its bundles have no images: OLM reads their ClusterServiceVersions from the catalog itself. They contain no
// CustomResourceDefinitions, which only the manager writes.
package catalog

import (
	"maps"
	"slices"

	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/model"
	"github.com/operator-framework/operator-registry/alpha/property"
)

// Build returns a file-based catalog of the bundles, and an error for each bundle that it rejects. The order of the bundles does
// not matter unless bundles conflict: then the first one is accepted. Duplicate bundles are ignored.
//
// In a channel each version replaces the next older one. All other older versions can be upgraded to it as well, since
// versions may be installed that are no longer in the catalog. Versions are ordered by semantic versioning. Build sets
// replaces and skips in copies of the ClusterServiceVersions.
func Build(bundles []Bundle) (*declcfg.DeclarativeConfig, []*RefusalError) {
	return build(bundles, MaxServedBytes)
}

func build(bundles []Bundle, maxServed int) (*declcfg.DeclarativeConfig, []*RefusalError) {
	s := newSelection(maxServed)
	for i, bundle := range bundles {
		v, err := NewVersion(bundle)
		if err == nil {
			err = s.add(i, v)
		}
		if err != nil {
			s.refuse(i, err)
		}
	}
	catalog := &declcfg.DeclarativeConfig{}
	refusals := s.each(func(p *pack) error {
		content, _, err := p.content()
		if err != nil {
			return err
		}
		for i := range content.Bundles {
			b := &content.Bundles[i]
			b.Properties = append(b.Properties, property.MustBuildBundleObject([]byte(b.CsvJSON)))
		}
		catalog.Merge(content)
		return nil
	})
	return catalog, refusals
}

// selection has the versions that are accepted.
type selection struct {
	maxServed int
	packages  map[string]*pack
	// served is the sum of the served bytes of all packages.
	served   int
	refusals []*RefusalError
}

func newSelection(maxServed int) *selection {
	return &selection{maxServed: maxServed, packages: map[string]*pack{}}
}

func (s *selection) refuse(index int, r *RefusalError) {
	s.refusals = append(s.refusals, &RefusalError{Index: index, Reason: r.Reason, err: r.err})
}

// add accepts the version with this index, or says why not.
func (s *selection) add(index int, v *Version) *RefusalError {
	p := s.packages[v.pack]
	if p == nil {
		p = &pack{name: v.pack, domain: v.domain, collection: v.collection}
	}
	if p.domain != v.domain || p.collection != v.collection {
		return refusal(PackageConflict, "package %s is that of the collection with domain %s and name %s: give this collection another domain or name",
			p.name, p.domain, p.collection)
	}
	for _, other := range p.versions {
		if other.channel() != v.channel() && other.name != v.name {
			continue
		}
		if other.content == v.content {
			return nil
		}
		return refusal(VersionConflict, "%s is in the catalog already with other content: give this one another version", v.name)
	}
	grown := p.with(index, v)
	served := s.served - p.served() + grown.served()
	if served > s.maxServed {
		return refusal(CatalogFull, "with %s the catalog would have %d bytes, and may have %d: remove versions that are not in use", v.name, served, s.maxServed)
	}
	s.served, s.packages[p.name] = served, grown
	return nil
}

// each calls a function for each package, in the order of their names, and returns all refusals in the order of the bundles. An
// error of the function refuses all versions of the package.
func (s *selection) each(do func(*pack) error) []*RefusalError {
	for _, name := range slices.Sorted(maps.Keys(s.packages)) {
		p := s.packages[name]
		if err := do(p); err != nil {
			for _, index := range p.indexes {
				s.refuse(index, refusal(Invalid, "package %s: %w", name, err))
			}
		}
	}
	slices.SortFunc(s.refusals, func(x, y *RefusalError) int { return x.Index - y.Index })
	return s.refusals
}

// pack is a package with its versions, oldest first.
type pack struct {
	name, domain, collection string
	versions                 []*Version
	// indexes of the versions, in the order in which they were added.
	indexes []int
}

// with returns the package with an additional version.
func (p *pack) with(index int, v *Version) *pack {
	grown := *p
	grown.indexes = append(slices.Clone(p.indexes), index)
	grown.versions = append(slices.Clone(p.versions), v)
	slices.SortFunc(grown.versions, func(x, y *Version) int { return x.number.Compare(y.number) })
	return &grown
}

// served returns the number of bytes that OLM reads for the package: each version once for every channel that contains it.
func (p *pack) served() int {
	sum := 0
	for i, v := range p.versions {
		channels := 1 + len(p.versions) - i
		sum += channels * len(v.content)
	}
	return sum
}

// content returns the package as a part of a catalog, and what OLM makes of it. Its bundles have no property with their
// ClusterServiceVersion.
func (p *pack) content() (*declcfg.DeclarativeConfig, *model.Package, error) {
	newest := p.versions[len(p.versions)-1]
	content := &declcfg.DeclarativeConfig{Packages: []declcfg.Package{{
		Schema: declcfg.SchemaPackage, Name: p.name, DefaultChannel: StableChannel,
		Description: newest.description, Icon: newest.icon,
	}}}
	var chain []declcfg.ChannelEntry
	for _, v := range p.versions {
		entry := declcfg.ChannelEntry{Name: v.name, SkipRange: "<" + v.number.String()}
		if len(chain) > 0 {
			entry.Replaces = chain[len(chain)-1].Name
		}
		chain = append(chain, entry)
		bundle, err := v.bundle(p.name, entry.Replaces)
		if err != nil {
			return nil, nil, err
		}
		content.Bundles = append(content.Bundles, bundle)
		content.Channels = append(content.Channels, channel(p.name, v.channel(), slices.Clone(chain)))
	}
	content.Channels = append(content.Channels, channel(p.name, StableChannel, chain))
	packages, err := declcfg.ConvertToModel(*content)
	return content, packages[p.name], err
}

func channel(pack, name string, entries []declcfg.ChannelEntry) declcfg.Channel {
	return declcfg.Channel{Schema: declcfg.SchemaChannel, Package: pack, Name: name, Entries: entries}
}
