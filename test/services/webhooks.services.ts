import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { SQLITE } from '../support/databases.ts';
import { freePort } from '../support/serving.ts';
import { directus } from './directus.ts';
import { ghost } from './ghost.ts';
import { LAB, liveStage, startService, whyNoServices } from './live-stage.ts';
import type { LiveService } from './live-service.ts';
import { strapi } from './strapi.ts';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { request } from 'undici';

/** Where the scripts tell the services to send their webhooks. */
const HOOK_PORT = 4199;

/** Takes the deliveries of the real services, byte by byte, to another address; what came is counted. */
async function forwardHooks(target: string): Promise<{ statuses: number[] }> {
  stopSink();
  const statuses: number[] = [];
  const server = createServer(async (incoming, outgoing) => {
    const body = await buffer(incoming);
    const status = await forward(target, incoming.headers, body).catch(() => 503);
    statuses.push(status);
    outgoing.writeHead(status).end();
  });
  await new Promise<void>((resolve) => server.listen(HOOK_PORT, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { statuses };
}

const OF_THE_CONNECTION: ReadonlySet<string> = new Set(['host', 'connection', 'content-length', 'transfer-encoding']);

async function forward(target: string, headers: IncomingHttpHeaders, body: Buffer): Promise<number> {
  const kept = Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.has(name));
  const sent = kept.map(([name, value]): [string, string] => [name, String(value)]);
  const { statusCode, body: answer } = await request(target, {
    method: 'POST',
    headers: Object.fromEntries(sent),
    body,
  });
  await answer.dump();
  return statusCode;
}

/** The scripts' own receiver, which only notes down what comes, has the port. */
function stopSink(): void {
  try {
    process.kill(-Number(readFileSync(`${LAB}/_sink/${HOOK_PORT}/pid`, 'utf8')), 'SIGKILL');
    spawnSync('sleep', ['0.3']);
  } catch (error) {
    // None is running.
    if (!(error instanceof Error && 'code' in error && ['ENOENT', 'ESRCH'].includes(String(error.code)))) throw error;
  }
}

const why = whyNoServices();

/** How the scripts have the services sign their webhooks. */
const SERVICES: readonly {
  name: string;
  script: string;
  secret: string;
  open: () => LiveService;
  profile: Record<string, unknown>;
}[] = [
  { name: 'ghost', script: 'ghost', secret: 'ghost-hook-secret-1', open: () => ghost('content'), profile: {} },
  { name: 'ghost-admin', script: 'ghost', secret: 'ghost-hook-secret-1', open: () => ghost('admin'), profile: {} },
  {
    name: 'strapi',
    script: 'strapi',
    secret: 'strapi-hook-token-1',
    open: strapi,
    profile: {
      webhooks: {
        signature: { type: 'static', value: { from: 'header:X-Hook-Token' } },
        resource_names: { article: 'articles', author: 'authors', tag: 'tags', 'article-stat': 'article_stats' },
      },
    },
  },
  { name: 'directus', script: 'directus', secret: 'directus-hook-token-1', open: directus, profile: {} },
];

const MOST_MS = 60_000;

describe.skipIf(why !== null).each(SERVICES)('$name', ({ name, script, secret, open, profile }) => {
  it('is followed by its webhooks alone', async () => {
    startService(script);
    const service = open();
    const port = await freePort();
    const stage = await liveStage(service, SQLITE, {
      profile,
      // Nothing but webhooks brings a change.
      source: { webhook: { secrets: [secret] }, schedule: { incremental: null, full: '0 0 1 1 *' } },
      settings: { serve: { port } },
    });
    expect((await stage.run('backfill')).status).toBe('ok');
    const serve = stage.start('serve');
    const url = `http://127.0.0.1:${port}`;
    await until(async () => (await fetch(`${url}/healthz`).catch(() => null))?.status === 200);
    const { statuses } = await forwardHooks(`${url}/webhooks/blog`);
    for (const edit of service.edits) {
      for (let nth = 0; nth < 3; nth += 1) await service.edit(edit, nth);
    }
    const edited = performance.now();
    const truth = { [service.edited]: await service.truth(service.edited) };
    await until(async () => (await stage.differences(truth)).length === 0).catch(() => undefined);
    process.stderr.write(
      `${name} webhooks: ${statuses.length} deliveries, equal after ${Math.round(performance.now() - edited)} ms\n`,
    );
    const left = await stage.differences(truth);
    if (left.length > 0)
      process.stderr.write(`${(await stage.command('deliveries', 'list')).stdout}\n${serve.logged()}\n`);
    expect(left).toEqual([]);
    expect(statuses.every((status) => status >= 200 && status < 300)).toBe(true);
    serve.kill('SIGTERM');
    expect((await serve.ended).code).toBe(0);
  });
});

async function until(holds: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + MOST_MS;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`not within ${MOST_MS} ms`);
    await delay(200);
  }
}
