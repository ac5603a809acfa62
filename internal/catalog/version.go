package catalog

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/blang/semver/v4"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/alpha/property"
)

const (
	// MaxBundleBytes is the maximum size of one ClusterServiceVersion as a JSON string. OLM writes it into an InstallPlan,
	// and etcd accepts objects of up to 1.5 MiB. A gRPC message contains it twice, and OLM accepts messages of up to 4 MiB.
	MaxBundleBytes = 1 << 20

	// MaxServedBytes is the maximum amount of data that OLM reads after each change of the catalog and keeps in memory.
	MaxServedBytes = 64 << 20
)

// version is one bundle that is valid by itself.
type version struct {
	index int
	csv   *operatorsv1alpha1.ClusterServiceVersion
	// icon is nil if there is none.
	icon *declcfg.Icon
	// content is csv in JSON.
	content string
}

func newVersion(index int, csv *operatorsv1alpha1.ClusterServiceVersion) (version, *RefusalError) {
	if err := validate(csv); err != nil {
		return version{}, refusal(Invalid, "%s: %w", csv.Name, err)
	}
	var planned []byte
	content, err := encode(csv)
	if err == nil {
		planned, err = json.Marshal(content)
	}
	if err != nil {
		return version{}, refusal(Invalid, "%s: %w", csv.Name, err)
	}
	if len(planned) > MaxBundleBytes {
		return version{}, refusal(TooLarge, "%s has %d bytes in an InstallPlan, and may have %d: use a smaller icon or shorter descriptions",
			csv.Name, len(planned), MaxBundleBytes)
	}
	icon, err := firstIcon(csv)
	if err != nil {
		return version{}, refusal(Invalid, "%s: icon: %w", csv.Name, err)
	}
	return version{index: index, csv: csv, icon: icon, content: content}, nil
}

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

// encode returns the ClusterServiceVersion as JSON, without its status.
func encode(csv *operatorsv1alpha1.ClusterServiceVersion) (string, error) {
	content, err := json.Marshal(csv)
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

// semver returns the version without build metadata, which is irrelevant for the order.
func (v version) semver() semver.Version {
	number := v.csv.Spec.Version.Version
	number.Build = nil
	return number
}

// channel returns the name of the channel that ends with the version.
func (v version) channel() string { return VersionChannel(strings.ToLower(v.semver().String())) }

// served returns the approximate size of a message with the bundle, which contains it as csvJson and as an object.
func (v version) served() int { return 2 * len(v.content) }

// bundle returns the version as a bundle of a package. It replaces another bundle unless replaces is "".
func (v version) bundle(pack, replaces string) (declcfg.Bundle, error) {
	csv := v.csv.DeepCopy()
	csv.Spec.Replaces, csv.Spec.Skips = replaces, nil
	content, err := encode(csv)
	if err != nil {
		return declcfg.Bundle{}, err
	}
	bundle := declcfg.Bundle{
		Schema: declcfg.SchemaBundle, Name: csv.Name, Package: pack,
		Properties: []property.Property{property.MustBuildPackage(pack, v.semver().String())},
		CsvJSON:    content, Objects: []string{content},
	}
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(owned.Name, ".")
		bundle.Properties = append(bundle.Properties, property.MustBuildGVK(group, owned.Version, owned.Kind))
	}
	bundle.Properties = append(bundle.Properties, property.MustBuildBundleObject([]byte(content)))
	for _, image := range csv.Spec.RelatedImages {
		bundle.RelatedImages = append(bundle.RelatedImages, declcfg.RelatedImage{Name: image.Name, Image: image.Image})
	}
	return bundle, nil
}
