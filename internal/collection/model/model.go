// Package model is the model of an Ansible collection that follows the Operator Collection Specification.
//
// [Load] reads a collection (an unpacked archive or an author's folder) and either returns a model in which every
// name is legal on a Kubernetes API server and every file it mentions exists, or reports everything that is wrong with
// it at once. [Rules] are what it checks. The package reads no playbooks. It works on bytes and file systems alone: it
// knows no cluster, network, clock or environment.
package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

const operatorSuffix = "-operator"

// Group is the API group that the kinds of all collections share unless a user asks for a group per collection.
// Clients rely on it.
const Group = "suboperator.zoscb.ibm.com"

// Collection is what a collection's operator-config, MANIFEST.json or galaxy.yml, and meta/runtime.yml say.
// Outside of tests, [Load] is the only place that makes one, so its holder may rely on the rules Load checks.
// It is not to be changed after loading.
type Collection struct {
	// Domain and Name identify the collection, as a pair. Each is a DNS-1123 subdomain, at most 63 characters long.
	Domain, Name string
	// Version is the operator-config's version; it may differ from Galaxy.Version (a warning says so).
	Version *semver.Version
	// DisplayName and Description (markdown, may be empty) are the texts of the tile in OperatorHub.
	DisplayName, Description string
	// Provider names who offers the collection, and ProviderURL is their address. Both may be empty.
	Provider    string
	ProviderURL string `json:",omitempty"`
	// Capabilities is one of CapabilityLevels, or "". Categories are sorted and some of Categories, or nil.
	Capabilities string   `json:",omitempty"`
	Categories   []string `json:",omitempty"`
	// Support names who supports the collection, or "" for the provider.
	Support string `json:",omitempty"`
	// Icons may be empty. Not all of them are of ShownIconTypes.
	Icons []Icon
	// Resources has at least one element, in the order of the file.
	Resources []Resource
	// Roles are the rules the operator asks for in its namespace, ClusterRoles those in the whole cluster.
	Roles, ClusterRoles []rbacv1.PolicyRule
	// InventoryName is the Ansible group that the endpoint's host joins, or "" for none.
	InventoryName string
	// Replaces is the collection whose kinds and custom resources this one takes over, or zero.
	Replaces ID `json:",omitzero"`
	// ReplacesVersion is the name of the ClusterServiceVersion, of an older version of the collection, that a bundle of this one upgrades,
	// or "". Operators that the manager installs are upgraded by their versions.
	ReplacesVersion string `json:",omitempty"`
	// MigrationPlaybook is the path of the playbook that migrates a custom resource from another version, or "".
	MigrationPlaybook string `json:",omitempty"`
	// MigrationReversible states that an older version of the collection can manage custom resources that were migrated to this
	// one.
	MigrationReversible bool `json:",omitempty"`
	// Galaxy is the collection as Ansible knows it.
	Galaxy Galaxy
	// Created is when the archive was built, to the second, or the zero time if it is unknown: of an author's folder,
	// and of an archive that [Build] made.
	Created time.Time `json:",omitzero"`
	// Dependencies are what must be installed beside the collection.
	Dependencies Dependencies
	// Problems are all that is wrong with the collection and did not keep it from loading, sorted by place.
	Problems findings.Problems
}

// Galaxy is the metadata that Ansible Galaxy keeps of a collection, from MANIFEST.json or galaxy.yml.
type Galaxy struct {
	// Namespace and Name are legal Python identifiers; the content lies at ansible_collections/<Namespace>/<Name>.
	Namespace, Name, Version string

	Authors, License, Tags []string
	Description            string

	Documentation, Homepage, Repository, Issues string

	// Dependencies maps the collections this one needs ("namespace.name") to version ranges.
	Dependencies map[string]string
	// RequiresAnsible is the ansible-core version range of meta/runtime.yml (PEP 440), or "".
	RequiresAnsible string
}

// Icon is one image for the collection's tile.
type Icon struct {
	// Base64Data is the image in standard base64 on one line.
	Base64Data string
	// MediaType is the bare media type, such as "image/svg+xml", without parameters.
	MediaType string
}

