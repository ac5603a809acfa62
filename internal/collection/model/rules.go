package model

import "github.com/collection-operator/collection-operator/internal/collection/findings"

var rules findings.Rules

// Rules returns the rules that [Load] checks, beside those about reading YAML.
func Rules() findings.Rules { return rules }

// The rules about files.
var (
	ruleMissingConfig   = rules.Refused("missing-operator-config", findings.SectionRoot, "There is an operator-config.yml or operator-config.yaml at the root.")
	ruleDuplicateConfig = rules.Refused("duplicate-operator-config", findings.SectionRoot, "There are not both, operator-config.yml and operator-config.yaml.")
	// RuleMissingGalaxy is also about folders of which an archive is built.
	RuleMissingGalaxy    = rules.Refused("missing-galaxy", findings.SectionRoot, "There is a MANIFEST.json (archives) or a galaxy.yml (folders) at the root.")
	ruleFile             = rules.Refused("file", "", "A file that has to be read is a regular file, not too large, and no link to a file of another name.")
	ruleJSON             = rules.Refused("json", "", "MANIFEST.json and FILES.json can be read as JSON.")
	ruleManifestChecksum = rules.Refused("manifest-checksum", "", "MANIFEST.json holds the checksum of FILES.json.")
	ruleFilesList        = rules.Refused("files-list", "", "FILES.json lists files and folders, each once, with paths that do not leave the collection, and files with their checksums.")
	ruleFilesMissing     = rules.Refused("files-missing", "", "An archive has a FILES.json, and every file and folder that it lists.")
	ruleFilesChecksum    = rules.Refused("files-checksum", "", "Every file has the checksum that FILES.json lists.")
	ruleFilesExtra       = rules.Refused("files-extra", "", "An archive holds nothing that FILES.json does not list, but MANIFEST.json and FILES.json themselves.")
	ruleAnsibleConfig    = rules.Warning("ansible-config", "", "There is no ansible.cfg at the root.")
)

// The rules about the collection.
var (
	ruleDisplayName         = rules.Error("display-name", findings.SectionRoot, "The collection and every variable have a displayName; else the name is shown.")
	ruleIdentity            = rules.Refused("identity", findings.SectionRoot, "domain and name are DNS subdomains (RFC 1123) of at most 63 characters.")
	ruleDerivedName         = rules.Refused("derived-name", "", "The names made of domain, name and version are legal in Kubernetes: the operator's and its version's.")
	ruleLongName            = rules.Warning("long-name", "", "The names of the operator and of its version have at most 63 characters each; else OLM cannot install it, and the operator gets a shorter name.")
	ruleVersion             = rules.Refused("version", findings.SectionRoot, "version is a semantic version.")
	ruleVersionAPI          = rules.Refused("version-api", "", "version makes a legal name of an API version.")
	ruleVersionClash        = rules.Warning("version-clash", "", "version has nothing that its API version's name leaves out, so that no two versions share the name: no build metadata, no capitals and no hyphen in the pre-release.")
	ruleMatchDomain         = rules.Warning("match-domain", findings.SectionRoot, "domain is the namespace in MANIFEST.json or galaxy.yml; - and _ count as the same.")
	ruleMatchName           = rules.Warning("match-name", findings.SectionRoot, "name is the name in MANIFEST.json or galaxy.yml; - and _ count as the same.")
	ruleMatchVersion        = rules.Warning("match-version", findings.SectionRoot, "version is the version in MANIFEST.json or galaxy.yml.")
	ruleDescriptionHeading  = rules.Error("description-heading", findings.SectionRoot, "In the description that YAML makes, each markdown heading stands alone on its line.")
	ruleInventoryName       = rules.Refused("inventory-name", "", "inventoryName is a name that an Ansible group may have, and none that Ansible gives itself.")
	ruleReplaces            = rules.Warning("replaces", "", "replaces is the domain/name of another collection, the name of one in the same domain, or the name of the ClusterServiceVersion of an older version of this one; else it is ignored.")
	ruleMigrationPlaybook   = rules.Warning("migration-playbook", "", "migrationPlaybook is the path of a file of the collection; else it is ignored.")
	ruleMigrationReversible = rules.Warning("migration-reversible", "", "migrationReversible is true or false; else it is ignored.")
	ruleCapabilities        = rules.Warning("capabilities", "", "capabilities is a level of the Operator Framework's capability model, from Basic Install to Auto Pilot; else it is ignored.")
	ruleCategories          = rules.Warning("categories", "", "categories are those of OperatorHub; others are ignored.")
	ruleIconData            = rules.Warning("icon-data", findings.SectionIcon, "base64data is base64 text; else the icon is left out.")
	ruleIconType            = rules.Warning("icon-type", findings.SectionIcon, "mediatype is the media type of an image, else the icon is left out; and one that OperatorHub shows: PNG, JPEG, GIF or SVG.")
	ruleIconKeys            = rules.Error("icon-keys", findings.SectionIcon, "An icon has base64data and mediatype; else it is left out.")
	ruleIconContent         = rules.Warning("icon-content", findings.SectionIcon, "The content of an icon is what mediatype says: PNG, JPEG, GIF, WebP or SVG.")
	ruleIconSize            = rules.Warning("icon-size", "", "An icon has at most 100 KiB.")
)

