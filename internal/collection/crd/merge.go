package crd

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Error says why a CRD cannot be as a collection needs it.
type Error struct {
	// Reason is a Reason constant of the API.
	Reason string
	err    error
}

func (e *Error) Error() string { return e.err.Error() }
func (e *Error) Unwrap() error { return e.err }

// Contribution is one version of a kind from one version of a collection.
type Contribution struct {
	// Version is the collection's version.
	Version *semver.Version
	// CRD has that version alone, as render.CRDs renders it. It is not changed.
	CRD *apiextensionsv1.CustomResourceDefinition
	// Replaces is the collection whose CRD the contribution may take over in Namespace, that of its OperatorCollection, or zero.
	Replaces  model.ID
	Namespace string
}

// schemaConflict says that two versions of a kind disagree in a way that one object cannot satisfy. As objects are stored
// once and served in every version, such versions cannot live side by side. The field is a path, such as
// "spec.options[].size", or "kind".
func schemaConflict(crd, field string, versions, types [2]string) error {
	return &Error{v2beta2.ReasonSchemaConflict, fmt.Errorf("%s: %s is %s in version %s and %s in version %s: give the field another name, or keep its type",
		crd, field, types[0], versions[0], types[1], versions[1])}
}

func invalid(format string, args ...any) error {
	return &Error{v2beta2.ReasonInvalidCollection, fmt.Errorf(format, args...)}
}

// Merge joins the versions of a live CRD, which may be nil, with those that are contributed.
//
// No version of live is dropped; a version that is to go must be removed from live before, see [Retire]. A contributed version is rendered
// anew, but keeps the default false of its booleans; a version without a contribution keeps its schema. Versions are listed newest first and the newest is stored. Every version gets the fields of all others,
// because a write through a version removes the fields that it lacks; there such a field is optional and has neither
// default nor enum. All annotations of live survive, as do its labels that are not ours and the rest of its metadata, so
// that the result can be written with live's resourceVersion. Merging a result again changes nothing.
//
// The error is an *Error, with the reason SchemaConflict or VersionConflict if the versions do not go together.
func Merge(live *apiextensionsv1.CustomResourceDefinition, contributions []Contribution) (*apiextensionsv1.CustomResourceDefinition, error) {
	if live == nil && len(contributions) == 0 {
		return nil, invalid("merge of CRDs: neither a live one nor a contribution")
	}
	versions, err := collectVersions(live, contributions)
	if err != nil {
		return nil, err
	}
	merged := mergeBase(live, versions)
	if merged.Spec.Versions, err = unionVersions(merged.Name, versions); err != nil {
		return nil, err
	}
	return merged, nil
}

// crdVersion is one version in a merge.
type crdVersion struct {
	apiextensionsv1.CustomResourceDefinitionVersion
	// order is nil if the name was not created by Collection.APIVersion.
	order *semver.Version
	// source is the contributed CRD, or nil for a version that only live has.
	source *apiextensionsv1.CustomResourceDefinition
}

// collectVersions returns all versions, newest first.
func collectVersions(live *apiextensionsv1.CustomResourceDefinition, contributions []Contribution) ([]crdVersion, error) {
	byName := map[string]crdVersion{}
	base := live
	for _, c := range contributions {
		if len(c.CRD.Spec.Versions) != 1 {
			return nil, invalid("%s: a contribution has %d versions instead of one", c.CRD.Name, len(c.CRD.Spec.Versions))
		}
		if base == nil {
			base = c.CRD
		}
		version := c.CRD.Spec.Versions[0]
		if err := sameKind(base, c.CRD); err != nil {
			return nil, err
		}
		if other, ok := byName[version.Name]; ok && !reflect.DeepEqual(other.CustomResourceDefinitionVersion, version) {
			return nil, &Error{v2beta2.ReasonVersionConflict, fmt.Errorf(
				"%s: two different collections claim version %s: publish one of them under another version", c.CRD.Name, version.Name)}
		}
		byName[version.Name] = crdVersion{CustomResourceDefinitionVersion: version, order: c.Version, source: c.CRD}
	}
	if live != nil {
		for _, version := range live.Spec.Versions {
			contributed, ok := byName[version.Name]
			if ok {
				contributed.CustomResourceDefinitionVersion = versionAsPublished(contributed.CustomResourceDefinitionVersion, version)
			} else {
				contributed = crdVersion{CustomResourceDefinitionVersion: version, order: parseVersionName(version.Name)}
			}
			byName[version.Name] = contributed
		}
	}
	return slices.SortedFunc(maps.Values(byName), newestFirst), nil
}

