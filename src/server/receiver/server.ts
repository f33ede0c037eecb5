import { type IncomingMessage, type ServerResponse, createServer, type Server } from 'node:http';
import type { Socket } from 'node:net';
import type { ReceiverLimits } from './setup.ts';
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { ConfigError } from '../../model/errors.ts';

export interface ServerHandlers {
  connection: (socket: Socket) => void;
  /** `invite` lets a sender go on that asks before it sends its body. */
  request: (request: IncomingMessage, response: ServerResponse, invite: () => void) => void;
  /** Called for an expectation that no receiver meets. */
  unexpected: (request: IncomingMessage, response: ServerResponse) => void;
}

/** Answers to what never became a request, by Node's code. */
const MALFORMED: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};

const MAX_HEADER_BYTES = 16_384;
const MAX_HEADERS = 100;

/** Node's server, with bounds on everything that a stranger may take of it. */
export function createReceiverServer(limits: ReceiverLimits, handlers: ServerHandlers): Server {
  const server = createServer({
    headersTimeout: limits.headersMs,
    requestTimeout: limits.requestMs,
    connectionsCheckingInterval: limits.checkMs,
    keepAliveTimeout: limits.keepAliveMs,
    maxHeaderSize: MAX_HEADER_BYTES,
    // Whatever the process was started with: what one parser forgives, the next one reads as a second request.
    insecureHTTPParser: false,
    noDelay: true,
  });
  server.maxRequestsPerSocket = limits.requests;
  server.maxHeadersCount = MAX_HEADERS;
  server.on('connection', handlers.connection);
  server.on('request', (request, response) => handlers.request(request, response, () => undefined));
  server.on('checkContinue', (request, response) =>
    handlers.request(request, response, () => response.writeContinue()),
  );
  server.on('checkExpectation', handlers.unexpected);
  server.on('clientError', (error: NodeJS.ErrnoException, socket) =>
    cut(socket, MALFORMED[error.code ?? ''] ?? '400 Bad Request'),
  );
  return server;
}

function cut(socket: Duplex, status: string): void {
  if (socket.destroyed || !socket.writable) return void socket.destroy();
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () => socket.destroy());
}

/** Why an address cannot be listened on, by Node's own code; `setting` holds host and port. */
const LISTEN_FAULTS: Readonly<Record<string, { code: string; hint: (setting: string) => string }>> = {
  EADDRINUSE: {
    code: 'address_in_use',
    hint: (setting) => `another program listens there: end it, or set another ${setting}.port`,
  },
  EACCES: {
    code: 'address_refused',
    hint: (setting) => `this user may not listen there: set a ${setting}.port of 1024 or more`,
  },
  EADDRNOTAVAIL: { code: 'address_unknown', hint: ownAddress },
  ENOTFOUND: { code: 'address_unknown', hint: ownAddress },
};

function ownAddress(setting: string): string {
  return `set ${setting}.host to an address of this machine`;
}

interface ListenAddress {
  host: string;
  port: number;
  /** The setting that holds host and port, for messages. */
  setting: 'serve' | 'worker';
}

/** Resolves with the port once it listens; rejects with a `ConfigError`, or with Node's own error for a rare cause. */
export async function listen(server: Server, { host, port, setting }: ListenAddress): Promise<number> {
  server.listen({ host, port });
  await once(server, 'listening').catch((error: NodeJS.ErrnoException) => {
    const known = LISTEN_FAULTS[error.code ?? ''];
    throw known === undefined ? error : new ConfigError(known.code, error.message, { hint: known.hint(setting) });
  });
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : port;
}

/** Takes nothing new, lets open requests end, and cuts those that have not after `graceMs`. */
export async function closeServer(server: Server, graceMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), graceMs);
  await promise;
  clearTimeout(timer);
}

interface ConnectionState {
  /** Requests that are not answered yet. */
  open: number;
  /** In a row, since the last one that was not refused. */
  refused: number;
}

/** Keeps connections that only take up room from keeping others out. */
export interface Connections {
  opened: (socket: Socket) => void;
  /** False if the connection asks for more at once than anybody honest does, and was cut. */
  begin(request: IncomingMessage, response: ServerResponse): boolean;
  believed(request: IncomingMessage): void;
  /** True if the connection should be closed with this answer. */
  refused(request: IncomingMessage): boolean;
}

/**
 * If all places are taken, the connection goes that has waited longest without having sent anything that was believed,
 * rather than the new one. A connection on which everything is refused is closed after a while.
 */
export function guardConnections(limits: ReceiverLimits): Connections {
  const known = new Map<Socket, ConnectionState>();
  // In the order in which they came.
  const unproven = new Set<Socket>();

  return {
    opened: (socket) => {
      if (known.size >= limits.connections) {
        const [oldest = socket] = unproven;
        oldest.destroy();
      }
      known.set(socket, { open: 0, refused: 0 });
      unproven.add(socket);
      socket.once('close', () => {
        known.delete(socket);
        unproven.delete(socket);
      });
    },
    begin: ({ socket }, response) => {
      const state = known.get(socket);
      if (state === undefined || state.open >= limits.pipelined) {
        socket.destroy();
        return false;
      }
      state.open += 1;
      response.once('close', () => (state.open -= 1));
      return true;
    },
    believed: ({ socket }) => {
      const state = known.get(socket);
      if (state === undefined) return;
      state.refused = 0;
      unproven.delete(socket);
    },
    refused: ({ socket }) => {
      const state = known.get(socket);
      if (state === undefined) return true;
      state.refused += 1;
      return state.refused >= limits.refusals;
    },
  };
}
