import type { PageAnswer, PageRequest } from './page-request.ts';
import { createPages, type PagesOptions } from './pages.ts';

export type WorkerPagesOptions = Pick<PagesOptions, 'ready' | 'metrics' | 'door' | 'failed'>;

/** Pages of `worker`; it answers `/healthz` as well, which needs no page. */
const PAGES: ReadonlySet<string> = new Set(['/metrics', '/readyz']);

/** Pages of a process that shows no status of its own. The returned function never throws. */
export function createWorkerPages(options: WorkerPagesOptions): (request: PageRequest) => Promise<PageAnswer> {
  const pages = createPages({
    ...options,
    snapshot: noPage,
    details: noPage,
    tables: noPage,
    files: { find: noPage, read: noPage },
    controls: () => null,
  });
  return (request) => {
    const [path = ''] = request.path.split('?', 1);
    return pages(PAGES.has(path) ? request : { ...request, path: '/none' });
  };
}

function noPage(): Promise<never> {
  return Promise.reject(new Error('a worker has no such page'));
}
