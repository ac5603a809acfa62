package lint_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/lint"
)

func TestExactVersionsOfTheImagesCollections(t *testing.T) {
	for name, tt := range map[string]struct{ requirements, want string }{
		"exact and older": {"collections:\n- {name: operator_sdk.util, version: 0.4.0}\n",
			`operator_sdk.util 0.4.0 is downloaded when the pod starts, because the runtime image has 0.5.0 or newer; write version: ">=0.4.0"`},
		"with a sign":          {"- {name: kubernetes.core, version: '==2.4.0'}\n", `kubernetes.core 2.4.0 is downloaded when the pod starts, because the runtime image has 5.0.0 or newer; write version: ">=2.4.0"`},
		"range":                {"- {name: operator_sdk.util, version: '>=0.4.0'}\n", ""},
		"that of the image":    {"- {name: operator_sdk.util, version: 0.5.0}\n", ""},
		"any":                  {"- operator_sdk.util\n", ""},
		"of another one":       {"- {name: ibm.ibm_zos_core, version: 1.0.0}\n", ""},
		"there in the archive": {"- {name: operator_sdk.util, version: 0.4.0}\n- operator_sdk-util-0.4.0.tar.gz\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, err := lint.Check(folder(map[string]string{"requirements.yml": tt.requirements, "operator_sdk-util-0.4.0.tar.gz": "x"}))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, p := range problems {
				if p.Rule == "image-version" {
					got += p.Message
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("warning (-want +got):\n%s", diff)
			}
		})
	}
}

// The versions are those of the Dockerfile.
func TestImageVersionsAreThoseOfTheDockerfile(t *testing.T) {
	content, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, pinned := range []string{"operator_sdk.util:0.5.0", "kubernetes.core:>=5.0.0,"} {
		if !strings.Contains(string(content), pinned) {
			t.Errorf("the Dockerfile has no %s: change imageCollections", pinned)
		}
	}
}
