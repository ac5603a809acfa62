# Two images from one file:
#
#   docker build --target manager -t MANAGER_IMAGE .
#   docker build --target runtime -t RUNTIME_IMAGE .
#
# Both run under any user ID in group 0. Neither was built with its real base image yet, see docs/limitations.md.

# The operator that runs the playbooks, on UBI 9 with ansible-core 2.18 and ansible-runner 2.4. internal/engine depends on
# its behaviour: read internal/engine/README.md before changing the version.
ARG ANSIBLE_OPERATOR=quay.io/operator-framework/ansible-operator:v1.42.2

FROM --platform=$BUILDPLATFORM docker.io/library/golang:1.26 AS build
ARG TARGETOS=linux
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY config config
COPY internal internal
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags="-s -w" -o /out/bin/ ./cmd/manager ./cmd/engine
RUN internal/engine/install.sh /out/engine --engine-binary /out/bin/engine


FROM registry.access.redhat.com/ubi9/ubi-minimal:latest AS manager
# Clients upload archives with `kubectl exec ... mkdir` and `kubectl cp`, which requires tar.
RUN microdnf install -y --nodocs --setopt=install_weak_deps=0 tar \
    && microdnf clean all \
    && mkdir -p /opt/collections \
    && chmod 0775 /opt/collections
COPY --from=build /out/bin/manager /manager
USER 65532:0
ENTRYPOINT ["/manager"]


FROM ${ANSIBLE_OPERATOR} AS runtime
ARG OPERATOR_SDK_UTIL=operator_sdk.util:0.5.0
ARG KUBERNETES_CORE="kubernetes.core:>=5.0.0,<6.0.0"
USER 0
# The base image has no SSH client. nss_wrapper provides a user name for any user ID, which ssh requires.
RUN microdnf install -y --nodocs --setopt=install_weak_deps=0 openssh-clients nss_wrapper-libs \
    && microdnf clean all \
    && rm -rf /var/cache/dnf
# Not in /opt/ansible/collections, where a volume is mounted.
RUN ansible-galaxy collection install --collections-path /usr/share/ansible/collections "$OPERATOR_SDK_UTIL" "$KUBERNETES_CORE" \
    && rm -rf /opt/ansible/.ansible/galaxy_cache /tmp/*
COPY --from=build /out/engine/ /
# The init container of each operator runs this command.
COPY --from=build /out/bin/manager /usr/local/bin/manager
USER 1001:0
ENTRYPOINT ["/opt/ansible/engine/entrypoint"]
