import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';

export interface Reply {
  status?: number;
  headers?: Record<string, string | string[]>;
  /** Sent as JSON, or as it is where it is a string. */
  body?: unknown;
}

/** Answers one request; `count` is 1 for the first request that the server got. */
export type Responder = (url: URL, count: number) => Reply;

export interface ListingServer {
  url: URL;
  /** Path and query of every request, in the order of arrival. */
  requests: string[];
  /** Most requests that were under way at once. */
  mostAtOnce(): number;
  /** Milliseconds before each answer. */
  delay: number;
}

/** A real HTTP server on a free port, closed with the test that started it. */
export async function startListing(respond: Responder): Promise<ListingServer> {
  let atOnce = 0;
  let most = 0;
  const server = createServer((incoming, outgoing) => {
    const url = new URL(incoming.url ?? '/', listing.url);
    listing.requests.push(url.pathname + url.search);
    most = Math.max(most, ++atOnce);
    const { status = 200, headers = {}, body } = respond(url, listing.requests.length);
    void sleep(listing.delay).then(() => {
      atOnce -= 1;
      outgoing.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body ?? null));
    });
  });
  const listing: ListingServer = { url: new URL('http://127.0.0.1'), requests: [], mostAtOnce: () => most, delay: 0 };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  listing.url = new URL(`http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return listing;
}
