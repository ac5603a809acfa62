package crdplan

import (
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Rewritten says for which CRDs custom resources are rewritten, and how far, or "".
func Rewritten(definitions []apiextensionsv1.CustomResourceDefinition) string {
	var texts []string
	for i := range definitions {
		if recorded := crd.RewritingOf(&definitions[i]); recorded != nil {
			texts = append(texts, definitions[i].Name+": "+recorded.String())
		}
	}
	if texts == nil {
		return ""
	}
	slices.Sort(texts)
	return "custom resources are being rewritten, so that old versions of their CRDs can end: " + status.JoinNames(texts)
}
