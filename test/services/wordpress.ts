import { remembered } from './live-stage.ts';
import {
  allPages,
  call,
  type Edit,
  type JsonObject,
  keyedBy,
  listOf,
  type LiveService,
  textAt,
} from './live-service.ts';

const BASE = 'http://127.0.0.1:4140';
const SIZE = 100;
const LIVE = 'publish,future,draft,pending,private';

/** Posts in all states but the trash, and what stands around them. */
export function wordpress(): LiveService {
  const password = remembered('wordpress', 'app-password');
  const authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`;
  const api = async (path: string, init: Parameters<typeof call>[1] = {}) =>
    (await call(`${BASE}/wp-json/wp/v2${path}`, { ...init, headers: { authorization } })).json;
  const read = (resource: string, query: string): Promise<JsonObject[]> =>
    allPages(SIZE, async (page) => {
      try {
        return await api(`/${resource}?per_page=${SIZE}&page=${page}&orderby=id&order=asc${query}`);
      } catch (error) {
        // The page after a full last one.
        if (String(error).includes('invalid_page_number')) return [];
        throw error;
      }
    });
  const some = async (status: string, nth: number): Promise<string> =>
    textAt(listOf(await api(`/posts?status=${status}&per_page=50&orderby=id&order=asc`))[nth], 'id');
  const EDITS: Record<Edit, (nth: number) => Promise<unknown>> = {
    create: (nth) =>
      api('/posts', {
        method: 'POST',
        json: { title: `New ${nth} — ü`, content: `<p>New ${nth}</p>`, status: 'publish' },
      }),
    update: async (nth) =>
      api(`/posts/${await some('publish', nth)}`, { method: 'POST', json: { title: `Changed ${nth} “again”` } }),
    hide: async (nth) => api(`/posts/${await some('publish', nth)}`, { method: 'DELETE' }),
    // Some stay in the trash.
    show: async (nth) =>
      nth < 2 && api(`/posts/${await some('trash', 0)}`, { method: 'POST', json: { status: 'publish' } }),
    remove: async (nth) => api(`/posts/${await some('publish', nth)}?force=true`, { method: 'DELETE' }),
  };
  return {
    script: 'wordpress',
    version: 'WordPress 6.1.9',
    shrink: async (left) => {
      for (const post of (await read('posts', `&status=${LIVE},trash`)).slice(left)) {
        await api(`/posts/${textAt(post, 'id')}?force=true`, { method: 'DELETE' });
      }
    },
    profile: 'wordpress',
    baseUrl: BASE,
    auth: { type: 'basic', username: 'admin', password },
    compared: ['posts', 'pages', 'media', 'categories', 'tags', 'users', 'comments'],
    edited: 'posts',
    edits: ['create', 'update', 'hide', 'show', 'remove'],
    truth: async (resource) =>
      keyedBy('id', await read(resource, ['posts', 'pages'].includes(resource) ? `&status=${LIVE}` : '')),
    edit: async (edit, nth) => void (await EDITS[edit](nth)),
  };
}
