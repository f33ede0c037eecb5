import type { Reply } from '../pagination/listing-server.ts';
import type { JsonObject } from '../services/service-stage.ts';
import {
  named,
  NOT_FOUND,
  numberIn,
  sends,
  Shelf,
  timeOf,
  truthOf,
  UNAUTHORISED,
  type DocumentedService,
} from './documented-service.ts';

const VERSION = '/v2025-02-19';

/** Sanity's query API, as far as it understands the conditions of a listing by id, type and time. */
export function sanity(): DocumentedService {
  const shelf = new Shelf(230, (n, rev, time) => ({
    _id: named('post-', n),
    _type: 'post',
    _rev: `r${rev}`,
    _createdAt: '2026-01-01T08:00:00Z',
    _updatedAt: time.replace(/\.\d+Z/, 'Z'),
    title: `Title ${n}.${rev}`,
  }));
  const query = ({ searchParams }: URL): Reply => {
    const groq = searchParams.get('query') ?? '';
    const parameter = (name: string): string | null => searchParams.get(name);
    const missing = [...groq.matchAll(/\$[a-z]+/g)].find(([name]) => parameter(name) === null);
    if (missing !== undefined)
      return { status: 400, body: { error: { description: `param ${missing[0]} referenced, but not provided` } } };
    const value = (name: string): string => String(JSON.parse(parameter(name) ?? '""'));
    const meets = (record: JsonObject): boolean => {
      if (groq.includes('_id > $last') && textOf(record['_id']) <= value('$last')) return false;
      if (groq.includes('_updatedAt >= $since') && timeOf(record, '_updatedAt') < Date.parse(value('$since')))
        return false;
      return value('$type') === '*' || record['_type'] === value('$type');
    };
    const most = Number(/\[0\.\.\.(\d+)\]$/.exec(groq)?.[1] ?? 0);
    return { body: { ms: 3, query: groq, result: shelf.rows().filter(meets).slice(0, most) } };
  };
  return {
    profile: 'sanity',
    auth: { type: 'bearer', token: 'sanity-token-viewer' },
    refused: { type: 'bearer', token: 'sanity-token-nobody' },
    shelf,
    walks: 1,
    truth: () => ({ documents: truthOf(shelf.rows(), ({ _id }) => _id) }),
    answer: (url, asked) => {
      if (!sends(asked, 'authorization', 'Bearer sanity-token-viewer')) return UNAUTHORISED;
      if (url.pathname === `${VERSION}/data/query/production`) return query(url);
      const id = new RegExp(`^${VERSION}/data/doc/production/([^/]+)$`).exec(url.pathname)?.[1];
      if (id === undefined) return NOT_FOUND;
      const record = shelf.one(numberIn(id));
      if (record === undefined) return { body: { documents: [], omitted: [{ id, reason: 'existence' }] } };
      return { body: { documents: [record], omitted: [] } };
    },
  };
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
