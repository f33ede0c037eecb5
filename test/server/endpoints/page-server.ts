import { systemClock } from '../../../src/observe/system-clock.ts';
import { createPages, type Pages, type PagesOptions } from '../../../src/server/endpoints/status-pages.ts';
import { startReceiver } from '../../../src/server/receiver/start-receiver.ts';
import type { StatusSnapshot } from '../../../src/server/status/snapshot.ts';

/** The pages over real HTTP, as the receiver gives them out. */
export interface PageServer {
  url: string;
  /** Paths that were asked for, in order. */
  asked: string[];
  close(): Promise<void>;
}

/** Pages that always show what `snapshot` says; everything else may be laid over. */
export function pagesOf(snapshot: () => StatusSnapshot, options: Partial<PagesOptions> = {}): Pages {
  return createPages({
    snapshot: async () => snapshot(),
    ready: async () => ({ ready: true, stopping: false, sources: { blog: 'ok' } }),
    details: async () => ({
      problem: null,
      runs: [],
      rejects: [],
      deliveries: null,
      schema_changes: [],
    }),
    metrics: async () => 'up 1\n',
    access: () => Promise.resolve('granted'),
    failed: (error) => {
      throw error;
    },
    ...options,
  });
}

/** A response of the pages, as tests compare it. */
export interface Asked {
  status: number;
  headers: Record<string, string>;
  body: string;
}

interface AskOptions {
  method?: string;
  headers?: Record<string, string>;
}

/** Requests a page without a server. */
export async function ask(pages: Pages, path: string, { method, headers }: AskOptions = {}): Promise<Asked> {
  const request = new Request(`http://localhost${path}`, { method: method ?? 'GET', headers: headers ?? {} });
  const response = await pages(request);
  return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.text() };
}

/** Serves on a free port of this machine; the port may be given, to come back on it. */
export async function servePages(pages: Pages, port = 0): Promise<PageServer> {
  const asked: string[] = [];
  const receiver = await startReceiver({
    serve: { host: '127.0.0.1', port },
    sources: [],
    clock: systemClock,
    pages: (request) => {
      const { pathname, search } = new URL(request.url);
      asked.push(`${pathname}${search}`);
      return pages(request);
    },
    onArrival: () => undefined,
    onAnswer: () => undefined,
    onNote: (note) => console.error(note),
    limits: { closeMs: 0 },
  });
  return { url: `${receiver.url}/`, asked, close: () => receiver.close() };
}
