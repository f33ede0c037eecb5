import { createServer, type IncomingHttpHeaders } from 'node:http';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';

export interface Reply {
  status?: number;
  headers?: Record<string, string | string[]>;
  /** Sent as JSON, or as it is where it is a string. */
  body?: unknown;
}

/** What a request has besides its address. */
export interface Asked {
  method: string;
  headers: IncomingHttpHeaders;
  body: string;
}

/** Answers one request; `count` is 1 for the first request that the server got. */
export type Responder = (url: URL, count: number, asked?: Asked) => Reply;

export interface ListingServer {
  url: URL;
  /** Path and query of every request, in the order of arrival. */
  requests: string[];
  /** Milliseconds before each answer. */
  delay: number;
}

/** A real HTTP server on a free port, closed with the test that started it. */
export async function startListing(respond: Responder): Promise<ListingServer> {
  const server = createServer(async (incoming, outgoing) => {
    const { method = '', headers: sent } = incoming;
    const asked = { method, headers: sent, body: await text(incoming) };
    const url = new URL(incoming.url ?? '/', listing.url);
    listing.requests.push(url.pathname + url.search);
    const { status = 200, headers = {}, body } = respond(url, listing.requests.length, asked);
    setTimeout(() => {
      outgoing.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body ?? null));
    }, listing.delay);
  });
  const listing: ListingServer = { url: new URL('http://127.0.0.1'), requests: [], delay: 0 };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  listing.url = new URL(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return listing;
}