// The rules about kinds.
var (
	ruleKindName         = rules.Refused("kind-name", findings.SectionResources, "kind consists of letters and digits, begins with a letter, and is at most 59 characters long.")
	ruleKindCase         = rules.Error("kind-case", findings.SectionResources, "kind is in Pascal case: it begins with a capital letter.")
	ruleKindUnique       = rules.Refused("kind-unique", findings.SectionResources, "No two kinds share a name, nor one that is made of it: list kind, plural, singular.")
	ruleReconcilePeriod  = rules.Warning("reconcile-period", "", "reconcilePeriod is a duration of at least 5m; else it is ignored.")
	ruleMaxArtifacts     = rules.Warning("max-runner-artifacts", "", "maxRunnerArtifacts is a number from 1 to 20; else it is ignored.")
	ruleSupport          = rules.Warning("support", "", "support is a text; else it is ignored.")
	ruleNotOffered       = rules.Warning("watches-option", "", "A resource has no option of ansible-operator's watches.yaml that authors cannot set: it is ignored.")
	rulePlaybookPath     = rules.Refused("playbook-path", findings.SectionResources, "playbook is a path relative to the collection's root that does not leave it.")
	ruleFinalizerPath    = rules.Refused("finalizer-path", findings.SectionResources, "finalizer is a path relative to the collection's root that does not leave it.")
	ruleMissingPlaybook  = rules.Refused("missing-playbook", findings.SectionResources, "playbook is a file of the collection.")
	ruleMissingFinalizer = rules.Refused("missing-finalizer", findings.SectionResources, "finalizer is a file of the collection.")
)

