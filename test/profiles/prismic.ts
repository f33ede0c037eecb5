import type { JsonObject } from '../services/service-stage.ts';
import { named, NOT_FOUND, numeric, Shelf, timeOf, truthOf, type DocumentedService } from './documented-service.ts';

/** The moment in a predicate by date; NaN for any other predicate. */
function since(q: string | null): number {
  const [, text] = /^\[\[date\.after\(document\.last_publication_date,"([^"]+)"\)\]\]$/.exec(q ?? '') ?? [];
  return q === null ? -Infinity : Date.parse(text ?? '');
}

/** An open repository of Prismic: its ref is another one after each publication. */
export function prismic(): DocumentedService {
  const shelf = new Shelf(130, (n, rev, time) => ({
    id: named('X', n),
    uid: `post-${n}`,
    type: 'post',
    lang: 'en-us',
    first_publication_date: '2026-01-01T08:00:00+0000',
    last_publication_date: time.replace(/\.\d+Z/, '+0000'),
    data: { title: [{ type: 'heading1', text: `Title ${n}.${rev}` }] },
  }));
  const ref = (): string => named('Zref', shelf.seq);
  return {
    profile: 'prismic',
    auth: { type: 'session' },
    refused: null,
    resources: { documents: { page: { size: 50 } } },
    shelf,
    walks: 2,
    truth: () => ({ documents: truthOf(shelf.rows(), ({ id }) => id) }),
    answer: (url) => {
      if (url.pathname === '/api/v2') return { body: { refs: [{ id: 'master', ref: ref(), isMasterRef: true }] } };
      if (url.pathname !== '/api/v2/documents/search') return NOT_FOUND;
      const sent = url.searchParams.get('ref');
      if (sent === null) return { status: 400, body: { message: 'no ref' } };
      const from = since(url.searchParams.get('q'));
      if (Number.isNaN(from)) return { status: 400, body: { message: 'unexpected predicate' } };
      const rows = shelf.rows().filter((row: JsonObject) => timeOf(row, 'last_publication_date') > from);
      const [page, size] = [numeric(url, 'page', 1), numeric(url, 'pageSize', 20)];
      const results = rows.slice((page - 1) * size, page * size);
      const pages = Math.ceil(rows.length / size);
      const told = {
        page,
        results_per_page: size,
        results_size: results.length,
        total_results_size: rows.length,
        total_pages: pages,
      };
      return {
        body: { ...told, next_page: null, prev_page: null, results, version: '1', license: 'All Rights Reserved' },
      };
    },
  };
}
