import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { signatureSchema } from '../../src/config/profile/signature-scheme.ts';
import { parseMetrics } from '../observe/prometheus-text.ts';
import type { Answered } from '../support/raw-request.ts';
import { signDelivery } from '../support/sign-delivery.ts';
import { rowsIn } from '../support/temp-warehouse.ts';
import { serveUntilEnd } from './port-of.ts';
import { type Asked, type Ending, type ServeProcess, signed, startServe, until, writeYaml } from './serve-stage.ts';

const WHSEC = `whsec_${Buffer.alloc(30, 5).toString('base64')}`;
const HUBSPOT = 'a-client-secret-of-hubspot';
const PUBLIC_URL = 'https://hooks.example.com/webhooks/signed-url';

/** Markup, terminal escapes, line breaks and characters that turn the reading direction. */
const HOSTILE =
  `"><script>window.broken=1</script><img src=x onerror="window.broken=1"><a href="javascript:broken()">` +
  `\u001b[31m\u001b]0;title\u0007\r\nInjected: header\u2028\u202e\u2066txt.exe`;
/** What no line of a log and no page may hold as it is. */
const CONTROL = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
/** Ids that are also names of what every object has. */
const INHERITED = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf'];

const JSON_TYPE = { 'content-type': 'application/json' };

/** A service of which one resource answers with hostile errors, and the other with records whose ids and fields are. */
async function hostileService(ending: Ending): Promise<string> {
  const ids = [...INHERITED, HOSTILE];
  const recordOf = (id: string): object =>
    Object.fromEntries([
      ['id', id],
      [HOSTILE, HOSTILE],
      ['constructor', 'c'],
    ]);
  const server = createServer((request, response) => {
    const url = decodeURIComponent(request.url ?? '');
    const id = /^\/v1\/images\/([^?]+)/s.exec(url)?.[1];
    const isListing = url.startsWith('/v1/images?');
    response.writeHead(isListing || id !== undefined ? 200 : 400, { ...JSON_TYPE, 'x-request-id': '\u009b31m"><b>' });
    if (isListing)
      response.end(
        JSON.stringify({
          data: [...ids, 5.5].map((one) => (typeof one === 'string' ? recordOf(one) : { id: one })),
          next_cursor: null,
        }),
      );
    else response.end(JSON.stringify(id === undefined ? { title: HOSTILE, detail: HOSTILE } : recordOf(id)));
  });
  return serveUntilEnd(server, ending);
}

type OutsideStage = ServeProcess & { folder: string };

/** `serve` with three sources that receive webhooks, one of them by a scheme that signs the address. */
async function outsideStage(
  serve: object = {},
  args: readonly string[] = [],
  ending: Ending = onTestFinished,
): Promise<OutsideStage> {
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-outside-'));
  ending(async () => rmSync(folder, { recursive: true, force: true }));
  const base_url = await hostileService(ending);
  const auth = { type: 'api_key', key: 'k'.repeat(20) };
  const source = (profile: string, webhook: object): object => ({
    base_url,
    auth,
    profile: `./${profile}.yaml`,
    webhook,
    resources: ['content', 'images'],
  });
  writeYaml(folder, {
    config: {
      warehouse: 'sqlite:{source}.db',
      sources: {
        blog: source('profile', { secrets: [WHSEC] }),
        constructor: source('profile', { secrets: [WHSEC] }),
        'signed-url': source('hubspot', { secrets: [HUBSPOT], public_url: PUBLIC_URL }),
      },
      serve: { port: 0, ...serve },
      log: { level: 'debug' },
    },
    profile: { extends: 'content-service', http: { attempts: 1 } },
    hubspot: { extends: 'content-service', http: { attempts: 1 }, webhooks: { signature: 'hubspot' } },
  });
  return { folder, ...(await startServe(folder, { args, ending, isHere: true })) };
}

/** An event of blog, as its service would send it. */
const event = (id: string, type = 'images.updated', resource = 'images'): Asked => {
  const body = JSON.stringify({
    type,
    data: Object.fromEntries([
      ['id', id],
      ['resource', resource],
    ]),
  });
  return signed(
    'standard-webhooks',
    WHSEC,
    'blog',
    body,
    `m_${id.replace(/[^a-z]/g, '')}_${type.length}_${resource.length}`,
  );
};

