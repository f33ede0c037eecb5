import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { createPages, type PagesOptions } from '../../src/web/pages.ts';
import type { PageAnswer } from '../../src/web/page-request.ts';
import type { StatusSnapshot } from '../../src/serve/status/snapshot.ts';

/** The pages over real HTTP, as the receiver gives them out. */
export interface PageServer {
  url: string;
  /** Paths that were asked for, in order. */
  asked: string[];
  close(): Promise<void>;
}

/** Pages that always show what `snapshot` says; everything else may be laid over. */
export function pagesOf(snapshot: () => StatusSnapshot, options: Partial<PagesOptions> = {}) {
  return createPages({
    snapshot: async () => snapshot(),
    ready: async () => ({ ready: true, stopping: false, sources: { blog: 'ok' } }),
    details: async () => ({
      problem: null,
      verifications: [],
      runs: [],
      rejects: [],
      deliveries: null,
      schema_changes: [],
      pictures: [],
    }),
    tables: () => Promise.resolve([]),
    files: { find: () => Promise.resolve(null), read: () => Promise.reject(new Error('there is none')) },
    metrics: async () => 'up 1\n',
    door: () => Promise.resolve('in'),
    controls: () => null,
    failed: (error) => {
      throw error;
    },
    ...options,
  });
}

/** Serves on a free port of this machine; the port may be given, to come back on it. */
export async function servePages(pages: ReturnType<typeof createPages>, port = 0): Promise<PageServer> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(request.url ?? '/');
    void answered(pages, request).then(({ status, headers, body }) =>
      response.writeHead(status, { ...headers }).end(body),
    );
  });
  const bound = await listening(server, port);
  return {
    url: `http://127.0.0.1:${bound}/`,
    asked,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answered(pages: ReturnType<typeof createPages>, request: IncomingMessage): Promise<PageAnswer> {
  const { url: path = '/', headers, method = 'GET' } = request;
  if (method !== 'POST') return pages({ method: method === 'HEAD' ? 'HEAD' : 'GET', path, headers });
  const asked = await pages({ method, path, headers });
  return asked.status === 100 ? pages({ method, path, headers, body: await text(request) }) : asked;
}

function listening(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      const address = server.address();
      resolve(isAddress(address) ? address.port : 0);
    });
  });
}

function isAddress(address: string | AddressInfo | null): address is AddressInfo {
  return typeof address === 'object' && address !== null;
}
