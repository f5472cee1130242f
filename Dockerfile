# syntax=docker/dockerfile:1

# A static binary in an image with nothing else: no shell, no package manager, no writable path.
FROM rust:1.95-alpine AS build
# aws-lc needs a C compiler and cmake; everything is linked statically on musl.
RUN apk add --no-cache build-base cmake perl
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/target \
    CARGO_TARGET_DIR=/target cargo build --release --locked --package helm-operator \
    && install -D -m 0555 /target/release/helm-operator /image/usr/local/bin/helm-operator \
    # Where volumes are mounted; the owner is the user below.
    && install -d -m 0700 -o 65532 -g 65532 /image/var/cache/helm-operator /image/home/nonroot \
    && install -d -m 1777 /image/tmp

# Certificates, time zones and the user `nonroot`, nothing that can be run.
FROM gcr.io/distroless/static-debian12:nonroot
LABEL org.opencontainers.image.title="helm-operator" \
      org.opencontainers.image.description="Keeps Helm releases equal to what git says" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image/ /
USER 65532:65532
ENV HOME=/home/nonroot
EXPOSE 3030
# Only these need to be writable; deploy/install.yaml mounts them and makes the rest read-only.
VOLUME ["/var/cache/helm-operator", "/tmp"]
ENTRYPOINT ["/usr/local/bin/helm-operator"]
CMD ["run"]
