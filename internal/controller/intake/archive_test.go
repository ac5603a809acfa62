package intake

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

func TestBlockedArchivesAreBounded(t *testing.T) {
	var b blockedArchives
	one, two := client.ObjectKey{Name: "one"}, client.ObjectKey{Name: "two"}
	large, small := &v2beta2.Artifact{Digest: "large", Size: maxBlockedBytes}, &v2beta2.Artifact{Digest: "small", Size: 1}
	for i, step := range []struct {
		key    client.ObjectKey
		keep   *v2beta2.Artifact
		former string
		kept   bool
	}{
		{one, small, "", true},
		{one, small, "small", true},
		{two, large, "", false},
		{one, nil, "small", false},
		{two, large, "", true},
		{one, small, "", false},
		{two, small, "large", true},
		{one, small, "", true},
	} {
		former, kept := b.keep(step.key, step.keep, nil)
		was := ""
		if former.Artifact != nil {
			was = former.Artifact.Digest
		}
		if was != step.former || kept != step.kept {
			t.Errorf("step %d: former %q, kept %v", i, was, kept)
		}
	}
}
