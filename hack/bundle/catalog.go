package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
)

// catalogOf returns a catalog with the bundle in one channel, for new installations and as an upgrade from every older
// version. Without an image of the bundle, the catalog contains its objects, which OLM supports, but not OLM v1. The catalog
// is validated.
func catalogOf(bundle *manifests.Bundle, image string) ([]byte, error) {
	csv := bundle.CSV
	icon, err := base64.StdEncoding.DecodeString(csv.Spec.Icon[0].Data)
	if err != nil {
		return nil, fmt.Errorf("icon: %w", err)
	}
	version := csv.Spec.Version.String()
	entry := declcfg.Bundle{
		Schema: declcfg.SchemaBundle, Package: bundle.Package, Name: csv.Name, Image: image,
		Properties: []property.Property{property.MustBuildPackage(bundle.Package, version)},
	}
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(owned.Name, ".")
		entry.Properties = append(entry.Properties, property.MustBuildGVK(group, owned.Version, owned.Kind))
	}
	for _, related := range csv.Spec.RelatedImages {
		entry.RelatedImages = append(entry.RelatedImages, declcfg.RelatedImage{Name: related.Name, Image: related.Image})
	}
	if image != "" {
		entry.Properties = append(entry.Properties, property.MustBuildCSVMetadata(*csv))
		entry.RelatedImages = append(entry.RelatedImages, declcfg.RelatedImage{Image: image})
	} else {
		for _, object := range bundle.Objects {
			data, err := object.MarshalJSON()
			if err != nil {
				return nil, err
			}
			entry.Properties = append(entry.Properties, property.MustBuildBundleObject(data))
		}
	}
	catalog := declcfg.DeclarativeConfig{
		Packages: []declcfg.Package{{
			Schema: declcfg.SchemaPackage, Name: bundle.Package, DefaultChannel: bundle.DefaultChannel,
			Icon:        &declcfg.Icon{Data: icon, MediaType: csv.Spec.Icon[0].MediaType},
			Description: csv.Annotations["description"],
		}},
		Channels: []declcfg.Channel{{
			Schema: declcfg.SchemaChannel, Name: bundle.DefaultChannel, Package: bundle.Package,
			Entries: []declcfg.ChannelEntry{{Name: csv.Name, SkipRange: "<" + version}},
		}},
		Bundles: []declcfg.Bundle{entry},
	}
	var text bytes.Buffer
	if err := declcfg.WriteYAML(catalog, &text); err != nil {
		return nil, err
	}
	written, err := declcfg.LoadReader(bytes.NewReader(text.Bytes()))
	if err != nil {
		return nil, err
	}
	_, err = declcfg.ConvertToModel(*written)
	return text.Bytes(), err
}
