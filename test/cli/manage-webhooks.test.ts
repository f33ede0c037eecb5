import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { webhooksCommand } from '../../src/cli/webhooks.ts';
import { portOf } from '../faults/port-of.ts';
import { journey, type Journey } from '../support/journey.ts';
import { runInProcess } from './in-process.ts';

const SECRET = `whsec_${Buffer.from('a secret that is long enough').toString('base64')}`;
const ADDRESS = 'https://copy.example.com/webhooks/blog';

interface Hook {
  id: string;
  url: string;
  event?: string;
  [field: string]: unknown;
}

/** How the service differs from one that does all of it. */
interface Behaviour {
  /** Refuses a second webhook of the same address and event. */
  unique?: boolean;
  /** Answers in place of the service, by method: with this status and text. */
  answers?: Readonly<Record<string, { status: number; body?: string; headers?: Record<string, string> }>>;
  /** Loses the connection after a webhook was made. */
  loses?: boolean;
}

/** A service that keeps webhooks at /v1/hooks; what it was asked stands in `asked`, as method, path and body. */
async function hookService(hooks: Hook[], { unique, answers = {}, loses }: Behaviour = {}) {
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    const { method = '', url = '' } = request;
    const body = await text(request);
    asked.push(`${method} ${url} ${body}`.trim());
    const send = (status: number, value?: object): void =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(value && JSON.stringify(value));
    const fixed = answers[method];
    if (fixed !== undefined) return void response.writeHead(fixed.status, fixed.headers).end(fixed.body);
    if (method === 'GET') return send(200, { hooks });
    if (method === 'DELETE') {
      const at = hooks.findIndex(({ id }) => url.endsWith(`/${id}`));
      hooks.splice(at, at === -1 ? 0 : 1);
      return send(at === -1 ? 404 : 204);
    }
    const made: Hook = { ...JSON.parse(body), id: `h${asked.length}` };
    if (unique && hooks.some((hook) => hook.url === made.url && hook.event === made.event)) return send(422, {});
    hooks.push(made);
    return loses ? void request.socket.destroy() : send(201, made);
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${await portOf(server)}`, asked };
}

const LIST = { path: '/hooks', records: 'hooks', id: 'id', address: 'url' };
const BODY = { url: '{url}', key: '{secret}', topics: '{events}', note: 'of {events}', none: 'x {id}' };
const MANAGE = {
  list: LIST,
  create: { path: '/hooks', body: BODY },
  remove: { path: '/hooks/{id}' },
  events: ['post.*', 'tag.*'],
};

async function stageFor(hooks: Hook[], manage: object | null = MANAGE, behaviour: Behaviour = {}) {
  const service = await hookService(hooks, behaviour);
  const stage = await journey({
    profile: { webhooks: { manage }, http: { attempts: 3 } },
    source: { base_url: service.url, webhook: { secrets: [SECRET], public_url: ADDRESS } },
  });
  return { stage, service };
}

function call(stage: Journey, ...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return runInProcess(webhooksCommand, [...args, '--config', stage.config], stage.folder);
}

const writes = (asked: readonly string[]): string[] => asked.filter((line) => !line.startsWith('GET'));

describe('content-sync webhooks register', () => {
  it('has the service send them here, with address, secret and events in place, and once only', async () => {
    const hooks: Hook[] = [{ id: 'x', url: 'https://hooks.example.org/services/T0/secret' }];
    const { stage, service } = await stageFor(hooks);
    const first = await call(stage, 'register');
    expect(first).toMatchObject({ code: 0, stderr: '' });
    expect(first.stdout).toBe(`${ADDRESS}  post.*, tag.*  asks for it: POST /hooks\n${ADDRESS}  post.*, tag.*  made\n`);
    const body = { url: ADDRESS, key: SECRET, topics: ['post.*', 'tag.*'], note: 'of post.*,tag.*' };
    expect(writes(service.asked)).toEqual([`POST /v1/hooks ${JSON.stringify(body)}`]);
    const second = await call(stage, 'register');
    expect([second.code, second.stdout]).toEqual([0, `${ADDRESS}  post.*, tag.*  is there already\n`]);
    expect(writes(service.asked)).toHaveLength(1);
    expect(JSON.parse((await call(stage, 'register', '--json')).stdout)).toEqual({
      source: 'blog',
      address: ADDRESS,
      webhooks: [{ id: hooks[1]?.id, event: null, state: 'there' }],
    });
  });

  it('makes one for each event, where the service wants that, and only those that are missing', async () => {
    const hooks: Hook[] = [{ id: 'x', url: `${ADDRESS}/?v=1`, event: 'tag.*' }];
    const create = {
      path: '/hooks',
      body: { hooks: [{ event: '{event}', target: '{url}' }], url: '{url}', event: '{event}' },
    };
    const { stage, service } = await stageFor(hooks, { ...MANAGE, list: { ...LIST, event: 'event' }, create });
    const { code, stdout } = await call(stage, 'register');
    expect(code).toBe(0);
    expect(stdout.split('\n')).toEqual([
      `${ADDRESS}  post.*  asks for it: POST /hooks`,
      `${ADDRESS}  post.*  made`,
      `${ADDRESS}  tag.*  is there already`,
      '',
    ]);
    const body = { hooks: [{ event: 'post.*', target: ADDRESS }], url: ADDRESS, event: 'post.*' };
    expect(writes(service.asked)).toEqual([`POST /v1/hooks ${JSON.stringify(body)}`]);
  });

  it('takes the word of a service that lists none, but refuses a second one', async () => {
    const create = { path: '/hooks', body: { url: '{url}', event: '{event}' }, exists: [422] };
    const hooks: Hook[] = [{ id: 'x', url: ADDRESS, event: 'tag.*' }];
    const { stage, service } = await stageFor(hooks, { create, events: ['post.*', 'tag.*'] }, { unique: true });
    const { code, stdout } = await call(stage, 'register');
    expect([code, stdout]).toEqual([0, expect.stringContaining(`${ADDRESS}  post.*  made`)]);
    expect(stdout).toContain(`${ADDRESS}  tag.*  is there already`);
    expect(service.asked.map((line) => line.split(' ')[0])).toEqual(['POST', 'POST']);
    expect(hooks).toHaveLength(2);
  });

  it('tells what it would do, and does nothing, with --dry-run', async () => {
    const { stage, service } = await stageFor([]);
    const { code, stdout } = await call(stage, 'register', '--dry-run');
    expect([code, stdout]).toEqual([0, `${ADDRESS}  post.*, tag.*  would ask for it: POST /hooks\n`]);
    expect(writes(service.asked)).toEqual([]);
  });

  it('never sends it twice, whatever happens to the answer; called again, it looks first', async () => {
    const hooks: Hook[] = [];
    const { stage, service } = await stageFor(hooks, MANAGE, { loses: true });
    await expect(call(stage, 'register')).rejects.toThrow('may have been done all the same');
    expect([writes(service.asked).length, hooks.length]).toEqual([1, 1]);
    const again = await call(stage, 'register');
    expect([again.stdout, hooks.length]).toEqual([expect.stringContaining('is there already'), 1]);
  });

  it('needs no body in the answer', async () => {
    const answers = { POST: { status: 201, body: 'created' } };
    const { stage, service } = await stageFor([], MANAGE, { answers });
    expect((await call(stage, 'register')).stdout).toContain('  made\n');
    expect(writes(service.asked)).toHaveLength(1);
  });

  it('waits and asks again where the service says that it was too much at once', async () => {
    const hooks: Hook[] = [];
    const answers: Record<string, { status: number; headers?: Record<string, string> }> = {
      POST: { status: 429, headers: { 'retry-after': '1' } },
    };
    const { stage, service } = await stageFor(hooks, MANAGE, { answers });
    setTimeout(() => delete answers['POST'], 500);
    expect((await call(stage, 'register')).stdout).toContain('  made\n');
    expect([writes(service.asked).length > 1, hooks.length]).toEqual([true, 1]);
  });

  it('prints no secret, also where the service repeats it in an error', async () => {
    const answers = { POST: { status: 400, body: JSON.stringify({ error: `bad key ${SECRET}` }) } };
    const { stage } = await stageFor([], MANAGE, { answers });
    const ended = await stage.command('webhooks', 'register');
    expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('POST') });
    expect(ended.stdout + ended.stderr).not.toContain(SECRET.slice(6));
    expect((await stage.command('webhooks', 'register', '--log-level', 'debug')).stderr).not.toContain(SECRET.slice(6));
  });

  it.each<[string, object | null, string[], string]>([
    ['a profile that declares nothing', null, ['register'], 'does not say how its service manages webhooks'],
    ['an address that is none', MANAGE, ['register', '--url', 'nonsense'], '--url must be an http(s) URL'],
    [
      'a profile without a list',
      { ...MANAGE, list: null, create: { ...MANAGE.create, exists: [409] } },
      ['list'],
      'how webhooks are listed',
    ],
    ['a profile without a removal', { ...MANAGE, remove: null }, ['remove'], 'how a webhook is removed'],
  ])('refuses %s before anything is asked', async (_, manage, args, message) => {
    const { stage, service } = await stageFor([], manage);
    await expect(call(stage, ...args)).rejects.toThrow(message);
    expect(service.asked).toEqual([]);
    expect((await stage.command('webhooks', ...args)).code).toBe(2);
  });

  it.each<[string, object, string]>([
    ['no list and no status of what is there', { list: null }, 'webhooks.manage.list'],
    [
      'one for each event, and no events',
      { events: [], create: { path: '/h', body: { e: '{event}' } } },
      'manage.events',
    ],
    ['one for each event, and a list without them', { create: { path: '/h', body: { e: '{event}' } } }, 'list.event'],
    ['an unknown variable', { create: { path: '/h', body: { e: '{token}' } } }, 'manage.create.body'],
    ['a path that is none', { remove: { path: 'hooks' } }, 'manage.remove.path'],
  ])('refuses a declaration with %s', async (_, fields, field) => {
    const { stage } = await stageFor([], { ...MANAGE, ...fields });
    const ended = await stage.command('webhooks', 'list');
    expect(ended).toMatchObject({ code: 2, stderr: expect.stringContaining(field) });
  });
});

describe('content-sync webhooks list', () => {
  it('shows what there is, and which lead here; of others only where to', async () => {
    const hooks = [
      { id: 'x', url: 'https://hooks.example.org/services/T0/very-secret' },
      { id: 'y', url: `${ADDRESS}?token=old-secret` },
    ];
    const { stage, service } = await stageFor(hooks);
    const { code, stdout } = await call(stage, 'list');
    expect([code, stdout]).toEqual([0, `other  x  https://hooks.example.org/…\nours   y  ${ADDRESS}\n`]);
    const found = JSON.parse((await call(stage, 'list', '--json')).stdout);
    expect(found).toMatchObject({
      webhooks: [
        { id: 'x', isOurs: false },
        { id: 'y', isOurs: true, address: ADDRESS },
      ],
    });
    expect(writes(service.asked)).toEqual([]);
  });

  it('fails where the answer has no list', async () => {
    const { stage } = await stageFor([], { ...MANAGE, list: { ...LIST, records: 'data' } });
    await expect(call(stage, 'list')).rejects.toThrow('has no list of webhooks at "data"');
  });
});

