package lint

import (
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

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
