# Same Node as package.json pins for development.
FROM node:24.21.0-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json tsconfig.json ./
# No install script is needed: SQLite's binary is inside its package, and Node is the image's own.
RUN npm ci --ignore-scripts
COPY src src
COPY migrations migrations
RUN node node_modules/typescript/bin/tsc -p tsconfig.json

FROM node:24.21.0-bookworm-slim AS dependencies
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --omit=dev --ignore-scripts

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
HEALTHCHECK --interval=60s --timeout=10s CMD ["node", "/app/dist/src/main.js", "status"]
ENTRYPOINT ["node", "/app/dist/src/main.js"]
CMD ["sync"]
