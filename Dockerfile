# The images of Collection Operator:
#
#   docker build --target manager -t MANAGER_IMAGE .
#   docker build --target runtime -t RUNTIME_IMAGE .
#
# Target manager-minimal is a manager without tar, shell and package manager, for sites where nobody copies archives into its
# pod. All images run under any user ID in group 0. Neither was built with its real base image yet, see docs/limitations.md.

# The base images. hack/devcluster has stand-ins of the same names.
ARG GO_IMAGE=docker.io/library/golang:1.26.8
ARG UBI_IMAGE=registry.access.redhat.com/ubi9/ubi-minimal:9.7
# The operator that runs the playbooks, on the same UBI with ansible-core 2.18 and ansible-runner 2.4. internal/run/engine depends
# on its behaviour: read internal/run/engine/README.md before changing the version.
ARG ANSIBLE_OPERATOR=quay.io/operator-framework/ansible-operator:v1.42.2

# Labels. Red Hat's certification requires name, vendor, maintainer, version, release, summary and description.
ARG VERSION=0.1.0
ARG RELEASE=1
ARG VENDOR="Collection Operator maintainers"


FROM --platform=$BUILDPLATFORM $GO_IMAGE AS build
ARG TARGETOS=linux
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY LICENSE hack/licenses.sh ./
COPY api api
COPY cmd cmd
COPY config config
COPY internal internal
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags="-s -w" -o /out/bin/ ./cmd/manager ./cmd/engine ./cmd/zoscb-encrypt \
    && internal/run/engine/install.sh /out/engine --engine-binary /out/bin/engine \
    && ./licenses.sh /out/licenses /out/bin/manager /out/bin/engine /out/bin/zoscb-encrypt


FROM $UBI_IMAGE AS manager
# Clients that do not know the upload endpoint run `kubectl exec ... mkdir` and `kubectl cp`, which requires tar.
RUN microdnf install -y --nodocs --setopt=install_weak_deps=0 tar \
    && microdnf clean all \
    && mkdir -p /opt/collections \
    && chmod 0775 /opt/collections
COPY --from=build /out/licenses /licenses
COPY --from=build /out/bin/manager /manager
ARG VERSION
ARG RELEASE
ARG VENDOR
LABEL name="collection-operator/manager" \
      vendor="$VENDOR" \
      maintainer="$VENDOR" \
      version="$VERSION" \
      release="$RELEASE" \
      summary="Manager of Collection Operator" \
      description="Turns Ansible collections that follow the Operator Collection Specification into operators for z/OS" \
      io.k8s.display-name="Collection Operator" \
      io.k8s.description="Turns Ansible collections that follow the Operator Collection Specification into operators for z/OS" \
      io.openshift.tags="zos,ansible,operator" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:0
ENTRYPOINT ["/manager"]


FROM scratch AS manager-minimal
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/licenses /licenses
COPY --from=build /out/bin/manager /manager
ARG VERSION
ARG RELEASE
ARG VENDOR
LABEL name="collection-operator/manager-minimal" \
      vendor="$VENDOR" \
      maintainer="$VENDOR" \
      version="$VERSION" \
      release="$RELEASE" \
      summary="Manager of Collection Operator, without shell and tar" \
      description="Turns Ansible collections that follow the Operator Collection Specification into operators for z/OS" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 65532:0
ENTRYPOINT ["/manager"]


FROM $ANSIBLE_OPERATOR AS runtime
# Names and versions on Galaxy, or URLs and paths of tarballs.
ARG OPERATOR_SDK_UTIL=operator_sdk.util:0.5.0
ARG KUBERNETES_CORE="kubernetes.core:>=5.0.0,<6.0.0"
USER 0
# The base image has no SSH client. nss_wrapper provides a user name for any user ID, which ssh requires. `kubectl cp`, with which authors
# bring a key to zoscb-encrypt, requires tar.
RUN microdnf install -y --nodocs --setopt=install_weak_deps=0 openssh-clients nss_wrapper-libs tar \
    && microdnf clean all \
    && rm -rf /var/cache/dnf
# Not in /opt/ansible/collections, where a volume is mounted.
RUN ansible-galaxy collection install --collections-path /usr/share/ansible/collections "$OPERATOR_SDK_UTIL" "$KUBERNETES_CORE" \
    && rm -rf /opt/ansible/.ansible/galaxy_cache /tmp/*
COPY --from=build /out/licenses /licenses
COPY --from=build /out/engine/ /
# The init container of each operator runs this command.
COPY --from=build /out/bin/manager /usr/local/bin/manager
# Authors' tools run this command in the operator container.
COPY --from=build /out/bin/zoscb-encrypt /usr/local/bin/zoscb-encrypt
ARG VERSION
ARG RELEASE
ARG VENDOR
LABEL name="collection-operator/runtime" \
      vendor="$VENDOR" \
      maintainer="$VENDOR" \
      version="$VERSION" \
      release="$RELEASE" \
      summary="Runtime of the operators that Collection Operator installs" \
      description="Runs the playbooks of Ansible collections on z/OS systems: ansible-operator with a gate before every run" \
      io.k8s.display-name="Collection Operator runtime" \
      io.k8s.description="Runs the playbooks of Ansible collections on z/OS systems: ansible-operator with a gate before every run" \
      io.openshift.tags="zos,ansible,operator" \
      org.opencontainers.image.licenses="Apache-2.0"
USER 1001:0
ENTRYPOINT ["/opt/ansible/engine/entrypoint"]
