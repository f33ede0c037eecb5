# The Node that package.json pins for development.
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
# No install script is needed: SQLite's binary is inside its package, and Node is the image's own.
RUN npm ci --ignore-scripts
COPY src src
COPY migrations migrations
COPY test/package/build.ts test/package/plain-letters.ts test/package/prune-modules.ts test/package/
RUN node test/package/build.ts
# The build contains every library except SQLite.
RUN node test/package/prune-modules.ts node_modules

FROM node:24.21.0-bookworm-slim
LABEL org.opencontainers.image.title="content-sync" \
  org.opencontainers.image.description="Keeps a SQL copy of a content service: its content, images and analytics." \
  org.opencontainers.image.version="0.2.0" \
  org.opencontainers.image.base.name="docker.io/library/node:24.21.0-bookworm-slim"
# With one allocation arena, glibc does not hold about 20 MB of freed memory for V8's threads.
ENV NODE_ENV=production CONTENT_SYNC_CONFIG=/etc/content-sync/content-sync.yaml MALLOC_ARENA_MAX=1
COPY --from=build /build/node_modules /app/node_modules
COPY --from=build /build/dist /app/dist
COPY package.json /app/
COPY config /app/config
# The only folder that is written: `warehouse: sqlite:data/{source}.db` is relative to it. The root may be read-only.
RUN install -d -o node -g node /var/lib/content-sync
VOLUME /var/lib/content-sync
WORKDIR /var/lib/content-sync
USER node
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["node", "/app/dist/src/main.js", "health"]
# Diagnostic reports of Node would otherwise contain the environment, and so the secrets.
ENTRYPOINT ["node", "--report-exclude-env", "/app/dist/src/main.js"]
CMD ["serve", "--host", "0.0.0.0"]