describe('content-sync webhooks remove', () => {
  it('removes those that lead here, and no others', async () => {
    const hooks = [
      { id: 'x', url: 'https://other.example.org/a' },
      { id: 'y', url: ADDRESS },
      { id: 'a/../b', url: `${ADDRESS}/` },
    ];
    const { stage, service } = await stageFor(hooks);
    expect((await call(stage, 'remove', '--dry-run')).stdout).toContain('y: would be removed: DELETE /hooks/{id}');
    expect(writes(service.asked)).toEqual([]);
    const { code, stdout } = await call(stage, 'remove');
    expect([code, stdout]).toEqual([
      0,
      `${ADDRESS}  post.*, tag.*  y: removed\n${ADDRESS}  post.*, tag.*  a/../b: gone\n`,
    ]);
    // Whatever an id holds, it is one segment of the path.
    expect(writes(service.asked)).toEqual(['DELETE /v1/hooks/y', 'DELETE /v1/hooks/a%2F..%2Fb']);
    expect(hooks.map(({ id }) => id)).toEqual(['x', 'a/../b']);
  });

  it('says so where none leads here', async () => {
    const { stage } = await stageFor([{ id: 'x', url: 'https://other.example.org/a' }]);
    expect(await call(stage, 'remove')).toMatchObject({ code: 0, stdout: `no webhook leads to ${ADDRESS}\n` });
  });
});
