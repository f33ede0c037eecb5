# Same Node as package.json pins for development.
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
# No install script is needed: SQLite's binary is inside its package, and Node is the image's own.
RUN npm ci --ignore-scripts
COPY src src
COPY migrations migrations
COPY test/package/build.ts test/package/bundled-licences.ts test/package/
RUN node test/package/build.ts

FROM node:24.21.0-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts
COPY test/package/prune-modules.ts test/package/
RUN node test/package/prune-modules.ts node_modules

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production CONTENT_SYNC_CONFIG=/etc/content-sync/content-sync.yaml
COPY --from=dependencies /app/node_modules /app/node_modules
COPY --from=build /build/dist /app/dist
COPY package.json /app/
COPY config /app/config
# The one place that is written: `warehouse: sqlite:data/{source}.db` lands here. The root may be read-only.
RUN install -d -o node -g node /var/lib/content-sync
VOLUME /var/lib/content-sync
WORKDIR /var/lib/content-sync
USER node
EXPOSE 8080
# Of the port in the config, of `serve` or of `worker`; a container that runs another command is over before it is asked.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["node", "/app/dist/src/main.js", "health"]
# Reports that Node writes by itself would hold the environment, and so the secrets.
ENTRYPOINT ["node", "--report-exclude-env", "/app/dist/src/main.js"]
CMD ["serve", "--host", "0.0.0.0"]
