import { startListing } from '../../pagination/listing-server.ts';
import type { Records } from './records.ts';

/** A content service whose records and clock a test sets. */
export interface StoryService {
  url: string;
  records: Records;
  /** In its listing of posts, and no record that can be copied. */
  odd: unknown[];
  /** Epoch milliseconds; it tells them with every answer. */
  now: number;
}

/** Serves the three listings as the packaged profile expects them; gone when the test is over. */
export async function storyService(records: Records): Promise<StoryService> {
  const service: StoryService = { url: '', records, odd: [], now: 0 };
  const { url } = await startListing((asked) => {
    const body = answer(service, asked);
    const headers = { 'content-type': 'application/json', date: new Date(service.now).toUTCString() };
    return { status: body === null ? 404 : 200, headers, body: body ?? { error: 'not found' } };
  });
  return Object.assign(service, { url: url.origin });
}

function answer({ records, odd }: StoryService, { pathname, searchParams }: URL): unknown {
  const [, , resource = '', id] = pathname.split('/');
  if (resource !== 'content' && resource !== 'images' && resource !== 'analytics') return null;
  if (id !== undefined) return records[resource].get(decodeURIComponent(id)) ?? null;
  const since = searchParams.get('updated_since') ?? '';
  const all = [...records[resource].values()].filter(({ updated_at = '9' }) => updated_at >= since);
  const shown = resource === 'content' ? [...all, ...odd] : all;
  const from = Number(searchParams.get('cursor') ?? 0);
  const size = Number(searchParams.get('limit') ?? 100);
  const next = from + size < shown.length ? String(from + size) : null;
  return { data: shown.slice(from, from + size), next_cursor: next, total: shown.length };
}
