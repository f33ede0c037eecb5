import type { JsonObject } from '../services/service-stage.ts';
import {
  found,
  named,
  NOT_FOUND,
  numberIn,
  numeric,
  sends,
  Shelf,
  truthOf,
  UNAUTHORISED,
  type DocumentedService,
} from './documented-service.ts';

function changedAt(row: JsonObject): number {
  const [, time = '2026-01-01T08:00:00Z'] = /"updated_at":"([^"]+)"/.exec(JSON.stringify(row)) ?? [];
  return Date.parse(time);
}

/** Those that changed since the moment in the request. */
function changed(url: URL, rows: JsonObject[]): JsonObject[] {
  const since = Date.parse(url.searchParams.get('filter[fields][_updated_at][gte]') ?? '1970-01-01T00:00:00Z');
  return rows.filter((row) => changedAt(row) >= since);
}

/** DatoCMS's Content Management API: JSON:API with offsets. */
export function datocms(): DocumentedService {
  const shelf = new Shelf(130, (n, rev, time) => ({
    id: named('item', n),
    type: 'item',
    attributes: { title: `Title ${n}.${rev}` },
    relationships: { item_type: { data: { id: 'm1', type: 'item_type' } } },
    meta: { created_at: '2026-01-01T09:00:00.000+01:00', updated_at: time, status: 'draft' },
  }));
  const uploads = [1, 2].map((n) => ({
    id: `u${n}`,
    type: 'upload',
    attributes: { filename: `${n}.png`, updated_at: '2026-01-02T09:00:00.000Z' },
  }));
  const models = [{ id: 'm1', type: 'item_type', attributes: { api_key: 'post', modular_block: false } }];
  return {
    profile: 'datocms',
    auth: { type: 'bearer', token: 'dato-token-full' },
    refused: { type: 'bearer', token: 'dato-token-none' },
    resources: { records: { page: { size: 50 } } },
    shelf,
    walks: 1,
    truth: () => ({
      records: truthOf(shelf.rows(), ({ id }) => id),
      uploads: truthOf(uploads, ({ id }) => id),
      models: truthOf(models, ({ id }) => id),
    }),
    answer: (url, asked) => {
      if (!sends(asked, 'authorization', 'Bearer dato-token-full')) return UNAUTHORISED;
      if (!sends(asked, 'x-api-version', '3')) return { status: 400, body: { data: [] } };
      const [, what = '', id] = url.pathname.split('/');
      const rows = { items: shelf.rows(), uploads, 'item-types': models }[what];
      if (rows === undefined) return NOT_FOUND;
      const one = what === 'items' ? shelf.one(numberIn(id)) : rows.find((row) => row['id'] === id);
      if (id !== undefined) return found(one, (data) => ({ data }));
      const [from, size] = [numeric(url, 'page[offset]', 0), numeric(url, 'page[limit]', 30)];
      const listed = changed(url, rows);
      const data = what === 'item-types' ? listed : listed.slice(from, from + size);
      return { body: { data, meta: { total_count: listed.length } } };
    },
  };
}
