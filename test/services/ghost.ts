import { createHmac } from 'node:crypto';
import type { Json } from '../support/expected-rows.ts';
import { remembered } from './live-stage.ts';
import {
  allPages,
  call,
  type Edit,
  type JsonObject,
  keyedBy,
  listOf,
  type LiveService,
  objectOf,
  textAt,
} from './live-service.ts';

const BASE = 'http://127.0.0.1:4130';
const SIZE = 100;
const text = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Parameters of a listing beside those of its pages. */
const QUERIES: Record<string, string> = {
  posts: 'include=tags,authors&formats=html,plaintext',
  pages: 'include=tags,authors&formats=html,plaintext',
  tags: 'include=count.posts',
  authors: 'include=count.posts',
  users: 'include=count.posts',
};

/** The same service, read as visitors may (`content`) and as its owner (`admin`). */
export function ghost(api: 'content' | 'admin'): LiveService {
  const { contentKey, adminKey }: Record<string, string> = JSON.parse(remembered('ghost', 'state.json'));
  const asOwner = (): Record<string, string> => ({
    authorization: `Ghost ${token(adminKey ?? '')}`,
    'accept-version': 'v6.0',
  });
  const admin = async (path: string, init: Parameters<typeof call>[1] = {}) =>
    (await call(`${BASE}/ghost/api/admin${path}`, { ...init, headers: asOwner() })).json;
  const read = async (resource: string): Promise<JsonObject[]> =>
    allPages(SIZE, async (page) => {
      const query = `${QUERIES[resource] ?? ''}&limit=${SIZE}&page=${page}&order=id%20asc`;
      const { json } =
        api === 'content'
          ? await call(`${BASE}/ghost/api/content/${resource}/?key=${contentKey}&${query}`)
          : { json: await admin(`/${resource}/?${query}`) };
      return objectOf(json)[resource] ?? null;
    });
  const some = async (filter: string, nth: number): Promise<JsonObject> => {
    const { posts } = objectOf(
      await admin(`/posts/?limit=50&filter=${encodeURIComponent(filter)}&fields=id,updated_at,title`),
    );
    return listOf(posts)[nth] ?? listOf(posts)[0] ?? {};
  };
  const put = async (filter: string, nth: number, fields: JsonObject): Promise<void> => {
    const post = await some(filter, nth);
    const { updated_at = null } = post;
    await admin(`/posts/${textAt(post, 'id')}/`, { method: 'PUT', json: { posts: [{ ...fields, updated_at }] } });
  };
  const EDITS: Record<Edit, (nth: number) => Promise<unknown>> = {
    create: (nth) =>
      admin('/posts/?source=html', {
        method: 'POST',
        json: {
          posts: [
            { title: `New ${nth} — ü`, html: `<p>New ${nth}</p>`, status: 'published', tags: [{ name: 'News' }] },
          ],
        },
      }),
    update: (nth) => put('status:published', nth, { title: `Changed ${nth} “again”` }),
    hide: (nth) => put('status:published', nth, { status: 'draft' }),
    show: (nth) => put('status:draft', nth, { status: 'published' }),
    remove: async (nth) => admin(`/posts/${textAt(await some('status:published', nth), 'id')}/`, { method: 'DELETE' }),
  };
  return {
    script: 'ghost',
    version: 'Ghost 6.65.0',
    shrink: (left) => shrink(admin, read, left),
    profile: api === 'content' ? 'ghost' : 'ghost-admin',
    baseUrl: BASE,
    auth: api === 'content' ? { type: 'api_key', key: contentKey } : { type: 'jwt', key: adminKey },
    compared: api === 'content' ? ['posts', 'pages', 'tags', 'authors'] : ['posts', 'pages', 'tags', 'users'],
    edited: 'posts',
    edits: ['create', 'update', 'hide', 'show', 'remove'],
    truth: async (resource) => keyedBy('id', await read(resource)),
    edit: async (edit, nth) => void (await EDITS[edit](nth)),
  };
}

function token(key: string): string {
  const [kid = '', secret = ''] = key.split(':');
  const now = Math.floor(Date.now() / 1_000);
  const head = `${text({ alg: 'HS256', typ: 'JWT', kid })}.${text({ iat: now, exp: now + 300, aud: '/admin/' })}`;
  return `${head}.${createHmac('sha256', Buffer.from(secret, 'hex')).update(head).digest('base64url')}`;
}

type Admin = (path: string, init?: Parameters<typeof call>[1]) => Promise<Json>;

/** What a recording compares is kept first: of the Content API that is what is published. */
async function shrink(admin: Admin, read: (resource: string) => Promise<JsonObject[]>, left: number): Promise<void> {
  const all = await read('posts');
  const shown = await allPages(
    SIZE,
    async (page) =>
      objectOf(await admin(`/posts/?limit=${SIZE}&page=${page}&fields=id,status&order=id%20asc`))['posts'] ?? null,
  );
  const kept = new Set(all.slice(0, left).map((post) => textAt(post, 'id')));
  for (const id of shown.map((post) => textAt(post, 'id')).filter((each) => !kept.has(each))) {
    await admin(`/posts/${id}/`, { method: 'DELETE' });
  }
}
