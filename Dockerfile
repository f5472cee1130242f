# syntax=docker/dockerfile:1

# A static binary and the ssh program in an image with nothing else: no shell, no package manager, no writable path.
FROM rust:1.95-alpine AS build
# aws-lc needs a C compiler and cmake; everything is linked statically on musl.
RUN apk add --no-cache build-base cmake perl
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/target \
    CARGO_TARGET_DIR=/target cargo build --release --locked --package helm-operator \
    && install -D -m 0555 /target/release/helm-operator /image/usr/local/bin/helm-operator

# The root file system: certificates, and ssh for git over SSH with the libraries that it needs. `--root` installs no
# shell; what belongs to the package manager is removed.
RUN apk add --no-cache --no-scripts --root /image --initdb \
        --keys-dir /etc/apk/keys --repositories-file /etc/apk/repositories \
        ca-certificates-bundle openssh-client-default \
    && rm -rf /image/lib/apk /image/etc/apk /image/var/cache /image/usr/bin/ssh-keygen \
    # ssh refuses a user without an entry.
    && echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' > /image/etc/passwd \
    && echo 'nonroot:x:65532:' > /image/etc/group \
    # Where volumes are mounted.
    && install -d -m 0700 -o 65532 -g 65532 /image/var/cache/helm-operator /image/home/nonroot \
    && install -d -m 1777 /image/tmp

FROM scratch
LABEL org.opencontainers.image.title="helm-operator" \
      org.opencontainers.image.description="Keeps Helm releases equal to what git says" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image/ /
USER 65532:65532
ENV HOME=/home/nonroot \
    PATH=/usr/local/bin:/usr/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt
EXPOSE 3030
# Only these need to be writable; deploy/install.yaml mounts them and makes the rest read-only.
VOLUME ["/var/cache/helm-operator", "/tmp"]
ENTRYPOINT ["/usr/local/bin/helm-operator"]
CMD ["run", "--cache-dir=/var/cache/helm-operator"]
