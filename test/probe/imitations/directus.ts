import {
  editIn,
  momentIn,
  somePosts,
  start,
  textIn,
  type Imitation,
  type Post,
  type Reply,
  SECRET,
  type FakeRecord,
} from './imitation.ts';

const iso = (at: number): string => new Date(at).toISOString();
const TAGS = Array.from({ length: 12 }, (_, at): FakeRecord => ({ id: at + 1, name: `tag ${at}` }));

function recordOf(post: Post): FakeRecord {
  return {
    id: `012f${String(1_000 + post.n)}-aaaa-4bbb-8ccc-0123456789ab`,
    title: post.title,
    state: post.isDraft ? 'draft' : 'published',
    date_created: iso(post.at),
    date_updated: post.changed === null ? null : iso(post.changed),
  };
}

/** The time of change is null until the first one, all that is unknown is forbidden, and no total is told. */
export async function directus(): Promise<Imitation> {
  const all = somePosts(130);
  const service = await start('', ({ headers, path: [root, name, id], query }) => {
    const given = headers.authorization ?? query.get('access_token');
    if (![null, SECRET, `Bearer ${SECRET}`].includes(given)) return refused(401, 'INVALID_CREDENTIALS');
    if (root === 'server' && id === 'oas') return { body: document(given !== null) };
    if (root !== 'items' || (name !== 'articles' && name !== 'tags') || given === null)
      return refused(403, 'FORBIDDEN');
    const rows = name === 'tags' ? TAGS : all.map(recordOf);
    if (id === undefined) return listed(rows, query);
    const found = rows.find((row) => textIn(row, 'id') === id);
    return found === undefined ? refused(403, 'FORBIDDEN') : { body: { data: found } };
  });
  return { ...service, records: (name) => (name === 'tags' ? TAGS : all.map(recordOf)), edit: editIn(all) };
}

/** What the caller may see of the API. */
function document(isKnown: boolean): object {
  const paths = ['/items/articles', '/items/articles/{id}', '/items/tags', '/items/tags/{id}', '/users', '/activity'];
  const known = isKnown ? paths.map((path) => [path, { get: {} }]) : [];
  return { openapi: '3.0.1', servers: [{ url: '/' }], paths: Object.fromEntries(known) };
}

function refused(status: number, code: string): Reply {
  return { status, body: { errors: [{ message: 'It is not so.', extensions: { code } }] } };
}

interface Condition {
  field: string;
  value: string;
  isEither: boolean;
}

function listed(rows: readonly FakeRecord[], query: URLSearchParams): Reply {
  const conditions = [...query].flatMap(([key, value]): Condition[] => {
    const field = /\[(\w+)\]\[_gte\]$/.exec(key)?.[1] ?? '';
    return key.startsWith('filter[') ? [{ field, value, isEither: key.startsWith('filter[_or]') }] : [];
  });
  if (conditions.some(({ field }) => !Object.hasOwn(rows[0] ?? {}, field))) return refused(403, 'FORBIDDEN');
  const either = conditions.filter(({ isEither }) => isEither);
  const all = conditions.filter(({ isEither }) => !isEither);
  const found = rows.filter(
    (row) => all.every((each) => meets(row, each)) && (either.length === 0 || either.some((each) => meets(row, each))),
  );
  const [limit, page] = [Number(query.get('limit') ?? 100), Number(query.get('page') ?? 1)];
  const from = Number(query.get('offset') ?? (page - 1) * limit);
  return { body: { data: found.slice(from, from + limit) } };
}

function meets(row: FakeRecord, { field, value }: Condition): boolean {
  return row[field] !== null && momentIn(row, field) >= Date.parse(value);
}
