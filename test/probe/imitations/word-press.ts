import {
  changeOf,
  cut,
  editIn,
  secondOf,
  somePosts,
  start,
  textIn,
  type Asked,
  type Imitation,
  type Post,
  type Reply,
  SECRET,
  USER,
  type FakeRecord,
} from './imitation.ts';

const zurich = new Intl.DateTimeFormat('sv-SE', { timeZone: 'Europe/Zurich', dateStyle: 'short', timeStyle: 'medium' });
const local = (at: number): string => zurich.format(at).replace(' ', 'T');
const KNOWN = `Basic ${Buffer.from(`${USER}:${SECRET}`).toString('base64')}`;

const TAGS = Array.from({ length: 12 }, (_, at): FakeRecord => ({
  id: 50 + at,
  count: at,
  name: `tag ${at}`,
  slug: `tag-${at}`,
  meta: [],
}));

function recordOf(post: Post): FakeRecord {
  return {
    id: post.n,
    date: local(post.at),
    date_gmt: secondOf(post.at),
    modified: local(changeOf(post)),
    modified_gmt: secondOf(changeOf(post)),
    slug: `post-${post.n}`,
    status: post.isDraft ? 'draft' : 'publish',
    title: { rendered: post.title },
    _links: { self: [{ href: `https://example.com/${post.n}` }] },
  };
}

/** Bare lists with counts in headers; a wrong credential is answered as none; local times beside those in UTC. */
export async function wordPress(): Promise<Imitation> {
  const all = somePosts(130);
  const service = await start('/wp-json/wp/v2', (asked) => {
    const [name, id] = asked.path;
    const isKnown = asked.headers.authorization === KNOWN;
    if (name === undefined) return { body: index() };
    if (name === 'users') return isKnown ? { body: { id: 1, name: USER } } : refused(401, 'rest_not_logged_in');
    if (name !== 'posts' && name !== 'tags') return refused(404, 'rest_no_route');
    const rows = name === 'tags' ? TAGS : all.map(recordOf);
    if (id === undefined) return listed(asked, rows, isKnown);
    const found = rows.find((row) => textIn(row, 'id') === id);
    return found === undefined ? refused(404, 'rest_post_invalid_id') : { body: found };
  });
  return { ...service, records: (name) => (name === 'tags' ? TAGS : all.map(recordOf)), edit: editIn(all) };
}

function index(): object {
  const names = ['', '/posts', '/posts/(?P<id>[\\d]+)', '/tags', '/users/me', '/types', '/settings'];
  const args = { page: {}, per_page: {}, modified_after: {}, search: {} };
  const routes = names.map((name) => [`/wp/v2${name}`, { methods: ['GET'], endpoints: [{ args }] }]);
  return { namespace: 'wp/v2', routes: Object.fromEntries(routes) };
}

function refused(status: number, code: string): Reply {
  return { status, body: { code, message: 'It is not so.', data: { status } } };
}

function listed({ url, query }: Asked, rows: readonly FakeRecord[], isKnown: boolean): Reply {
  const state = query.get('status') ?? 'publish';
  const hasStates = rows !== TAGS;
  if (hasStates && state !== 'publish' && !(isKnown && state === 'any')) return refused(400, 'rest_invalid_param');
  const after = hasStates ? query.get('modified_after') : null;
  const found = rows
    .filter((row) => !hasStates || state === 'any' || row['status'] === 'publish')
    .filter((row) => after === null || Date.parse(`${textIn(row, 'modified_gmt')}Z`) > Date.parse(after));
  const [size, page] = [Number(query.get('per_page') ?? 10), Number(query.get('page') ?? 1)];
  const pages = Math.ceil(found.length / size);
  if (size > 100) return refused(400, 'rest_invalid_param');
  if (page > Math.max(pages, 1)) return refused(400, 'rest_post_invalid_page_number');
  const next = new URL(url);
  next.searchParams.set('page', String(page + 1));
  const link = page < pages ? { link: `<${next.href}>; rel="next"` } : {};
  const counts = { 'x-wp-total': String(found.length), 'x-wp-totalpages': String(pages) };
  return { headers: { ...counts, ...link }, body: cut(found, page, size) };
}
