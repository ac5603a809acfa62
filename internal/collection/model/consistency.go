package model

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// checks look at the model as a whole, after all files are read and each field was checked by itself. A field that was
// found wrong before is empty here, and a rule says nothing more about it.
var checks = []func(*loader, *Collection){
	checkOperatorName,
	checkAPIVersion,
	checkKinds,
	checkKindReferences,
	checkGalaxyIdentity,
}

// checkOperatorName: the operator's name is a label value, and with its version the name of a ClusterServiceVersion.
func checkOperatorName(l *loader, c *Collection) {
	if c.Domain == "" || c.Name == "" {
		return
	}
	at, name := l.At(l.configFile, "name"), c.OperatorName()
	if full := c.ID().fullName() + operatorSuffix; name != full {
		at.Report(ruleLongName, "the operator's name %s is longer than %d characters: its Deployment and ServiceAccount are named %s, and OLM cannot install it; "+
			"shorten domain or name", full, validation.DNS1123LabelMaxLength, name)
		return
	}
	if c.Version == nil {
		return
	}
	if len(validation.IsDNS1123Subdomain(c.CSVName())) > 0 {
		l.At(l.configFile, "version").Report(ruleDerivedName, "the name of the operator's version %s is not legal in Kubernetes", findings.Quote(c.CSVName()))
	} else if err := c.CheckCSVName(); err != nil {
		at.Report(ruleLongName, "%v", err)
	}
}

// checkAPIVersion: the name of the API version is a DNS label.
func checkAPIVersion(l *loader, c *Collection) {
	if c.Version == nil {
		return
	}
	if name := c.APIVersion(); len(validation.IsDNS1035Label(name)) > 0 {
		l.At(l.configFile, "version").Report(ruleVersionAPI, "gives the API version %s, which is not legal in Kubernetes: at most %d characters, ending with a letter or digit",
			findings.Quote(name), validation.DNS1035LabelMaxLength)
	}
}

// checkKinds: an API server tells kinds apart by kind and list kind, and by plural and singular.
func checkKinds(l *loader, c *Collection) {
	owner := map[string]string{}
	for i, r := range c.Resources {
		if r.Kind == "" {
			continue
		}
		at := l.At(l.configFile, fmt.Sprintf("resources[%d].kind", i))
		names := []string{"kind " + r.Kind, "kind " + r.ListKind(), "resource " + r.Plural(), "resource " + r.Singular()}
		for _, name := range names {
			if other, taken := owner[name]; taken {
				at.Report(ruleKindUnique, "%s clashes with kind %s: both need the %s", r.Kind, other, name)
				break
			}
		}
		for _, name := range names {
			owner[name] = r.Kind
		}
	}
}

// EndpointKind is the kind of this API that variables may refer to.
const EndpointKind = "ZosEndpoint"

// checkKindReferences: a variable may refer to a kind of another collection, which is not known here.
func checkKindReferences(l *loader, c *Collection) {
	known, inLowerCase := map[string]bool{"": true, EndpointKind: true}, map[string]string{strings.ToLower(EndpointKind): EndpointKind}
	for _, r := range c.Resources {
		known[r.Kind] = true
		inLowerCase[r.Singular()] = r.Kind
	}
	check := func(path string, v Var) {
		if !known[v.KindReference] {
			l.At(l.configFile, path+".kindReference").ReportFix(inLowerCase[strings.ToLower(v.KindReference)], ruleKindReferenceUnknown,
				"this collection has no kind %s; if it is one of another collection, that one must be imported too", findings.Quote(v.KindReference))
		}
	}
	for i, r := range c.Resources {
		for j, v := range r.Vars {
			path := fmt.Sprintf("resources[%d].vars[%d]", i, j)
			check(path, v)
			for k, field := range v.Fields {
				check(fmt.Sprintf("%s.objectVariables[%d]", path, k), field)
			}
		}
	}
}

// checkGalaxyIdentity: domain, name and version SHOULD be those of Galaxy, where names have _ instead of -.
func checkGalaxyIdentity(l *loader, c *Collection) {
	dashed := func(s string) string { return strings.ReplaceAll(s, "_", "-") }
	version := ""
	if c.Version != nil {
		version = c.Version.String()
	}
	for _, pair := range []struct {
		rule                         findings.Rule
		key, ours, theirs, galaxyKey string
	}{
		{ruleMatchDomain, "domain", c.Domain, c.Galaxy.Namespace, "namespace"},
		{ruleMatchName, "name", c.Name, c.Galaxy.Name, "name"},
		{ruleMatchVersion, "version", version, c.Galaxy.Version, "version"},
	} {
		if pair.ours != "" && pair.theirs != "" && dashed(pair.ours) != dashed(pair.theirs) {
			l.At(l.configFile, pair.key).Report(pair.rule, "%s differs from the collection's Galaxy %s %s",
				findings.Quote(pair.ours), pair.galaxyKey, findings.Quote(pair.theirs))
		}
	}
}
