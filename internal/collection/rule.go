package collection

import (
	"cmp"
	"slices"
)

// Rule is one thing that is checked. One rule has one severity and one consequence in a cluster.
type Rule struct {
	// Name is short and stable: "kind-name".
	Name     string
	Severity Severity
	// Refused says that the cluster refuses a collection that breaks the rule: it cannot be rendered, or would do harm.
	// A collection that breaks only other rules is installed, with a warning.
	Refused bool
	// Section is that of the Operator Collection Specification which the rule comes from, "" for a rule of ours.
	Section string
	// Summary says in one sentence what is checked.
	Summary string
}

// Rules returns every rule, sorted by name.
func Rules() []Rule {
	all := slices.Clone(ruleTable)
	slices.SortFunc(all, func(a, b Rule) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Sections of the Operator Collection Specification.
const (
	sectionRoot       = "OperatorHub Integration"
	sectionIcon       = "Icon Object"
	sectionResources  = "Operator Resources"
	sectionVariables  = "Resource Variables"
	sectionFields     = "Object Variables"
	sectionProvided   = "Provided Variables"
	sectionPermission = "Operator ClusterRoles Permission, Operator Roles Permission"
)

// Names of the rules. A problem is reported with one of them; its severity comes from ruleTable.
const (
	// Files.
	ruleMissingConfig   = "missing-operator-config"
	ruleDuplicateConfig = "duplicate-operator-config"
	ruleMissingGalaxy   = "missing-galaxy"
	ruleFile            = "file"
	ruleYAML            = "yaml"
	ruleJSON            = "json"
	ruleDuplicateKey    = "duplicate-key"
	ruleType            = "type"
	ruleUnknownKey      = "unknown-key"
	ruleAnsibleConfig   = "ansible-config"
	// Checksums.
	ruleManifestChecksum = "manifest-checksum"
	ruleFilesList        = "files-list"
	ruleFilesMissing     = "files-missing"
	ruleFilesChecksum    = "files-checksum"
	ruleFilesExtra       = "files-extra"
	// The collection.
	ruleRequired           = "required"
	ruleDisplayName        = "display-name"
	ruleIdentity           = "identity"
	ruleDerivedName        = "derived-name"
	ruleVersion            = "version"
	ruleVersionAPI         = "version-api"
	ruleVersionClash       = "version-clash"
	ruleMatchDomain        = "match-domain"
	ruleMatchName          = "match-name"
	ruleMatchVersion       = "match-version"
	ruleDescriptionHeading = "description-heading"
	ruleInventoryName      = "inventory-name"
	ruleIconData           = "icon-data"
	ruleIconType           = "icon-type"
	ruleIconKeys           = "icon-keys"
	ruleIconContent        = "icon-content"
	ruleIconSize           = "icon-size"
	// Kinds.
	ruleKindName         = "kind-name"
	ruleKindCase         = "kind-case"
	ruleKindUnique       = "kind-unique"
	rulePlaybookPath     = "playbook-path"
	ruleFinalizerPath    = "finalizer-path"
	ruleMissingPlaybook  = "missing-playbook"
	ruleMissingFinalizer = "missing-finalizer"
	// Variables.
	ruleVarName               = "var-name"
	ruleVarUnique             = "var-unique"
	ruleReservedVar           = "reserved-var"
	ruleAnsibleKeyword        = "ansible-keyword"
	ruleVarType               = "var-type"
	ruleArrayType             = "array-type"
	ruleNestedObject          = "nested-object"
	ruleObjectVariables       = "object-variables"
	ruleObjectVariablesUnused = "object-variables-unused"
	ruleOptionalObject        = "optional-object"
	ruleOptionsType           = "options-type"
	ruleOptionUnique          = "option-unique"
	ruleOptionEmpty           = "option-empty"
	ruleDefaultType           = "default-type"
	ruleDefaultOption         = "default-option"
	ruleDefaultObject         = "default-object"
	ruleDefaultTemplate       = "default-template"
	ruleDefaultSecret         = "default-secret"
	ruleKindReference         = "kind-reference"
	ruleKindReferenceUnknown  = "kind-reference-unknown"
	// Playbooks.
	rulePlaybookSyntax      = "playbook-syntax"
	rulePlaybookImport      = "playbook-import"
	rulePlaybookSize        = "playbook-size"
	ruleHostsAll            = "hosts-all"
	ruleHostsGroup          = "hosts-group"
	ruleHostsTemplate       = "hosts-template"
	rulePromptedVar         = "prompted-var"
	ruleConditionalTemplate = "conditional-template"
	rulePythonInterpreter   = "python-interpreter"
	ruleConnectionVar       = "connection-var"
	ruleOptionalVar         = "optional-var"
	ruleUnusedVar           = "unused-var"
	ruleUndeclaredVar       = "undeclared-var"
	// Permissions.
	rulePermissionKey      = "permission-key"
	rulePermission         = "permission"
	rulePermissionWildcard = "permission-wildcard"
	// Galaxy metadata and dependencies.
	ruleGalaxyName         = "galaxy-name"
	ruleGalaxyMetadata     = "galaxy-metadata"
	ruleGalaxyBuild        = "galaxy-build"
	ruleRequiresAnsible    = "requires-ansible"
	ruleRequirements       = "requirements"
	ruleRequirementsRole   = "requirements-role"
	ruleRequirementsSource = "requirements-source"
	rulePythonRequirements = "python-requirements"
)

// Names of the rules that are checked outside of this package, in internal/lint.
const (
	RuleArchive   = "archive"
	RuleCRDSchema = "crd-schema"
	RuleExample   = "example"
	RuleOCLint    = "oc-lint"
)

// ruleTable is the documentation of every rule.
var ruleTable = []Rule{
	{ruleMissingConfig, SeverityError, true, sectionRoot, "There is an operator-config.yml or operator-config.yaml at the root."},
	{ruleDuplicateConfig, SeverityError, true, sectionRoot, "There are not both, operator-config.yml and operator-config.yaml."},
	{ruleMissingGalaxy, SeverityError, true, sectionRoot, "There is a MANIFEST.json (archives) or a galaxy.yml (folders) at the root."},
	{ruleFile, SeverityError, true, "", "A file that has to be read is a regular file, not too large, and no link to a file of another name."},
	{ruleYAML, SeverityError, true, "", "A YAML file can be read, holds one document and is not too large."},
	{ruleJSON, SeverityError, true, "", "MANIFEST.json and FILES.json can be read as JSON."},
	{ruleManifestChecksum, SeverityError, true, "", "MANIFEST.json holds the checksum of FILES.json."},
	{ruleFilesList, SeverityError, true, "", "FILES.json lists files and folders, each once, with paths that do not leave the collection, and files with their checksums."},
	{ruleFilesMissing, SeverityError, true, "", "An archive has a FILES.json, and every file and folder that it lists."},
	{ruleFilesChecksum, SeverityError, true, "", "Every file has the checksum that FILES.json lists."},
	{ruleFilesExtra, SeverityError, true, "", "An archive holds nothing that FILES.json does not list, but MANIFEST.json and FILES.json themselves."},
	{ruleDuplicateKey, SeverityError, true, "", "No key is given twice in a mapping."},
	{ruleType, SeverityError, true, "", "A value has the type its key asks for: text, boolean, list or mapping."},
	{ruleUnknownKey, SeverityWarning, false, "", "Every key is one that something reads."},
	{ruleAnsibleConfig, SeverityWarning, false, "", "There is no ansible.cfg at the root."},

	{ruleRequired, SeverityError, true, sectionRoot, "The keys are there without which nothing can be made: domain, name, version, resources; kind and playbook of a resource; " +
		"name and type of a variable."},
	{ruleDisplayName, SeverityError, false, sectionRoot, "The collection and every variable have a displayName; else the name is shown."},
	{ruleIdentity, SeverityError, true, sectionRoot, "domain and name are DNS subdomains (RFC 1123) of at most 63 characters."},
	{ruleDerivedName, SeverityError, true, "", "The names made of domain, name and version are legal in Kubernetes: the operator's and its version's, at most 63 characters each."},
	{ruleVersion, SeverityError, true, sectionRoot, "version is a semantic version."},
	{ruleVersionAPI, SeverityError, true, "", "version makes a legal name of an API version."},
	{ruleVersionClash, SeverityWarning, false, "", "version has nothing that its API version's name leaves out, so that no two versions share the name: no build metadata, no capitals and no hyphen in the pre-release."},
	{ruleMatchDomain, SeverityWarning, false, sectionRoot, "domain is the namespace in MANIFEST.json or galaxy.yml; - and _ count as the same."},
	{ruleMatchName, SeverityWarning, false, sectionRoot, "name is the name in MANIFEST.json or galaxy.yml; - and _ count as the same."},
	{ruleMatchVersion, SeverityWarning, false, sectionRoot, "version is the version in MANIFEST.json or galaxy.yml."},
	{ruleDescriptionHeading, SeverityError, false, sectionRoot, "In the description that YAML makes, each markdown heading stands alone on its line."},
	{ruleInventoryName, SeverityError, true, "", "inventoryName is a name that an Ansible group may have, and none that Ansible gives itself."},
	{ruleIconData, SeverityWarning, false, sectionIcon, "base64data is base64 text; else the icon is left out."},
	{ruleIconType, SeverityWarning, false, sectionIcon, "mediatype is the media type of an image, else the icon is left out; and one that OperatorHub shows: PNG, JPEG, GIF or SVG."},
	{ruleIconKeys, SeverityError, false, sectionIcon, "An icon has base64data and mediatype; else it is left out."},
	{ruleIconContent, SeverityWarning, false, sectionIcon, "The content of an icon is what mediatype says: PNG, JPEG, GIF, WebP or SVG."},
	{ruleIconSize, SeverityWarning, false, "", "An icon has at most 100 KiB."},

	{ruleKindName, SeverityError, true, sectionResources, "kind consists of letters and digits, begins with a letter, and is at most 59 characters long."},
	{ruleKindCase, SeverityError, false, sectionResources, "kind is in Pascal case: it begins with a capital letter."},
	{ruleKindUnique, SeverityError, true, sectionResources, "No two kinds share a name, nor one that is made of it: list kind, plural, singular."},
	{rulePlaybookPath, SeverityError, true, sectionResources, "playbook is a path relative to the collection's root that does not leave it."},
	{ruleFinalizerPath, SeverityError, true, sectionResources, "finalizer is a path relative to the collection's root that does not leave it."},
	{ruleMissingPlaybook, SeverityError, true, sectionResources, "playbook is a file of the collection."},
	{ruleMissingFinalizer, SeverityError, true, sectionResources, "finalizer is a file of the collection."},

	{ruleVarName, SeverityError, true, sectionVariables, "name is one that an Ansible variable may have."},
	{ruleVarUnique, SeverityError, true, sectionVariables, "No two variables of a resource, and no two of an object, share a name."},
	{ruleReservedVar, SeverityError, true, sectionProvided, "No variable has a name that Ansible or the operator sets itself: ansible_*, zoscb_*, k8s_*, zosendpoint and names for the whole resource."},
	{ruleAnsibleKeyword, SeverityWarning, false, "", "No variable has the name of an Ansible keyword, such as name, tags or port, or of something that Ansible has itself, such as groups."},
	{ruleVarType, SeverityError, true, sectionVariables, "type is string, number, integer, boolean, password or object."},
	{ruleArrayType, SeverityError, false, sectionVariables, "Only string, number, integer and object variables of a resource are arrays."},
	{ruleNestedObject, SeverityError, true, sectionFields, "There are no objects inside objects."},
	{ruleObjectVariables, SeverityError, true, sectionVariables, "A variable of type object has objectVariables."},
	{ruleObjectVariablesUnused, SeverityWarning, false, sectionVariables, "Only a variable of type object has objectVariables; else they are ignored."},
	{ruleOptionalObject, SeverityInfo, false, sectionFields, "The defaults of an object's fields always apply: none of its fields is required without a default, or the object is required or has a default."},
	{ruleOptionsType, SeverityError, false, sectionVariables, "Only a variable of type string has options; else they are ignored."},
	{ruleOptionUnique, SeverityWarning, false, sectionVariables, "No option is given twice."},
	{ruleOptionEmpty, SeverityWarning, false, sectionVariables, "No option is empty; else it is left out."},
	{ruleDefaultType, SeverityError, false, sectionVariables, "default fits the variable's type after conversion from a text; else it is left out."},
	{ruleDefaultOption, SeverityError, false, sectionVariables, "default is one of the options; else it is left out."},
	{ruleDefaultObject, SeverityError, false, sectionVariables, "The default of an object has only fields of the object, and all that are required; else it is left out."},
	{ruleDefaultTemplate, SeverityWarning, false, sectionVariables, "default is no template ({{ }}): it reaches the playbook as text."},
	{ruleDefaultSecret, SeverityWarning, false, sectionVariables, "The default of a password is the name of a Secret."},
	{ruleKindReference, SeverityError, false, sectionVariables, "kindReference is a name that a kind may have; else it is ignored."},
	{ruleKindReferenceUnknown, SeverityWarning, false, sectionVariables, "kindReference names a kind of the collection, or ZosEndpoint."},

	{rulePlaybookSyntax, SeverityError, false, sectionResources, "Playbooks are lists of plays, and what they lead to is YAML that can be read."},
	{rulePlaybookImport, SeverityError, false, "", "A playbook that another one imports is a file of the collection."},
	{rulePlaybookSize, SeverityInfo, false, "", "Playbooks, roles and templates are small enough to be looked into: at most 256 KiB each and 8 MiB together; else no other rule looks at them."},
	{ruleHostsAll, SeverityError, false, sectionResources, "Every play has hosts: all; plays for localhost are allowed."},
	{ruleHostsGroup, SeverityWarning, false, sectionResources, "No play has the group inventoryName as its hosts: other brokers may not know it."},
	{ruleHostsTemplate, SeverityWarning, false, sectionResources, "The hosts of a play are no template: a play without matching hosts does nothing, and succeeds."},
	{rulePromptedVar, SeverityWarning, false, "", "A variable of vars_prompt is required or has a default in the operator-config: nobody is there to be asked."},
	{ruleConditionalTemplate, SeverityWarning, false, "", "when, failed_when, changed_when, until and that hold no variable of the kind in {{ }}: Ansible refuses them."},
	{rulePythonInterpreter, SeverityWarning, false, "", "Neither a play's vars nor a vars file sets ansible_python_interpreter: it would beat every endpoint's and apply to localhost, too."},
	{ruleConnectionVar, SeverityWarning, false, "", "Neither a play nor a vars file sets how the endpoint is connected to, such as ansible_host, ansible_user or connection: local."},
	{ruleOptionalVar, SeverityInfo, false, sectionVariables, "A variable that is neither required nor has a default is used with default() or after a test with is defined."},
	{ruleUnusedVar, SeverityInfo, false, sectionVariables, "Every variable of a kind is used in its playbooks, roles or templates."},
	{ruleUndeclaredVar, SeverityInfo, false, sectionVariables, "Every variable that a playbook needs is declared or gets a value in the collection; else each endpoint has to set it."},

	{rulePermissionKey, SeverityError, true, sectionPermission, "A policy rule has only keys of a policy rule: without a misspelt one it would grant more than its author meant."},
	{rulePermission, SeverityError, true, sectionPermission, "A policy rule has verbs, and either apiGroups and resources or, in clusterRoles, nonResourceURLs."},
	{rulePermissionWildcard, SeverityWarning, false, sectionPermission, "A policy rule has no wildcards (*)."},

	{ruleGalaxyName, SeverityError, true, "", "The Galaxy metadata has a namespace and a name that are legal for Ansible, and a version."},
	{ruleGalaxyMetadata, SeverityError, false, "", "Each value of the Galaxy metadata has the right type."},
	{ruleGalaxyBuild, SeverityError, false, "", "galaxy.yml has what an archive needs: readme, authors and a semantic version; no manifest directives, and at most 200 patterns in build_ignore."},
	{ruleRequiresAnsible, SeverityWarning, false, "", "requires_ansible in meta/runtime.yml is a version range; else it is ignored."},
	{ruleRequirements, SeverityError, true, "", "Collection requirements name collections that can be asked for, or files that the collection holds; at most 500."},
	{ruleRequirementsRole, SeverityWarning, false, "", "Requirements ask for no roles: these are not installed."},
	{ruleRequirementsSource, SeverityWarning, false, "", "The source of a requirement is an http or https address; else the configured server is asked."},
	{rulePythonRequirements, SeverityError, true, "", "Every requirements.txt is one that pip can read, and the files it names are there."},

	{RuleArchive, SeverityError, true, "", "The archive, or the one that is built of a folder, can be unpacked: it is whole, not too large, and no path or link in it leads out of it."},
	{RuleCRDSchema, SeverityError, true, "", "The API server accepts the CustomResourceDefinition that is made of a kind: the code of the API server says so, it can be stored, and there are at most 500."},
	{RuleExample, SeverityError, false, "", "The example of a kind that consoles offer (alm-examples) is valid: required variables can be given a value."},
	{RuleOCLint, SeverityWarning, false, "", "A file .oc-lint can be read, and has only keys and rules that exist; else these are ignored. Clusters do not read it."},
}

// ruleByName is for looking a rule up when it is broken.
var ruleByName = func() map[string]Rule {
	byName := make(map[string]Rule, len(ruleTable))
	for _, rule := range ruleTable {
		byName[rule.Name] = rule
	}
	return byName
}()