// Resource is one kind that the collection offers.
type Resource struct {
	// Kind consists of letters and digits, begins with a letter, in Pascal case if the author follows the specification,
	// and is at most 59 characters long, so that "<Kind>List" is a legal name too.
	Kind string
	// DisplayName is never empty: the kind is used if there is none.
	DisplayName string
	Description string
	// Playbook and Finalizer are clean slash-separated paths of files relative to the collection's root.
	// Finalizer is "" when deletion runs nothing.
	Playbook, Finalizer string
	// Vars may be empty. Their names are unique.
	Vars []Var
	// Hidden asks not to offer the kind under Installed Operators.
	Hidden bool
	// SupportsCheckMode states that Playbook can run in Ansible's check mode: the kind can be checked for drift.
	SupportsCheckMode bool
	// ShowDiff states that the status of a resource may have what differs, which contains parts of files.
	ShowDiff bool `json:",omitempty"`
	// ReconcilePeriod is how often Playbook runs without a change, unless an administrator sets another interval. 0 is never.
	ReconcilePeriod time.Duration `json:",omitempty"`
	// MaxArtifacts is the number of runs of an instance whose files are kept, unless an administrator sets another one. 0 is the
	// default.
	MaxArtifacts int `json:",omitempty"`
	// Place is where the operator-config names the kind.
	Place findings.Problem `json:"-"`
}

// VarType is the type of a variable as the Operator Collection Specification names it.
type VarType string

// The types of variables. Integer is not in the specification but in many collections. A Password holds the name of a
// Secret in the resource's namespace, not a secret text.
const (
	String   VarType = "string"
	Number   VarType = "number"
	Integer  VarType = "integer"
	Boolean  VarType = "boolean"
	Password VarType = "password"
	Object   VarType = "object"
)

// Var is one input of a resource's playbook: a field of the generated kind's spec, and under the same name an
// extra variable of the run.
type Var struct {
	// Name is a legal Ansible variable name. It is never converted to another case.
	Name string
	// DisplayName is never empty: the name is used if there is none.
	DisplayName string
	Description string
	Type        VarType
	// Options are the allowed values of a String, or of the elements of an array of Strings. Empty means any.
	Options  []string
	Required bool
	// Array says that the variable is a list of values of Type.
	Array bool
	// Default is nil, or a value that fits Type, Array, Options and Fields: string, int64, float64, bool, []any or
	// map[string]any. A Number's default is an int64 or a float64, an Integer's an int64.
	Default any
	// KindReference names the kind whose instances are valid values, or "". The kind need not be in this collection.
	KindReference string
	// Fields are the members of an Object, at least one; they are no objects. Nil for other types.
	Fields []Var
	// Place is where the operator-config names the variable.
	Place findings.Problem `json:"-"`
}

// ID identifies a collection in all its versions. It is always the pair: "a-b" and "c" joined read like "a" and "b-c".
type ID struct {
	Domain, Name string
}

func (id ID) String() string { return id.Domain + "/" + id.Name }

// ID returns the collection's identity.
func (c *Collection) ID() ID { return ID{Domain: c.Domain, Name: c.Name} }

// OperatorName is the name of the collection's Deployment and ServiceAccount: "<domain>-<name>-operator" with the dots
// of domain and name replaced by dashes; a DNS-1123 label. One that is too long for a label is shortened, and has a hash of
// the identity. Different collections may share a name ("a-b" "c" and "a" "b-c"): identity is the pair of Domain and Name.
func (id ID) OperatorName() string {
	const hashed = 8
	name := id.fullName()
	if len(name)+len(operatorSuffix) <= validation.DNS1123LabelMaxLength {
		return name + operatorSuffix
	}
	sum := sha256.Sum256([]byte(id.String()))
	hash := hex.EncodeToString(sum[:])[:hashed]
	kept := name[:validation.DNS1123LabelMaxLength-len(operatorSuffix)-hashed-1]
	return strings.TrimRight(kept, "-") + "-" + hash + operatorSuffix
}

func (id ID) fullName() string { return strings.ReplaceAll(id.Domain+"-"+id.Name, ".", "-") }

// OperatorName returns [ID.OperatorName].
func (c *Collection) OperatorName() string { return c.ID().OperatorName() }

// VersionLabel is the version without build metadata and in lower case: legal as a label value and in object names.
func (c *Collection) VersionLabel() string {
	v := fmt.Sprintf("%d.%d.%d", c.Version.Major(), c.Version.Minor(), c.Version.Patch())
	if pre := c.Version.Prerelease(); pre != "" {
		v += "-" + strings.ToLower(pre)
	}
	return v
}

// CSVName is the name of the collection's ClusterServiceVersion: "<domain>-<name>-operator.v<version>".
// It is a DNS-1123 subdomain. [Collection.CheckCSVName] says if it is too long for OLM.
func (c *Collection) CSVName() string { return c.OperatorName() + ".v" + c.VersionLabel() }

// CheckCSVName returns an error if the name of the ClusterServiceVersion has more characters than OLM allows, which makes a
// label value of it: 63. Such a collection can be installed without OLM only.
func (c *Collection) CheckCSVName() error {
	name := c.CSVName()
	if len(name) <= validation.LabelValueMaxLength {
		return nil
	}
	return fmt.Errorf("the name of the operator's version, %s, has %d characters, and OLM allows %d: shorten domain, name or version of the collection",
		findings.Quote(name), len(name), validation.LabelValueMaxLength)
}

