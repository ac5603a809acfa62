package lint

import (
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

var ruleExtension = rules.Info("extension", "", "Every key and type is one of the Operator Collection Specification: other brokers ignore or refuse what is not.")

// notSpecified is the end of the description of a key that the specification does not have.
const notSpecified = "Not in the specification."

// maxConfigBytes bounds what is read of an operator-config. [model.Load] refuses larger ones.
const maxConfigBytes = 1 << 20

// checkPortability hints at the keys and types of an operator-config that the Operator Collection Specification does not have.
// What cannot be read is for [model.Read] to report.
func checkPortability(fsys fs.FS) findings.Problems {
	r := findings.NewReporter()
	for _, name := range model.ConfigFiles() {
		if root, ok := readMapping(fsys, name); ok {
			hintExtensions(r, root)
		}
	}
	r.Problems.Sort()
	return r.Problems
}

func readMapping(fsys fs.FS, name string) (findings.Mapping, bool) {
	f, err := fsys.Open(name)
	if err != nil {
		return findings.Mapping{}, false
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxConfigBytes))
	if err != nil {
		return findings.Mapping{}, false
	}
	doc, ok := findings.NewReporter().ParseDocument(name, content)
	if !ok {
		return findings.Mapping{}, false
	}
	return doc.Mapping()
}

func hintExtensions(r *findings.Reporter, root findings.Mapping) {
	hintKeys(r, root, rootSchemas())
	integers := 0
	for _, item := range root.Get("resources").List() {
		resource, ok := item.Mapping()
		if !ok {
			continue
		}
		hintKeys(r, resource, resourceSchemas())
		for _, v := range resource.Get("vars").List() {
			integers += hintIntegers(r, v, integers)
		}
	}
}

// hintKeys hints at the keys of a mapping that are not in the specification.
func hintKeys(r *findings.Reporter, m findings.Mapping, known keySchemas) {
	for _, key := range slices.Sorted(maps.Keys(known)) {
		description, _ := known[key]["description"].(string)
		if v := m.Get(key); strings.HasSuffix(description, notSpecified) && !v.Blank() {
			r.Report(v.Place(), ruleExtension, "%s is not in the Operator Collection Specification: other brokers may ignore it", key)
		}
	}
}

// hintIntegers hints at the first integer of a collection only, since most have many. It returns how many a variable and its
// fields are.
func hintIntegers(r *findings.Reporter, v findings.Value, before int) int {
	m, ok := v.Mapping()
	if !ok {
		return 0
	}
	found := 0
	if t, _ := m.Get("type").Scalar(); t == string(model.Integer) {
		if before == 0 {
			r.Report(m.Get("type").Place(), ruleExtension, "integer is not in the Operator Collection Specification: other brokers may refuse it; number is the type that all know")
		}
		found++
	}
	for _, field := range m.Get("objectVariables").List() {
		found += hintIntegers(r, field, before+found)
	}
	return found
}

var ruleImageVersion = rules.Warning("image-version", "", "Requirements ask for no exact version of a collection that the runtime image has in a newer one: it would have to be downloaded.")

// imageCollections are the collections of the runtime image, with the oldest version that it may have (Dockerfile).
var imageCollections = map[string]string{"operator_sdk.util": "0.5.0", "kubernetes.core": "5.0.0"}

// checkImageVersions warns of exact versions that keep the pods from using the collections of the runtime image.
func checkImageVersions(c *model.Collection) findings.Problems {
	var problems findings.Problems
	for _, r := range c.Dependencies.Collections {
		image, known := imageCollections[r.Name]
		exact, err := semver.NewVersion(strings.TrimLeft(r.Version, "="))
		if !known || err != nil || !exact.LessThan(semver.MustParse(image)) {
			continue
		}
		offered := slices.ContainsFunc(c.Dependencies.Collections, func(other model.Requirement) bool {
			return other.Type == model.FromFile && strings.Contains(other.Name, strings.ReplaceAll(r.Name, ".", "-")+"-")
		})
		if !offered {
			problems = append(problems, ruleImageVersion.At(findings.Problem{File: r.File},
				"%s %s is downloaded when the pod starts, because the runtime image has %s or newer; write version: \">=%s\"", r.Name, exact, image, exact))
		}
	}
	return problems
}
