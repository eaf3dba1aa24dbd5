# syntax=docker/dockerfile:1
# Turno in a container: docs/install.md says how it is run, and how the first access token is made.

FROM rust:1.95-slim-trixie AS build
WORKDIR /src
COPY . .
# What was downloaded and compiled is kept between builds, outside of the image.
RUN --mount=type=cache,target=/usr/local/cargo/registry,sharing=locked \
    --mount=type=cache,target=/src/target,sharing=locked \
    cargo build --locked --profile dist --bin turno \
    && cp target/dist/turno /usr/local/bin/turno

FROM debian:trixie-slim
# Brokers, webhooks and collectors are verified with the system's certificates.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 7117 --home-dir /var/lib/turno --shell /usr/sbin/nologin turno \
    && install --directory --owner=turno --group=turno --mode=700 /var/lib/turno
COPY --from=build /usr/local/bin/turno /usr/local/bin/turno

# By number, for those who want to see that it is not root.
USER 7117
# The store is `sqlite:turno.db` in this folder, and `turno.toml` is read from here, unless they are named.
WORKDIR /var/lib/turno
VOLUME ["/var/lib/turno"]
# A container's own loopback address is nobody else's. On this one, it does not start before a token was made.
ENV TURNO_LISTEN=0.0.0.0:7117 \
    TURNO_LOG_FORMAT=json
EXPOSE 7117
# Whether the process lives; a store that is down is not mended by a new container.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/${TURNO_LISTEN##*:} && printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]
ENTRYPOINT ["turno"]
CMD ["serve"]
