module github.com/collection-operator/collection-operator/hack/devcluster

go 1.26.0

require (
	github.com/opencontainers/go-digest v1.0.0
	github.com/opencontainers/image-spec v1.1.1
)

require golang.org/x/sync v0.24.0
