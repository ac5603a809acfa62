package images

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var one, two = "sha256:" + strings.Repeat("1", 64), "sha256:" + strings.Repeat("2", 64)

func TestList(t *testing.T) {
	for name, test := range map[string]struct {
		objects  []string
		want     []string
		problems []string
	}{
		"nothing": {},
		"containers by digest": {
			objects: []string{"{kind: StatefulSet, spec: {template: {spec: {initContainers: [{name: a, image: r/a@" + one + "}], containers: [{name: b, image: 'r:5000/b@" + two + "'}]}}}}"},
			want:    []string{"r/a@" + one, "r:5000/b@" + two},
		},
		"the same image twice": {
			objects: []string{"{kind: Pod, spec: {containers: [{name: a, image: r/a@" + one + "}]}}", "{kind: OperatorCollection, spec: {runtime: {image: r/a@" + one + "}}}"},
			want:    []string{"r/a@" + one},
		},
		"a tag beside a digest": {
			objects: []string{"{kind: Pod, spec: {containers: [{name: a, image: 'r:5000/a:v1@" + one + "'}, {name: b, image: 'r:5000/a@" + one + "'}]}}"},
			want:    []string{"r:5000/a@" + one},
		},
		"a tag whose digest a node knows": {
			objects: []string{
				"{kind: Deployment, spec: {template: {spec: {containers: [{name: a, image: 'r:5000/a:v1'}]}}}}",
				"{kind: Pod, spec: {containers: [{name: a, image: 'r:5000/a:v1'}]}, status: {containerStatuses: [{name: a, image: 'x/y:z', imageID: 'docker-pullable://r:5000/a@" + one + "'}]}}",
			},
			want: []string{"r:5000/a@" + one},
		},
		"a tag that two nodes pulled at different times": {
			objects: []string{
				"{kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: r/a}]}, status: {containerStatuses: [{name: a, imageID: 'r/a@" + one + "'}]}}",
				"{kind: Pod, metadata: {name: b}, spec: {initContainers: [{name: a, image: r/a}]}, status: {initContainerStatuses: [{name: a, imageID: 'r/a@" + two + "'}]}}",
			},
			want: []string{"r/a@" + one, "r/a@" + two},
		},
		"an image that was loaded into a node": {
			objects:  []string{"{kind: Pod, spec: {containers: [{name: a, image: 'r/a:dev'}]}, status: {containerStatuses: [{name: a, imageID: '" + one + "'}]}}"},
			want:     []string{"r/a:dev"},
			problems: []string{"r/a:dev has no digest: a tag may be another image tomorrow"},
		},
		"settings, related images and a catalog": {
			objects: []string{
				"{kind: ConfigMap, data: {runtime-image: r/a@" + one + ", galaxy-url: 'https://image'}}",
				"{kind: StatefulSet, spec: {template: {spec: {containers: [{env: [{name: RUNTIME_IMAGE, value: r/a@" + two + "}]}]}}}}",
				"{kind: ClusterServiceVersion, spec: {relatedImages: [{name: manager, image: r/b@" + one + "}], install: {spec: {deployments: [{spec: {template: {spec: {containers: [{env: [{name: RELATED_IMAGE_RUNTIME, value: r/c@" + one + "}, {name: OTHER, value: r/no}]}]}}}}]}}}}",
				"{schema: olm.bundle, image: r/d@" + one + ", relatedImages: [{image: r/e@" + one + "}]}",
				"{kind: CatalogSource, spec: {image: r/f@" + one + "}}",
			},
			want: []string{"r/a@" + one, "r/a@" + two, "r/b@" + one, "r/c@" + one, "r/d@" + one, "r/e@" + one, "r/f@" + one},
		},
		"a schema": {objects: []string{"{kind: CustomResourceDefinition, spec: {versions: [{schema: {properties: {image: {default: r/a}}}}], image: r/a}}"}},
		"no references": {
			objects:  []string{`{kind: Deployment, spec: {containers: [{image: "$(reboot)"}, {image: "a b"}, {image: ""}, {image: "-f"}, {image: 7}]}}`},
			problems: []string{`"$(reboot)" is left out: it is no reference to an image`, `"-f" is left out: it is no reference to an image`, `"a b" is left out: it is no reference to an image`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var list List
			for _, text := range test.objects {
				var object map[string]any
				if err := yaml.Unmarshal([]byte(text), &object); err != nil {
					t.Fatal(err)
				}
				list.AddObject(object)
			}
			if diff := cmp.Diff(test.want, list.References()); diff != "" {
				t.Errorf("references (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.problems, list.Problems()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
