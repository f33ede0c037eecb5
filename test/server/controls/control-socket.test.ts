import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import path from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { controlPath } from '../../../src/config/settings.ts';
import { findSocket } from '../../../src/server/controls/serve-connection.ts';
import { beginCommand } from '../../support/command.ts';
import { SQLITE } from '../../support/databases.ts';
import { resourceIn, servingStage, type ServingStage, until } from '../../support/serving.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';

/** Sends bytes to the socket as any program may, and returns what comes back until its end. */
async function send(socket: string, bytes: string | Buffer): Promise<string> {
  const client = connect(socket);
  let told = '';
  client.setEncoding('utf8').on('data', (text: string) => (told += text));
  client.on('error', () => undefined);
  client.write(bytes);
  const { promise, resolve } = Promise.withResolvers<void>();
  client.once('close', () => resolve());
  await promise;
  return told;
}

const posted = (body: string): string =>
  `POST /control HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
const asked = (request: object, rest: object = { content_sync: 2, by: null }): string =>
  posted(JSON.stringify({ ...rest, request }));

async function stageWith(latency = 0): Promise<ServingStage & { socket: string }> {
  const generate = { content: latency === 0 ? 20 : 400, images: 5, analytics: 5 };
  const stage = await servingStage({ database: SQLITE, sandbox: { generate, latency } });
  const config = path.join(stage.folder, 'content-sync.yaml');
  const place = { control: undefined, warehouse: stage.address(), config, cwd: stage.folder, env: {} };
  return { ...stage, socket: controlPath(place) ?? '' };
}

it('has a socket of its own user, which does nothing for what is no request', async () => {
  const stage = await stageWith();
  const serving = await stage.serve({ isInside: true });
  await stage.fresh(serving);
  await until('there', () => existsSync(stage.socket));
  expect(statSync(stage.socket).mode & 0o777).toBe(0o600);
  const before = stage.sandbox.requests.total;
  const retry = { action: 'retry', source: 'blog' };
  const forged: (string | Buffer)[] = [
    '{"content_sync":1}\n',
    Buffer.from([0xff, 0xfe, 0x00, 0x0a]),
    posted('null'),
    posted('{"content_sync":2}'),
    asked(retry, { content_sync: 1, by: null }),
    asked(retry, { content_sync: 2, by: null, also: 1 }),
    asked({ ...retry, action: 'exec' }),
    asked({ ...retry, source: '../blog' }),
    asked({ ...retry, resource: "x'; DROP TABLE content" }),
    asked({ action: 'sync', source: 'blog', mode: 'all' }),
    asked({ action: 'replay', source: 'blog', ids: ['x'.repeat(2_000_000)] }),
    'x'.repeat(3_000_000),
  ];
  for (const bytes of forged) {
    const told = await send(stage.socket, bytes);
    expect(told).toMatch(/^HTTP\/1\.1 4/);
    expect(told).not.toContain('"done":true');
  }
  // One that hangs up, and one that says nothing, keep nobody else waiting.
  connect(stage.socket)
    .on('error', () => undefined)
    .destroy();
  const silent = connect(stage.socket).on('error', () => undefined);
  expect(resourceIn(await serving.status(), 'content')).toMatchObject({ paused: null, running: null });
  expect(stage.sandbox.requests.total).toBe(before);
  expect(await send(stage.socket, asked(retry))).toContain('"done":true');
  silent.destroy();
  expect(await serving.stop()).toMatchObject({ code: 0 });
  expect(existsSync(stage.socket)).toBe(false);
});

it('replaces the socket of a killed process, and leaves that of a living one and any other file alone', async () => {
  const stage = await stageWith();
  const killed = await stage.serve();
  await until('there', () => existsSync(stage.socket));
  await killed.stop('SIGKILL');
  expect(existsSync(stage.socket)).toBe(true);
  // Nobody listens: the pause is stored, and nothing can be told.
  expect(await stage.run('pause', 'images')).toMatchObject({ code: 0 });
  expect(await stage.run('retry')).toMatchObject({ code: 1, stderr: expect.stringContaining('serve_missing') });
  expect(await stage.run('sync', 'images')).toMatchObject({ code: 1, stderr: expect.stringContaining('"paused"') });
  const next = await stage.serve({ isInside: true });
  await until('told', async () => (await stage.run('retry', 'content')).code === 0);
  expect(resourceIn(await next.status(), 'images').paused).not.toBeNull();
  const other = await stage.serve({ isInside: true });
  expect(other.command.logged()).toContain('another process listens on');
  await other.stop();
  expect(await stage.run('resume')).toMatchObject({ code: 0 });
  expect(next.command.logged()).toContain('"control":{"action":"retry"');
  await next.stop();
  writeFileSync(stage.socket, 'not ours');
  const third = await stage.serve({ isInside: true });
  expect(third.command.logged()).toContain('is no socket');
  await third.stop();
  expect(readdirSync(stage.folder)).toContain(path.basename(stage.socket));
});

it.skipIf(process.getuid?.() !== 0)('is not believed by root if another user could have made it', async () => {
  const folder = tempFolder();
  const socket = path.join(folder, 'own.sock');
  const server = createServer().listen(socket);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const denied = { code: 'serve_missing' };
  chownSync(socket, 65_534, 65_534);
  await expect(findSocket(socket, null)).rejects.toMatchObject(denied);
  chownSync(folder, 65_534, 65_534);
  expect(await findSocket(socket, null)).not.toBeNull();
  chmodSync(folder, 0o1777);
  await expect(findSocket(socket, null)).rejects.toMatchObject(denied);
});

it('lets a command that follows a walk go, and goes on with the walk', async () => {
  const stage = await stageWith(150);
  const serving = await stage.serve({ isInside: true });
  const config = path.join(stage.folder, 'content-sync.yaml');
  await until('there', () => existsSync(stage.socket));
  const command = beginCommand(['backfill', 'content', '--config', config], { cwd: stage.folder });
  await until('followed', () => command.logged().includes('requested from the running serve'));
  command.kill('SIGINT');
  const ended = await command.ended;
  expect(ended).toMatchObject({ code: 130 });
  expect(ended.stderr).toContain('detached: the sync continues in the running serve');
  await stage.fresh(serving);
  const runs = await stage.read((db) => db.prepare("SELECT status FROM _sync_runs WHERE resource = 'content'").all());
  // It was joined, unless it had ended before it was asked for.
  expect(runs.length).toBeLessThanOrEqual(2);
  expect(new Set(runs.map((run) => JSON.stringify(run)))).toEqual(new Set(['{"status":"ok"}']));
  // A process that ends takes the walk along, and says so to whoever follows it.
  const following = beginCommand(['backfill', '--config', config], { cwd: stage.folder });
  await until('followed again', () => following.logged().match(/requested from the running serve/g)?.length === 3);
  await serving.stop();
  expect(await following.ended).toMatchObject({ code: 130 });
});
