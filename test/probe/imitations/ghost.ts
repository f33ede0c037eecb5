import {
  changeOf,
  cut,
  editIn,
  secondOf,
  somePosts,
  start,
  type Imitation,
  type Post,
  type Reply,
  SECRET,
  type FakeRecord,
} from './imitation.ts';

const TAGS = Array.from({ length: 12 }, (_, at): FakeRecord => ({
  id: `71b${String(at).padStart(21, '0')}`,
  name: `tag ${at}`,
  slug: `tag-${at}`,
}));

const stamp = (at: number): string => `${secondOf(at)}.000+00:00`;

function recordOf(post: Post): FakeRecord {
  return {
    id: `61a${String(post.n).padStart(21, '0')}`,
    uuid: `uuid-${post.n}`,
    title: post.title,
    slug: `post-${post.n}`,
    created_at: stamp(post.at),
    updated_at: stamp(changeOf(post)),
    published_at: stamp(post.at),
  };
}

/** A key in the query, addresses that end with a slash, and a filter that compares texts. */
export async function ghost(): Promise<Imitation> {
  const all = somePosts(130).filter(({ isDraft }) => !isDraft);
  const service = await start('/ghost/api/content', ({ url, path: [name = '', id], query }) => {
    if (name !== 'posts' && name !== 'tags') return refused(404, 'NotFoundError');
    if (!url.pathname.endsWith('/')) return { status: 301, headers: { location: `${url.pathname}/${url.search}` } };
    if (!query.has('key')) return refused(403, 'NoPermissionError');
    if (query.get('key') !== SECRET) return refused(401, 'UnauthorizedError');
    const rows = name === 'tags' ? TAGS : all.map(recordOf);
    if (id === undefined) return listed(name, query, name === 'tags' ? TAGS : all);
    const found = rows.find((row) => row['id'] === id);
    return found === undefined ? refused(404, 'NotFoundError') : { body: { [name]: [found] } };
  });
  return { ...service, records: (name) => (name === 'tags' ? TAGS : all.map(recordOf)), edit: editIn(all) };
}

function refused(status: number, type: string): Reply {
  return { status, body: { errors: [{ message: 'It is not so.', type }] } };
}

function listed(name: string, query: URLSearchParams, all: readonly Post[] | typeof TAGS): Reply {
  const text = query.get('filter');
  const [, field = '', since = ''] = /^(\w+):>='([^']*)'$/.exec(text ?? '') ?? [];
  if (text !== null && field === '') return refused(400, 'BadRequestError');
  const rows = all.flatMap((each) => {
    if (!isPost(each)) return [each];
    const isLate = secondOf(changeOf(each)).replace('T', ' ') >= since;
    return isLate ? [recordOf(each)] : [];
  });
  const [limit, page] = [Math.min(Number(query.get('limit') ?? 15), 100), Number(query.get('page') ?? 1)];
  const pages = Math.ceil(rows.length / limit);
  const next = page === pages || pages === 0 ? null : page + 1;
  const pagination = { page, limit, pages, total: rows.length, next, prev: page > 1 ? page - 1 : null };
  return { body: { [name]: cut(rows, page, limit), meta: { pagination } } };
}

function isPost(each: Post | FakeRecord): each is Post {
  return 'isDraft' in each;
}