// The rules about variables.
var (
	ruleVarName               = rules.Refused("var-name", findings.SectionVariables, "name is one that an Ansible variable may have.")
	ruleVarUnique             = rules.Refused("var-unique", findings.SectionVariables, "No two variables of a resource, and no two of an object, share a name.")
	ruleReservedVar           = rules.Refused("reserved-var", findings.SectionProvided, "No variable has a name that Ansible or the operator sets itself: ansible_*, zoscb_*, k8s_*, zosendpoint and names for the whole resource.")
	ruleAnsibleKeyword        = rules.Warning("ansible-keyword", "", "No variable has the name of an Ansible keyword, such as name, tags or port, or of something that Ansible has itself, such as groups.")
	ruleVarType               = rules.Refused("var-type", findings.SectionVariables, "type is string, number, integer, boolean, password or object.")
	ruleArrayType             = rules.Error("array-type", findings.SectionVariables, "Only string, number, integer and object variables are arrays, and no booleans and passwords.")
	ruleNestedArray           = rules.Error("nested-array", findings.SectionFields, "No field of an object is an array.")
	ruleNestedObject          = rules.Refused("nested-object", findings.SectionFields, "There are no objects inside objects.")
	ruleObjectVariables       = rules.Refused("object-variables", findings.SectionVariables, "A variable of type object has objectVariables.")
	ruleObjectVariablesUnused = rules.Warning("object-variables-unused", findings.SectionVariables, "Only a variable of type object has objectVariables; else they are ignored.")
	ruleOptionalObject        = rules.Info("optional-object", findings.SectionFields, "The defaults of an object's fields always apply: none of its fields is required without a default, or the object is required or has a default.")
	ruleOptionsType           = rules.Error("options-type", findings.SectionVariables, "Only a variable of type string has options; else they are ignored.")
	ruleOptionUnique          = rules.Warning("option-unique", findings.SectionVariables, "No option is given twice.")
	ruleOptionEmpty           = rules.Warning("option-empty", findings.SectionVariables, "No option is empty; else it is left out.")
	ruleDefaultType           = rules.Error("default-type", findings.SectionVariables, "default fits the variable's type after conversion from a text; else it is left out.")
	ruleDefaultOption         = rules.Error("default-option", findings.SectionVariables, "default is one of the options; else it is left out.")
	ruleDefaultObject         = rules.Error("default-object", findings.SectionVariables, "The default of an object has only fields of the object, and all that are required; else it is left out.")
	ruleDefaultTemplate       = rules.Warning("default-template", findings.SectionVariables, "default is no template ({{ }}): it reaches the playbook as text.")
	ruleDefaultSecret         = rules.Warning("default-secret", findings.SectionVariables, "The default of a password is the name of a Secret.")
	ruleKindReference         = rules.Error("kind-reference", findings.SectionVariables, "kindReference is a name that a kind may have; else it is ignored.")
	ruleKindReferenceUnused   = rules.Warning("kind-reference-unused", findings.SectionVariables, "Only a variable of type string without options has a kindReference; else forms ignore it.")
	ruleKindReferenceUnknown  = rules.Warning("kind-reference-unknown", findings.SectionVariables, "kindReference names a kind of the collection, or ZosEndpoint.")
)

// The rules about permissions.
var (
	rulePermissionKey      = rules.Refused("permission-key", findings.SectionPermission, "A policy rule has only keys of a policy rule: without a misspelt one it would grant more than its author meant.")
	rulePermission         = rules.Refused("permission", findings.SectionPermission, "A policy rule has verbs, and either apiGroups and resources or, in clusterRoles, nonResourceURLs.")
	rulePermissionWildcard = rules.Warning("permission-wildcard", findings.SectionPermission, "A policy rule has no wildcards (*).")
)

// The rules about Galaxy metadata and dependencies.
var (
	ruleGalaxyName         = rules.Refused("galaxy-name", "", "The Galaxy metadata has a namespace and a name of letters, digits, _ and -, and a version.")
	ruleGalaxyHyphen       = rules.Warning("galaxy-hyphen", "", "Galaxy's namespace and name are legal for Ansible: without hyphens. Else playbooks run, but Ansible does not find the collection by its name.")
	ruleGalaxyMetadata     = rules.Error("galaxy-metadata", "", "Each value of the Galaxy metadata has the right type.")
	ruleRequiresAnsible    = rules.Warning("requires-ansible", "", "requires_ansible in meta/runtime.yml is a version range; else it is ignored.")
	ruleRequirements       = rules.Refused("requirements", "", "Collection requirements name collections that can be asked for, or files that the collection holds; at most 500.")
	ruleRequirementsRole   = rules.Warning("requirements-role", "", "Requirements ask for no roles: these are not installed.")
	ruleRequirementsSource = rules.Warning("requirements-source", "", "The source of a requirement is an http or https address; else the configured server is asked.")
	rulePythonRequirements = rules.Refused("python-requirements", "", "Every requirements.txt is a text that is not too long, and its options are those of a pip requirements file.")
)