/** A delivery by the scheme that signs the address. */
const sign = (publicUrl: string, id: string): Asked => {
  const draft = {
    body: Buffer.from(`{"type":"images.updated","data":{"id":"${id}"}}`),
    id,
    at: Date.now(),
    method: 'POST',
  };
  return signDelivery(
    signatureSchema.parse('hubspot'),
    { value: HUBSPOT },
    { ...draft, path: '/webhooks/signed-url', publicUrl },
  );
};

/** The answer without what differs each time. */
function shape({ status, headers, body }: Answered): object {
  return { status, headers: { ...headers, date: null }, body };
}

describe('what comes from outside', () => {
  const endings: (() => Promise<void>)[] = [];
  let stage: OutsideStage;
  beforeAll(async () => {
    stage = await outsideStage({}, [], (end) => endings.push(end));
    await firstRuns(stage);
  });
  afterAll(async () => {
    for (const end of endings.toReversed()) await end();
  });

  it('F187 F188 does no harm where it is shown: markup, escapes and names of what objects inherit', async () => {
    const events = [
      ...[...INHERITED, HOSTILE].map((id) => event(id)),
      event('1', HOSTILE),
      event('1', HOSTILE, HOSTILE),
      event(HOSTILE, 'content.updated', 'content'),
      event('1', 'x', '__proto__'),
      event('1', 'constructor', 'constructor'),
    ];
    for (const each of events) expect((await stage.ask(each)).status).toBe(202);
    const inbox = path.join(stage.folder, 'blog-inbox.db');
    const query = 'SELECT state, count(*) AS n FROM _sync_deliveries GROUP BY state ORDER BY state';
    const states = () => new Map(rowsIn(inbox, query).map(({ state, n }) => [state, n]));
    // No address can be made of an id with a line break: its resource is walked instead, and the others do not wait for
    // it. The one about content waits: its listing is refused.
    await until(() => states().get('done') === 7n && states().get('ignored') === 3n);
    expect([...states()]).toEqual([
      ['done', 7n],
      ['ignored', 3n],
      ['waiting', 1n],
    ]);
    // Records named like what objects inherit are rows like all others.
    const ids = rowsIn(path.join(stage.folder, 'blog.db'), 'SELECT id FROM images').map(({ id }) => id);
    expect(new Set(ids)).toEqual(new Set([...INHERITED, HOSTILE, '1']));
    const page = await stage.ask({ path: '/' });
    expect(page.body).toContain('&lt;script&gt;window.broken=1');
    expect(page.body).not.toMatch(/<img|<a href="javascript|<script>/);
    const texts = [
      page.body,
      (await stage.ask({ path: '/status.json' })).body,
      (await stage.ask({ path: '/metrics' })).body,
    ];
    for (const text of [...texts, stage.written()]) expect(text.match(CONTROL)).toBeNull();
    for (const line of stage.written().trim().split('\n')) expect(() => JSON.parse(line)).not.toThrow();
    const labels = [...parseMetrics(texts[2] ?? '').values()].flatMap(({ samples }) =>
      samples.flatMap((one) => Object.values(one.labels)),
    );
    expect(labels.filter((label) => /[<>"\\]|broken|proto/.test(label))).toEqual([]);
  });

  it('F183 F186 is answered alike for whatever is no source: inherited names, other paths to one, other spellings', async () => {
    const right = signed('standard-webhooks', WHSEC, 'blog', '{}', 'm');
    const names = '__proto__ toString hasownproperty BLOG blog%20 blog%00 %62log'.split(' ');
    const others = '/webhooks//blog //webhooks/blog /webhooks/./blog /webhooks/x/../blog /webhooks/..%2fblog'.split(
      ' ',
    );
    const odd = '/webhooks/blog;a=1 /webhooks/blog%3Fa /webhooks\\blog http://127.0.0.1/webhooks/blog *'.split(' ');
    const unknown = {
      status: 404,
      headers: expect.not.objectContaining({ 'content-type': expect.anything() }),
      body: '',
    };
    for (const path of [...names.map((name) => `/webhooks/${name}`), ...others, ...odd]) {
      expect([path, shape(await stage.ask({ ...right, path }))]).toEqual([path, unknown]);
    }
    // And a source that is named so is one.
    expect((await stage.ask({ ...right, path: '/webhooks/constructor' })).status).toBe(202);
    // What is refused for its signature differs in its status alone.
    const forged = { ...right, headers: { ...right.headers, 'webhook-signature': `v1,${'A'.repeat(43)}=` } };
    const [is, isNot] = [
      shape(await stage.ask(forged)),
      shape(await stage.ask({ ...forged, path: '/webhooks/nobody' })),
    ];
    expect(is).toEqual({ ...isNot, status: 401 });
  });

  it('F185 names its own address only by the config: Host and forwarded headers prove and change nothing', async () => {
    const forged = {
      host: 'evil.example',
      'x-forwarded-host': 'evil.example',
      'x-forwarded-proto': 'http',
      'x-forwarded-prefix': '/evil',
      'x-original-url': '/webhooks/blog',
      'x-rewrite-url': '/webhooks/blog',
      forwarded: 'host=evil.example;proto=http',
    };
    const ask = async (asked: Asked): Promise<number> =>
      (await stage.ask({ ...asked, headers: { ...asked.headers, ...forged } })).status;
    expect(await ask(sign(PUBLIC_URL, 'a'))).toBe(202);
    expect(await ask(sign('http://evil.example/webhooks/signed-url', 'b'))).toBe(401);
    const page = await stage.ask({ path: '/', headers: forged });
    // Nobody has set that name: a browser that believes in it was led here.
    expect([page.status, page.body.includes('evil')]).toEqual([421, false]);
    expect(stage.answered()).not.toContain('evil');
  });

  it('ASVS 13.4.4 F183 changes nothing by reading, and gives other sites nothing', async () => {
    const pages = ['/', '/status.json', '/metrics', '/readyz', '/healthz'];
    const deliveries = () =>
      rowsIn(path.join(stage.folder, 'blog-inbox.db'), 'SELECT count(*) AS n FROM _sync_deliveries');
    const before = deliveries();
    const headers = {
      origin: 'https://evil.example',
      'access-control-request-method': 'GET',
      'sec-fetch-site': 'cross-site',
      'x-echo': 'traced',
    };
    const guarded = {
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'content-type': expect.stringContaining('charset=utf-8'),
    };
    for (const path of [...pages, '/nothing']) {
      const answer = await stage.ask({ path, headers });
      const policy = path === '/healthz' ? {} : { 'cross-origin-resource-policy': 'same-origin' };
      expect([path, answer.headers]).toMatchObject([path, { ...guarded, ...policy }]);
    }
    const hook = { path: '/webhooks/blog', allow: 'POST', methods: ['OPTIONS', 'TRACE', 'PATCH', 'GET'] };
    const methods = ['OPTIONS', 'TRACE', 'PUT', 'DELETE', 'PATCH', 'POST', 'PROPFIND'];
    for (const { path, allow, methods: refused } of [
      ...pages.map((path) => ({ path, allow: 'GET, HEAD', methods })),
      hook,
    ]) {
      for (const method of refused) {
        const answer = await stage.ask({ method, path, headers });
        expect([method, path, answer.status, answer.headers['allow'], answer.body]).toEqual([
          method,
          path,
          405,
          allow,
          '',
        ]);
      }
    }
    expect(stage.answered()).not.toMatch(/access-control|"server":"|x-powered-by|set-cookie|"etag"|traced/i);
    expect(deliveries()).toEqual(before);
  });

  it('comes from this machine alone where nothing else is set', async () => {
    expect(stage.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(listeningAddresses(Number(new URL(stage.url).port))).toEqual(['0100007F']);
    expect(stage.written()).not.toContain('anyone who can reach it');
  });
});

describe('the door', () => {
  it('that stands open to others without a password is told of at the start', async () => {
    const open = await outsideStage({}, ['--host', '0.0.0.0']);
    expect(open.written()).toMatch(/"level":"warn".*serve listens on 0\.0\.0\.0, and anyone who can reach it may read/);
  });
});

/** Also one that was read while it ran and has ended since is shown as `interrupted` for a moment. */
const ENDED = new Set(['ok', 'partial', 'failed']);

async function firstRuns(stage: ServeProcess): Promise<void> {
  await until(async () => {
    const { sources } = JSON.parse((await stage.ask({ path: '/status.json' })).body);
    return sources.every(({ resources }: { resources: { runs: { status: string }[] }[] }) =>
      resources.every(({ runs: [run] }) => run !== undefined && ENDED.has(run.status)),
    );
  });
}

/** Local addresses on which somebody listens at that port, as Linux writes them; `0100007F` is 127.0.0.1. */
function listeningAddresses(port: number): string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  return ['/proc/net/tcp', '/proc/net/tcp6'].flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .flatMap(([, local = '', , state]) =>
        state === '0A' && local.endsWith(suffix) ? [local.slice(0, -suffix.length)] : [],
      ),
  );
}