func sameKind(a, b *apiextensionsv1.CustomResourceDefinition) error {
	if a.Name != b.Name {
		return invalid("merge of CRDs: %s and %s are different ones", a.Name, b.Name)
	}
	if a.Spec.Names.Kind != b.Spec.Names.Kind {
		return schemaConflict(b.Name, "kind", [2]string{a.Spec.Versions[0].Name, b.Spec.Versions[0].Name},
			[2]string{a.Spec.Names.Kind, b.Spec.Names.Kind})
	}
	return nil
}

func newestFirst(a, b crdVersion) int {
	switch {
	case a.order != nil && b.order != nil:
		return cmp.Or(b.order.Compare(a.order), strings.Compare(b.Name, a.Name))
	case a.order != nil:
		return -1
	case b.order != nil:
		return 1
	}
	return strings.Compare(b.Name, a.Name)
}

var versionName = regexp.MustCompile(`^v(\d+)minor(\d+)patch(\d+)(?:-(.+))?$`)

// parseVersionName parses a name that was created by Collection.APIVersion, or returns nil. Dots of the pre-release are
// dashes in the name; parsing all dashes as dots orders rc.2 before rc.10.
func parseVersionName(name string) *semver.Version {
	m := versionName.FindStringSubmatch(name)
	if m == nil {
		return nil
	}
	number := strings.Join(m[1:4], ".")
	if m[4] != "" {
		number += "-"
	}
	v, err := semver.StrictNewVersion(number + strings.ReplaceAll(m[4], "-", "."))
	if err != nil {
		v, _ = semver.StrictNewVersion(number + m[4])
	}
	return v
}

// mergeBase returns the merged CRD without its versions: live with the labels and annotations of the newest contribution, or
// that contribution.
func mergeBase(live *apiextensionsv1.CustomResourceDefinition, versions []crdVersion) *apiextensionsv1.CustomResourceDefinition {
	var newest *apiextensionsv1.CustomResourceDefinition
	if i := slices.IndexFunc(versions, func(v crdVersion) bool { return v.source != nil }); i >= 0 {
		newest = versions[i].source
	}
	if live == nil {
		return newest.DeepCopy()
	}
	merged := live.DeepCopy()
	if newest != nil {
		merged.TypeMeta = newest.TypeMeta
		merged.Labels = overlay(merged.Labels, newest.Labels)
		// An administrator may have changed an annotation, so the live one takes precedence.
		merged.Annotations = overlay(newest.Annotations, merged.Annotations)
		merged.Spec.Names.Categories = slices.Clone(newest.Spec.Names.Categories)
	}
	return merged
}

func overlay(base, over map[string]string) map[string]string {
	if base == nil {
		return maps.Clone(over)
	}
	merged := maps.Clone(base)
	maps.Copy(merged, over)
	return merged
}

// unionVersions adds to every version the spec fields of all others. A field has the schema of the newest version that
// contains it.
func unionVersions(crdName string, versions []crdVersion) ([]apiextensionsv1.CustomResourceDefinitionVersion, error) {
	union := make([]apiextensionsv1.CustomResourceDefinitionVersion, 0, len(versions))
	for i, own := range versions {
		version := *own.DeepCopy()
		version.Storage = i == 0
		withoutTitle(&version)
		for _, other := range versions {
			if other.Name == own.Name || specOf(&version) == nil || specOf(&other.CustomResourceDefinitionVersion) == nil {
				continue
			}
			field, types := addForeign(specOf(&version), specOf(&other.CustomResourceDefinitionVersion), "spec")
			if field != "" {
				return nil, schemaConflict(crdName, field, [2]string{own.Name, other.Name}, types)
			}
		}
		union = append(union, version)
	}
	return union, nil
}

