package render

func testCSVOptions(group string) ClusterServiceVersionOptions {
	return ClusterServiceVersionOptions{
		Group: group, Digest: testDigest, Image: "registry.example/runtime@" + testDigest,
		Architectures:  []string{"s390x", "ppc64le", "amd64", "arm64"},
		ServedVersions: map[string]string{"Neighbour": "v3minor1patch0"},
	}
}
