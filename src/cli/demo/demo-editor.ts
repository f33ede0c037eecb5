import { request } from 'undici';
import type { Sandbox } from '../../sandbox/sandbox.ts';

/** A post, as far as the demo looks into it. */
export interface Post {
  id: string;
  title: string;
}

/** The service as an editor's tool uses it: through its API, with the same key. */
export interface DemoEditor {
  /** The first posts of the listing. */
  list(limit: number): Promise<Post[]>;
  /** The post that was made. */
  create(fields: Partial<Post> & { status: string }): Promise<Post>;
  change(id: string, fields: object): Promise<void>;
  remove(id: string): Promise<void>;
  /** Has the service tell of every change. */
  subscribe(url: string, secret: string): Promise<void>;
}

function pathOf(id: string): string {
  return `content/${encodeURIComponent(id)}`;
}

export function demoEditor({ url, apiKey }: Sandbox): DemoEditor {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const ask = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, record?: object): Promise<string> => {
    const body = record === undefined ? null : JSON.stringify(record);
    const answer = await request(`${url}/v1/${path}`, { method, headers, body });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`the sandbox answered ${answer.statusCode}: ${text}`);
    return text;
  };
  return {
    list: async (limit) => JSON.parse(await ask('GET', `content?limit=${limit}`)).data,
    create: async (fields) => JSON.parse(await ask('POST', 'content', fields)),
    change: async (id, fields) => void (await ask('PATCH', pathOf(id), fields)),
    remove: async (id) => void (await ask('DELETE', pathOf(id))),
    subscribe: async (address, secret) => void (await ask('POST', 'webhooks', { url: address, events: ['*'], secret })),
  };
}
