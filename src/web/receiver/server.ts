import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ReceiverLimits } from './setup.ts';

export interface ServerHandlers {
  connection: (socket: Socket) => void;
  /** `invite` lets a sender go on that asks before it sends its body. */
  request: (request: IncomingMessage, response: ServerResponse, invite: () => void) => void;
  /** What asks for something that no receiver does. */
  unexpected: (request: IncomingMessage, response: ServerResponse) => void;
  /** What is no HTTP, or too slow: it was answered and cut. */
  malformed: (reason: string) => void;
}

/** Answers to what never became a request, by Node's code. */
const MALFORMED: Readonly<Record<string, { status: string; reason: string }>> = {
  HPE_HEADER_OVERFLOW: { status: '431 Request Header Fields Too Large', reason: 'headers_too_large' },
  ERR_HTTP_REQUEST_TIMEOUT: { status: '408 Request Timeout', reason: 'too_slow' },
  ECONNRESET: { status: '400 Bad Request', reason: 'connection_lost' },
};
const BAD_REQUEST = { status: '400 Bad Request', reason: 'malformed' };

const MAX_HEADER_BYTES = 16_384;
const MAX_HEADERS = 100;

/** Node's server, with bounds on everything that a stranger may take of it. */
export function createReceiverServer(limits: ReceiverLimits, hearers: ServerHandlers): Server {
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
  server.on('connection', hearers.connection);
  server.on('request', (request, response) => hearers.request(request, response, () => undefined));
  server.on('checkContinue', (request, response) => hearers.request(request, response, () => response.writeContinue()));
  server.on('checkExpectation', hearers.unexpected);
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const { status, reason } = MALFORMED[error.code ?? ''] ?? BAD_REQUEST;
    hearers.malformed(reason);
    cut(socket, status);
  });
  return server;
}

function cut(socket: Duplex, status: string): void {
  if (socket.destroyed || !socket.writable) return void socket.destroy();
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`, () => socket.destroy());
}

/** Resolves with the port once it listens; rejects with Node's error where it cannot. */
export function listen(server: Server, host: string, port: number): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  server.once('error', reject);
  server.listen({ host, port }, () => {
    const address = server.address();
    server.off('error', reject);
    resolve(typeof address === 'object' && address !== null ? address.port : port);
  });
  return promise;
}

/** Takes nothing new, lets what is in hand end, and cuts what has not after `graceMs`. */
export async function closeServer(server: Server, graceMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  const timer = setTimeout(() => server.closeAllConnections(), graceMs);
  await promise;
  clearTimeout(timer);
}
