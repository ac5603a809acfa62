package catalog

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
)

// StableChannel is the default channel of every package. It contains all versions, and its head is the newest.
const StableChannel = "stable"

// VersionChannel returns the name of the channel that ends with a version, "v<version>". A Subscription to it is not
// upgraded to later versions. The version is in lower case and without build metadata, as in the name of a
// ClusterServiceVersion.
func VersionChannel(version string) string { return "v" + version }

// Bundle is one version of one collection.
type Bundle struct {
	// Domain and Name identify the collection.
	Domain, Name string
	// Package is the name of its package.
	Package string
	// ClusterServiceVersion installs it.
	ClusterServiceVersion *operatorsv1alpha1.ClusterServiceVersion
}

const (
	// MaxBundleBytes is the maximum size of one ClusterServiceVersion as a JSON string. OLM writes it into an InstallPlan,
	// and etcd accepts objects of up to 1.5 MiB. OLM accepts gRPC messages of up to 4 MiB.
	MaxBundleBytes = 1 << 20

	// MaxServedBytes is the maximum amount of data that OLM reads after each change of the catalog and keeps in memory.
	MaxServedBytes = 64 << 20
)

// Version is a valid bundle in the form in which it is served. It does not change.
type Version struct {
	domain, collection, pack string
	// name is that of the ClusterServiceVersion.
	name string
	// number has no build metadata, which is irrelevant for the order.
	number      semver.Version
	description string
	// icon is nil if there is none.
	icon   *declcfg.Icon
	owned  []property.Property
	images []declcfg.RelatedImage
	// content is the ClusterServiceVersion in JSON. It replaces and skips nothing.
	content string
}

// NewVersion validates a bundle. It keeps nothing of the ClusterServiceVersion but its JSON.
func NewVersion(b Bundle) (*Version, *RefusalError) {
	csv := b.ClusterServiceVersion
	if err := validate(csv); err != nil {
		return nil, refusal(Invalid, "%s: %w", csv.Name, err)
	}
	var planned []byte
	content, err := encode(csv, "")
	if err == nil {
		planned, err = json.Marshal(content)
	}
	if err != nil {
		return nil, refusal(Invalid, "%s: %w", csv.Name, err)
	}
	if len(planned) > MaxBundleBytes {
		return nil, refusal(TooLarge, "%s has %d bytes in an InstallPlan, and may have %d: use a smaller icon or shorter descriptions",
			csv.Name, len(planned), MaxBundleBytes)
	}
	icon, err := firstIcon(csv)
	if err != nil {
		return nil, refusal(Invalid, "%s: icon: %w", csv.Name, err)
	}
	v := &Version{
		domain: b.Domain, collection: b.Name, pack: b.Package, name: csv.Name, number: csv.Spec.Version.Version,
		description: csv.Spec.Description, icon: icon, content: content,
	}
	v.number.Build = nil
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(owned.Name, ".")
		v.owned = append(v.owned, property.MustBuildGVK(group, owned.Version, owned.Kind))
	}
	for _, image := range csv.Spec.RelatedImages {
		v.images = append(v.images, declcfg.RelatedImage{Name: image.Name, Image: image.Image})
	}
	return v, nil
}

// Package returns the name of its package.
func (v *Version) Package() string { return v.pack }

func firstIcon(csv *operatorsv1alpha1.ClusterServiceVersion) (*declcfg.Icon, error) {
	if len(csv.Spec.Icon) == 0 {
		return nil, nil
	}
	icon := csv.Spec.Icon[0]
	data, err := base64.StdEncoding.DecodeString(icon.Data)
	return &declcfg.Icon{Data: data, MediaType: icon.MediaType}, err
}

// validate returns all errors that prevent OLM from installing the ClusterServiceVersion.
func validate(csv *operatorsv1alpha1.ClusterServiceVersion) error {
	var messages []string
	for _, result := range validation.ClusterServiceVersionValidator.Validate(csv) {
		for _, err := range result.Errors {
			messages = append(messages, err.Error())
		}
	}
	if len(messages) == 0 {
		return nil
	}
	slices.Sort(messages)
	return errors.New(strings.Join(messages, "; "))
}

// encode returns the ClusterServiceVersion as JSON, without its status and skips. It replaces another one unless replaces is "".
func encode(csv *operatorsv1alpha1.ClusterServiceVersion, replaces string) (string, error) {
	changed := *csv
	changed.Spec.Replaces, changed.Spec.Skips = replaces, nil
	content, err := json.Marshal(&changed)
	if err != nil {
		return "", err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(content, &fields); err != nil {
		return "", err
	}
	delete(fields, "status")
	content, err = json.Marshal(fields)
	return string(content), err
}

// channel returns the name of the channel that ends with the version.
func (v *Version) channel() string { return VersionChannel(strings.ToLower(v.number.String())) }

// replacing returns the ClusterServiceVersion as JSON. It replaces another one unless replaces is "".
func (v *Version) replacing(replaces string) (string, error) {
	if replaces == "" {
		return v.content, nil
	}
	csv := &operatorsv1alpha1.ClusterServiceVersion{}
	if err := json.Unmarshal([]byte(v.content), csv); err != nil {
		return "", err
	}
	return encode(csv, replaces)
}

// bundle returns the version as a bundle of a package. It replaces another bundle unless replaces is "".
func (v *Version) bundle(pack, replaces string) (declcfg.Bundle, error) {
	content, err := v.replacing(replaces)
	if err != nil {
		return declcfg.Bundle{}, err
	}
	return declcfg.Bundle{
		Schema: declcfg.SchemaBundle, Name: v.name, Package: pack,
		Properties:    slices.Concat([]property.Property{property.MustBuildPackage(pack, v.number.String())}, v.owned),
		RelatedImages: v.images, CsvJSON: content, Objects: []string{content},
	}, nil
}

// Reason is the reason for which a bundle is not in the catalog.
type Reason string

// The reasons.
const (
	// Invalid signals that OLM could not read or install the bundle.
	Invalid Reason = "Invalid"
	// TooLarge signals that the bundle exceeds MaxBundleBytes.
	TooLarge Reason = "TooLarge"
	// CatalogFull signals that the catalog would exceed MaxServedBytes.
	CatalogFull Reason = "CatalogFull"
	// PackageConflict signals that the package belongs to another collection.
	PackageConflict Reason = "PackageConflict"
	// VersionConflict signals that the package has another bundle with this version.
	VersionConflict Reason = "VersionConflict"
)

// RefusalError reports why a bundle is not in the catalog.
type RefusalError struct {
	// Index of the bundle in the argument of Build.
	Index  int
	Reason Reason
	err    error
}

// Error implements error. The text names the bundle, the problem, and the next step.
func (r *RefusalError) Error() string { return r.err.Error() }

// Unwrap returns the cause.
func (r *RefusalError) Unwrap() error { return r.err }

func refusal(reason Reason, format string, args ...any) *RefusalError {
	return &RefusalError{Reason: reason, err: fmt.Errorf(format, args...)}
}