// withoutTitle removes the titles of the whole object and of its spec, which earlier managers set: consoles hide an object that has one
// behind a collapsed bar.
func withoutTitle(v *apiextensionsv1.CustomResourceDefinitionVersion) {
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return
	}
	v.Schema.OpenAPIV3Schema.Title = ""
	if spec, ok := v.Schema.OpenAPIV3Schema.Properties["spec"]; ok {
		spec.Title = ""
		v.Schema.OpenAPIV3Schema.Properties["spec"] = spec
	}
}

// addForeign adds to schema the fields that only other has. It returns the path of a field that has different types in both.
func addForeign(schema, other *apiextensionsv1.JSONSchemaProps, path string) (conflict string, types [2]string) {
	if schema.Type != other.Type {
		return path, [2]string{schema.Type, other.Type}
	}
	if hasItems(schema) && hasItems(other) {
		return addForeign(schema.Items.Schema, other.Items.Schema, path+"[]")
	}
	for _, name := range slices.Sorted(maps.Keys(other.Properties)) {
		foreign := other.Properties[name]
		own, ok := schema.Properties[name]
		if !ok {
			if schema.Properties == nil {
				schema.Properties = map[string]apiextensionsv1.JSONSchemaProps{}
			}
			schema.Properties[name] = loosened(foreign)
			continue
		}
		if conflict, types := addForeign(&own, &foreign, path+"."+name); conflict != "" {
			return conflict, types
		}
		schema.Properties[name] = own
	}
	return "", types
}

// loosened returns a copy of schema that accepts every value of its type and has no defaults.
func loosened(schema apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	loose := *schema.DeepCopy()
	loose.Default, loose.Enum, loose.Required = nil, nil, nil
	loose.Pattern, loose.MinLength, loose.MaxLength = "", nil, nil
	if hasItems(&loose) {
		items := loosened(*loose.Items.Schema)
		loose.Items.Schema = &items
	}
	for name, field := range loose.Properties {
		loose.Properties[name] = loosened(field)
	}
	return loose
}

// Tightened describes how valid objects become invalid or lose data with a new schema. It returns "" if they do not.
func Tightened(was, is *apiextensionsv1.JSONSchemaProps) string { return tightened(was, is, "") }

func tightened(was, is *apiextensionsv1.JSONSchemaProps, path string) string {
	if was.Type != is.Type {
		return fmt.Sprintf("%s is %s instead of %s", path, is.Type, was.Type)
	}
	if ptr.Deref(was.XPreserveUnknownFields, false) && !ptr.Deref(is.XPreserveUnknownFields, false) {
		return cmp.Or(path, "the object") + " keeps no fields that are not in the schema"
	}
	if len(is.Enum) > 0 && (len(was.Enum) == 0 || slices.ContainsFunc(was.Enum, func(value apiextensionsv1.JSON) bool {
		return !slices.ContainsFunc(is.Enum, func(other apiextensionsv1.JSON) bool { return string(other.Raw) == string(value.Raw) })
	})) {
		return path + " takes fewer values"
	}
	for _, name := range is.Required {
		if !slices.Contains(was.Required, name) {
			return joinPath(path, name) + " is required"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.Properties)) {
		before := was.Properties[name]
		after, ok := is.Properties[name]
		if !ok {
			return joinPath(path, name) + " is missing"
		}
		if problem := tightened(&before, &after, joinPath(path, name)); problem != "" {
			return problem
		}
	}
	if hasItems(was) && hasItems(is) {
		return tightened(was.Items.Schema, is.Items.Schema, path+"[]")
	}
	return ""
}

func joinPath(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }
