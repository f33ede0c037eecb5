import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ConfigError } from '../../model/errors.ts';
import type { ReceiverLimits } from './setup.ts';

/** Responses to bytes that never became a request, by Node's error code. */
const MALFORMED_STATUS: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};

const MAX_HEADER_BYTES = 16_384;
const MAX_HEADERS = 100;

/** Creates an HTTP server that limits everything that an unknown sender may take of it. */
export function createReceiverServer(
  limits: ReceiverLimits,
  connections: Connections,
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Server {
  const server = createServer({
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.checkMs,
    keepAliveTimeout: limits.keepAliveMs,
    maxHeaderSize: MAX_HEADER_BYTES,
    // Whatever the process was started with: a lenient parser lets a second request through.
    insecureHTTPParser: false,
    noDelay: true,
  });
  server.maxRequestsPerSocket = limits.requests;
  server.maxHeadersCount = MAX_HEADERS;
  server.on('connection', connections.opened);
  server.on('request', (request, response) => {
    if (!server.listening) response.shouldKeepAlive = false;
    handle(request, response);
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const status = MALFORMED_STATUS[error.code ?? ''] ?? '400 Bad Request';
    if (socket.destroyed || !socket.writable) socket.destroy();
    else socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () => socket.destroy());
  });
  return server;
}

/** Our error code and hint for each of Node's codes; `setting` holds host and port. */
const LISTEN_ERRORS: Readonly<Record<string, { code: string; hint: (setting: string) => string }>> = {
  EADDRINUSE: {
    code: 'address_in_use',
    hint: (setting) => `another program listens there: end it, or set another ${setting}.port`,
  },
  EACCES: {
    code: 'address_refused',
    hint: (setting) => `this user may not listen there: set a ${setting}.port of 1024 or more`,
  },
  EADDRNOTAVAIL: { code: 'address_unknown', hint: hostHint },
  ENOTFOUND: { code: 'address_unknown', hint: hostHint },
};

function hostHint(setting: string): string {
  return `set ${setting}.host to an address of this machine`;
}

/** Resolves with the port once it listens; rejects with a `ConfigError`, or with Node's own error for a rare cause. */
export async function listen(
  server: Server,
  { host, port }: { host: string; port: number },
  setting: 'serve' | 'worker',
): Promise<number> {
  server.listen({ host, port });
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    const known = LISTEN_ERRORS[error.code ?? ''];
    throw known === undefined ? error : new ConfigError(known.code, error.message, { hint: known.hint(setting) });
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

/** Keeps connections that only take up room from keeping others out. */
export interface Connections {
  opened: (socket: Socket) => void;
  /** Returns false if the connection has too many open requests, and was cut. */
  begin(request: IncomingMessage, response: ServerResponse): boolean;
  accepted(request: IncomingMessage): void;
  /** Returns true if the connection should be closed with this response. */
  refused(request: IncomingMessage): boolean;
}

/**
 * If all places are taken, closes the oldest connection that has sent nothing that was accepted. Also closes connections
 * on which many requests in a row were refused.
 */
export function guardConnections(limits: ReceiverLimits): Connections {
  const states = new Map<Socket, { openRequests: number; refusals: number; isAccepted: boolean }>();
  return {
    opened: (socket) => {
      if (states.size >= limits.connections) {
        const [oldest = socket] = states.entries().find(([, { isAccepted }]) => !isAccepted) ?? [];
        oldest.destroy();
      }
      states.set(socket, { openRequests: 0, refusals: 0, isAccepted: false });
      socket.once('close', () => states.delete(socket));
    },
    begin: ({ socket }, response) => {
      const state = states.get(socket);
      if (state === undefined || state.openRequests >= limits.pipelined) {
        socket.destroy();
        return false;
      }
      state.openRequests += 1;
      response.once('close', () => (state.openRequests -= 1));
      return true;
    },
    accepted: ({ socket }) => {
      const state = states.get(socket);
      if (state !== undefined) Object.assign(state, { refusals: 0, isAccepted: true });
    },
    refused: ({ socket }) => {
      const state = states.get(socket);
      if (state !== undefined) state.refusals += 1;
      return state === undefined || state.refusals >= limits.refusals;
    },
  };
}
