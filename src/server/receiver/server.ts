// The HTTP server of webhooks and pages, with limits on the resources that an unknown client can use.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { ConfigError } from '../../model/errors.ts';
import type { ReceiverLimits } from './setup.ts';

const MAX_HEADER_BYTES = 16_384;
const MAX_HEADERS = 100;

export function createReceiverServer(
  limits: ReceiverLimits,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  const server = createServer({
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.checkIntervalMs,
    keepAliveTimeout: limits.keepAliveMs,
    maxHeaderSize: MAX_HEADER_BYTES,
    // A lenient parser lets a second request through; an option of Node may have enabled it.
    insecureHTTPParser: false,
    noDelay: true,
  });
  server.maxConnections = limits.connections;
  server.maxRequestsPerSocket = limits.requestsPerConnection;
  server.maxHeadersCount = MAX_HEADERS;
  server.on('request', (request, response) => {
    if (!server.listening) response.shouldKeepAlive = false;
    handle(request, response);
  });
  return server;
}

/** The hint for each of Node's codes; `setting` is the one that holds host and port. */
const LISTEN_HINTS: Readonly<Record<string, (setting: string) => string>> = {
  EADDRINUSE: (setting) => `another program listens there: end it, or set another ${setting}.port`,
  EACCES: (setting) => `this user may not listen there: set a ${setting}.port of 1024 or more`,
  EADDRNOTAVAIL: hostHint,
  ENOTFOUND: hostHint,
};

function hostHint(setting: string): string {
  return `set ${setting}.host to an address of this machine`;
}

/** Resolves with the port once it listens; rejects with a `ConfigError`, or with an error of Node for a rare cause. */
export async function listen(
  server: Server,
  { host, port }: { host: string; port: number },
  setting: 'serve' | 'worker',
): Promise<number> {
  server.listen({ host, port });
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    const hint = LISTEN_HINTS[error.code ?? ''];
    throw hint === undefined ? error : new ConfigError('address_in_use', error.message, { hint: hint(setting) });
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

/** Accepts nothing new, lets open requests end, and cuts those that have not ended after `graceMs`. */
export async function closeServer(server: Server, graceMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), graceMs);
  await promise;
  clearTimeout(timer);
}
