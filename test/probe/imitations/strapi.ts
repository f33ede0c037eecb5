import {
  changeOf,
  cut,
  editIn,
  momentIn,
  somePosts,
  start,
  START,
  type Imitation,
  type Post,
  type Reply,
  SECRET,
  type FakeRecord,
} from './imitation.ts';

const iso = (at: number): string => new Date(at).toISOString();

const TAGS = Array.from({ length: 12 }, (_, at): FakeRecord => ({
  id: at + 1,
  documentId: `abcd5c9w16utbklhxran${at + 100}`,
  name: `tag ${at}`,
  createdAt: iso(START),
  updatedAt: iso(START + at * 60_000),
}));

/** The number of the row is another one after each publish. */
function recordOf(post: Post): FakeRecord {
  return {
    id: post.n * 2 + (post.changed === null ? 0 : 1),
    documentId: `rrop5c9w16utbklhxran${1_000 + post.n}`,
    title: post.title,
    views: '15386',
    createdAt: iso(post.at),
    updatedAt: iso(changeOf(post)),
    locale: null,
  };
}

const PARAMETERS =
  /^(?:pagination\[(?:page|pageSize|start|limit|withCount)\]|filters\[.*|sort|fields\[\d+\]|populate|status|locale)$/;

/** Unknown parameters are refused, and a lasting id stands beside a number that changes. */
export async function strapi(): Promise<Imitation> {
  const all = somePosts(130).filter(({ isDraft }) => !isDraft);
  const service = await start('/api', ({ headers, path: [name, id], query }) => {
    if (name !== 'articles' && name !== 'tags') return refused(404, 'NotFoundError');
    if (headers.authorization === undefined) return refused(403, 'ForbiddenError');
    if (headers.authorization !== `Bearer ${SECRET}`) return refused(401, 'UnauthorizedError');
    const isStrange = [...query.keys()].some((key) => !PARAMETERS.test(key));
    if (isStrange || !['published', null].includes(query.get('status'))) return refused(400, 'ValidationError');
    const rows = name === 'tags' ? TAGS : all.map(recordOf);
    if (id === undefined) return listed(rows, query);
    const found = rows.find((row) => row['documentId'] === id);
    return found === undefined ? refused(404, 'NotFoundError') : { body: { data: found, meta: {} } };
  });
  return { ...service, records: (name) => (name === 'tags' ? TAGS : all.map(recordOf)), edit: editIn(all) };
}

function refused(status: number, name: string): Reply {
  return { status, body: { data: null, error: { status, name, message: name, details: {} } } };
}

function listed(rows: readonly FakeRecord[], query: URLSearchParams): Reply {
  const filter = [...query].find(([key]) => key.startsWith('filters['));
  if (filter !== undefined && filter[0] !== 'filters[updatedAt][$gte]') return refused(400, 'ValidationError');
  const found = rows.filter((row) => filter === undefined || momentIn(row, 'updatedAt') >= Date.parse(filter[1]));
  const size = Math.min(Number(query.get('pagination[pageSize]') ?? 25), 100);
  const page = Number(query.get('pagination[page]') ?? 1);
  const pagination = { page, pageSize: size, pageCount: Math.ceil(found.length / size), total: found.length };
  return { body: { data: cut(found, page, size), meta: { pagination } } };
}
