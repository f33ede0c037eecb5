import { createServer, type IncomingHttpHeaders } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { FaultScript } from '../sandbox/service/faults/fault-script.ts';
import { sampled } from '../support/length.ts';
import {
  endsOf,
  expectWholeCopy,
  type FaultRow,
  onStage,
  rowsIn,
  type StageOptions,
  testFaults,
  useOauth,
} from './stage.ts';
import { portOf } from './port-of.ts';

const REFUSED: readonly [what: string, to: string, code: string][] = [
  ['a file', 'file:///etc/passwd', 'origin_refused'],
  ['gopher', 'gopher://127.0.0.1:70/_GET', 'origin_refused'],
  ['data', 'data:application/json,{"data":[],"next_cursor":null}', 'origin_refused'],
  ['itself for ever', 'self', 'too_many_redirects'],
  ['a user name at home', 'http://user:pass@127.0.0.1/', 'origin_refused'],
  ['no URL', 'http://[', 'origin_refused'],
];

/** A second origin that must not see anything of value. */
async function withCanary(play: (origin: string, seen: IncomingHttpHeaders[]) => Promise<void>): Promise<void> {
  const seen: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    seen.push({ ...request.headers, 'x-url': request.url });
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[],"next_cursor":null}');
  });
  const port = await portOf(server);
  try {
    await play(`http://127.0.0.1:${port}`, seen);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

describe('the service redirects', () => {
  testFaults([
    ...REFUSED.flatMap(([what, to, code], at): FaultRow[] =>
      sampled([302, 307], 2, at).map((status) => ({
        title: `F205 with ${status} to ${what}`,
        faults: [{ fault: 'redirect', page: 2, to, status }],
        ends: `failed ${code}`,
        rows: 4,
      })),
    ),
    {
      title: 'F205 over 21 hops',
      faults: [{ fault: 'redirect', page: 2, hops: 21 }],
      ends: 'failed too_many_redirects',
      rows: 4,
    },
    { title: 'F205 over two hops at home', faults: [{ fault: 'redirect', page: 2, hops: 2 }], ends: 'ok' },
  ]);

  it.concurrent('F206 T7 to another origin: refused, and not one request goes there', async () => {
    const headers = { 'X-Api-Key': 'profile-secret-0815', Cookie: 'session=cookie-secret' };
    await withCanary(async (origin, seen) => {
      await onStage({ profile: { headers } }, async (stage) => {
        stage.sandbox.faults.add({ fault: 'redirect', page: 2, to: `${origin}/v1/content`, resource: 'content' });
        const ended = await stage.backfill();
        expect(endsOf(ended)).toEqual({ content: 'failed origin_refused', images: 'ok', analytics: 'ok' });
        expect([seen, await rowsIn(stage)]).toEqual([[], 4]);
        stage.sandbox.faults.clear();
        expect((await stage.sync()).code).toBe(0);
        await expectWholeCopy(stage);
      });
    });
  });

  it.concurrent('F207 to http from https is refused by the client’s own tests; here: a next link to http from https', async () => {
    const byUrl = { sandbox: { pagination: 'next-url' }, resource: { page: { style: 'next-url', size: 4 } } } as const;
    await onStage(byUrl, async (stage) => {
      const { host } = new URL(stage.sandbox.url);
      stage.sandbox.faults.add({ fault: 'foreign-next', resource: 'content', to: `https://${host}{path}`, page: 1 });
      expect(endsOf(await stage.backfill('content'))).toEqual({ content: 'failed origin_refused' });
    });
  });

  it.concurrent.each(sampled([302, 307, 308], 2))(
    'F208 the token endpoint with %i: the client secret stays at home',
    async (status) => {
      await withCanary(async (origin, seen) => {
        await onStage({}, async (stage) => {
          useOauth(stage);
          stage.sandbox.faults.add({ fault: 'redirect', resource: 'oauth', to: `${origin}/oauth/token`, status });
          const ended = await stage.backfill();
          expect(new Set(Object.values(endsOf(ended)))).toEqual(new Set(['failed bad_token']));
          expect([seen, ended.code]).toEqual([[], 1]);
          // Refused once, for all three resources.
          expect(stage.sandbox.requests.total).toBe(1);
        });
      });
    },
  );

  const BREAKS: readonly [what: string, options: StageOptions, fault: FaultScript, code: string][] = [
    ['a cursor', {}, { fault: 'field', name: 'next_cursor', value: '"a\\r\\nX-Evil: 1"' }, 'pagination_invalid'],
    [
      'a next URL',
      { sandbox: { pagination: 'next-url' }, resource: { page: { style: 'next-url', size: 4 } } },
      { fault: 'field', name: 'next', value: '"/v1/content?cursor=a\\r\\nX-Evil: 1"' },
      'pagination_invalid',
    ],
    [
      'a next URL, escaped',
      { sandbox: { pagination: 'next-url' }, resource: { page: { style: 'next-url', size: 4 } } },
      { fault: 'field', name: 'next', value: '"/v1/content?cursor=a%0d%0aX-Evil:%201"' },
      'bad_query_value',
    ],
  ];
  it.concurrent.each(BREAKS)(
    'F210 a line break in %s is refused before anything is sent',
    async (_what, options, fault, code) => {
      await onStage(options, async (stage) => {
        stage.sandbox.faults.add({ resource: 'content', page: 1, ...fault });
        expect(endsOf(await stage.backfill('content'))).toEqual({ content: `failed ${code}` });
        expect(stage.sandbox.requests.total).toBe(1);
      });
    },
  );
});
