import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createPages, type PagesOptions } from '../../src/web/pages.ts';
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
    tables: () => Promise.resolve([]),
    metrics: async () => 'up 1\n',
    door: () => Promise.resolve('in'),
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
    const { url = '/', headers } = request;
    asked.push(url);
    const method = request.method === 'HEAD' ? 'HEAD' : 'GET';
    const answered = pages({ method, path: url, headers });
    void answered.then(({ status, headers, body }) => response.writeHead(status, { ...headers }).end(body));
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