// APIVersion is the version name of the collection's kinds: 1.2.0 is "v1minor2patch0", 1.0.0-beta.1 is
// "v1minor0patch0-beta-1". Build metadata has no part in it; two versions may map to one name.
func (c *Collection) APIVersion() string {
	name := fmt.Sprintf("v%dminor%dpatch%d", c.Version.Major(), c.Version.Minor(), c.Version.Patch())
	if pre := c.Version.Prerelease(); pre != "" {
		name += "-" + strings.ToLower(strings.ReplaceAll(pre, ".", "-"))
	}
	return name
}

// Group is the API group of the collection's kinds: the shared one, or with perCollection
// "<name>.<domain>.suboperator.zoscb.ibm.com".
func (c *Collection) Group(perCollection bool) string {
	if perCollection {
		return c.Name + "." + c.Domain + "." + Group
	}
	return Group
}

// Resource returns the resource of the given kind and whether there is one.
func (c *Collection) Resource(kind string) (Resource, bool) {
	if i := slices.IndexFunc(c.Resources, func(r Resource) bool { return r.Kind == kind }); i >= 0 {
		return c.Resources[i], true
	}
	return Resource{}, false
}

// UsesPasswords reports whether a variable of any kind names a Secret, which the playbooks then read.
func (c *Collection) UsesPasswords() bool {
	return slices.ContainsFunc(c.Resources, Resource.UsesPasswords)
}

// Plural is the resource name in API paths: the kind in lower case with an "s".
func (r Resource) Plural() string { return r.Singular() + "s" }

// Singular is the kind in lower case.
func (r Resource) Singular() string { return strings.ToLower(r.Kind) }

// ListKind is the kind of a list of instances: "<Kind>List".
func (r Resource) ListKind() string { return r.Kind + "List" }

// CompletesItself reports whether the API server adds an optional object that is absent, with the defaults of its fields: all
// that are required have one. It only sets defaults of members if the object itself has one, which is {}.
func (v Var) CompletesItself() bool {
	return v.Type == Object && !v.Array && v.Default == nil &&
		!slices.ContainsFunc(v.Fields, func(f Var) bool { return f.Required && f.Default == nil })
}

// UsesPasswords reports whether a variable of the kind names a Secret.
func (r Resource) UsesPasswords() bool {
	return slices.ContainsFunc(r.Vars, func(v Var) bool {
		return v.Type == Password || slices.ContainsFunc(v.Fields, func(f Var) bool { return f.Type == Password })
	})
}

// RequirementType says what a [Requirement] names.
type RequirementType string

// The types of collection requirements, as ansible-galaxy knows them.
const (
	// FromGalaxy is the name of a collection on a Galaxy server.
	FromGalaxy RequirementType = "galaxy"
	// FromFile is the path of a collection archive (tar.gz).
	FromFile RequirementType = "file"
	// FromFolder is the path of a collection's folder.
	FromFolder RequirementType = "dir"
	// FromURL is the http or https address of a collection archive.
	FromURL RequirementType = "url"
	// FromGit is the address of a git repository.
	FromGit RequirementType = "git"
)

// Dependencies are what must be installed beside a collection before its playbooks can run.
type Dependencies struct {
	// Collections are those of collections/requirements.yml, requirements.yml and the Galaxy metadata, in this order and
	// as they are written there. The collection itself is not among them. One name may be there several times.
	Collections []Requirement
	// Python are the pip requirements files that ask for something, sorted by path.
	Python []PythonRequirements
}

// Requirement is an Ansible collection that is needed.
type Requirement struct {
	// Name is "namespace.name" for FromGalaxy, else a path or an address. A path is clean and relative to the
	// collection's root if the collection holds the file, else absolute: a file of the runtime image.
	Name string
	Type RequirementType
	// Version is a range such as ">=1.0.0,<2.0.0", "*" for any. For FromGit it is a branch, tag or commit.
	Version string
	// Source is the address of the Galaxy server to ask, or "" for the configured one.
	Source string
	// File is where the requirement is written.
	File string
}

// PythonRequirements is a pip requirements file.
type PythonRequirements struct {
	// File is the path relative to the collection's root.
	File string
	// Options are the words of the file's options for the whole file, such as "--no-index".
	Options []string
	// Requirements are the file's other lines, comments and line breaks removed.
	Requirements []string
}

// Empty says that there is nothing to install.
func (d Dependencies) Empty() bool { return len(d.Collections) == 0 && len(d.Python) == 0 }
