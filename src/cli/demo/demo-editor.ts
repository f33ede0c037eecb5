import { request } from 'undici';
import type { Sandbox } from '../../sandbox/sandbox.ts';

/** A post, as far as the demo looks into it. */
export interface Post {
  id: string;
  title: string;
}

function pathOf(id: string): string {
  return `content/${encodeURIComponent(id)}`;
}

export type DemoEditor = ReturnType<typeof demoEditor>;

/** The service as an editor's tool uses it: through its API, with the same key. */
export function demoEditor({ url, apiKey }: Sandbox) {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const ask = async (method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, record?: object): Promise<string> => {
    const body = record === undefined ? null : JSON.stringify(record);
    const answer = await request(`${url}/v1/${path}`, { method, headers, body });
    const text = await answer.body.text();
    if (answer.statusCode >= 300) throw new Error(`the sandbox answered ${answer.statusCode}: ${text}`);
    return text;
  };
  return {
    /** The first posts of the listing. */
    list: async (limit: number): Promise<Post[]> => JSON.parse(await ask('GET', `content?limit=${limit}`)).data,
    /** Returns the post that was made. */
    create: async (fields: Partial<Post> & { status: string }): Promise<Post> =>
      JSON.parse(await ask('POST', 'content', fields)),
    change: async (id: string, fields: object) => void (await ask('PATCH', pathOf(id), fields)),
    remove: async (id: string) => void (await ask('DELETE', pathOf(id))),
    /** Has the service send every change to an address. */
    subscribe: async (address: string, secret: string) =>
      void (await ask('POST', 'webhooks', { url: address, events: ['*'], secret })),
  };
}
