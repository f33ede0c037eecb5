import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import path from 'node:path';
import type { Command } from 'commander';
import { describe, expect, it, onTestFinished } from 'vitest';
import { checkCommand } from '../../src/cli/check.ts';
import { type CliContext, printError } from '../../src/cli/command/context.ts';
import { deliveriesCommand } from '../../src/cli/deliveries.ts';
import { statusCommand } from '../../src/cli/status.ts';
import { inMemory } from '../cli/in-process.ts';
import { startSandbox } from '../sandbox/service/sandbox.ts';
import { tempFolder } from '../support/temp-warehouse.ts';
import { filesIn, leakFinder } from './canaries.ts';
import { serveUntilEnd } from './port-of.ts';
import { signed, startServe, until, writeYaml } from './serve-stage.ts';

const WHSEC = `whsec_${randomBytes(30).toString('base64')}`;
const OLD = `whsec_${randomBytes(30).toString('base64')}`;
const MARK = randomBytes(4).toString('hex');

/** Every secret that a `serve` may hold, by what it is for. */
const SECRETS = {
  apiKey: `key${MARK}/canary+0815=xy`,
  clientSecret: `cli${MARK}/secret+canary`,
  webhook: WHSEC,
  webhookBare: WHSEC.slice('whsec_'.length),
  bearer: `bea${MARK}/sec+ret=canary`,
  query: `que${MARK}/secret&canary x`,
  password: `pas${MARK}-pässword/<canary>`,
  ping: `pin${MARK}-canary-ping`,
};

const JSON_TYPE = { 'content-type': 'application/json' };
const listing = (next: object) => ({ data: [{ id: 'r1', updated_at: '2026-01-01T00:00:00Z' }], ...next });

/** How a service gives back the credential that it was sent: a status, headers and a body, for the resource of that name. */
const ECHOES: Readonly<Record<string, (secret: string) => [number, Record<string, string>, string]>> = {
  refusal_body: (secret) => [401, JSON_TYPE, JSON.stringify({ title: `unknown key ${secret}`, key: secret })],
  refusal_challenge: (secret) => [401, { 'www-authenticate': `Bearer realm="${secret}", error="invalid_token"` }, ''],
  forbidden_base64: (secret) => [
    403,
    JSON_TYPE,
    JSON.stringify({ got: Buffer.from(`x:${secret}`).toString('base64') }),
  ],
  failure_url: (secret) => [500, { 'content-type': 'text/plain' }, `key=${encodeURIComponent(secret)}&x=1`],
  web_page: (secret) => [200, { 'content-type': 'text/html' }, `<html><title>${secret}</title><pre>${secret}</pre>`],
  cut_json: (secret) => [200, JSON_TYPE, `{"data":["${secret}`],
  error_in_body: (secret) => [200, JSON_TYPE, JSON.stringify({ error: { code: secret, message: secret } })],
  cursor_object: (secret) => [200, JSON_TYPE, JSON.stringify(listing({ next_cursor: { key: secret } }))],
  redirect_away: (secret) => [302, { location: `http://other.invalid/?key=${encodeURIComponent(secret)}` }, ''],
  bad_type: (secret) => [200, { 'content-type': secret }, '{}'],
  cut_request_id: (secret) => [400, { ...JSON_TYPE, 'x-request-id': `${'i'.repeat(60)}-${secret}` }, '{"title":"bad"}'],
  cut_message: (secret) => [400, JSON_TYPE, JSON.stringify({ title: `${'m'.repeat(175)} ${secret}` })],
};

/** A service that gives back whatever credential it is sent, also by its token endpoint below `/refused`. */
async function echoingService(tokens: string[]): Promise<string> {
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let form = '';
    for await (const chunk of request) form += String(chunk);
    const url = request.url ?? '';
    const secret = (request.headers.authorization ?? '').replace(/^Bearer /, '');
    if (url.startsWith('/refused')) {
      response.writeHead(401, { ...JSON_TYPE, 'x-form': form });
      return void response.end(
        JSON.stringify({ error: 'invalid_client', error_description: `no client with ${form}` }),
      );
    }
    if (url.includes('/oauth/token')) {
      const token = `${randomBytes(15).toString('base64')}/canary-token`;
      tokens.push(token);
      const body = { access_token: token, token_type: 'Bearer', expires_in: 3_600 };
      return void response.writeHead(200, JSON_TYPE).end(JSON.stringify(body));
    }
    const way = Object.keys(ECHOES).find((name) => url.startsWith(`/v1/${name}`));
    const [status, headers, body] = ECHOES[way ?? '']?.(secret) ?? [404, {}, ''];
    response.writeHead(status, headers).end(body);
  };
  return serveUntilEnd(createServer((request, response) => void answer(request, response)));
}

/** A `serve` among services that give secrets back; `leaks` finds secrets in all that it, and commands, have written. */
async function secretsStage() {
  const folder = tempFolder();
  const tokens: string[] = [];
  const echo = await echoingService(tokens);
  const { apiKey, clientSecret, password, ping } = SECRETS;
  const sandbox = await startSandbox({ apiKey, clientSecret, generate: { content: 16, images: 4, analytics: 4 } });
  onTestFinished(() => sandbox.close());
  const key = { type: 'api_key', key: apiKey };
  const oauth = { type: 'oauth', client_id: sandbox.oauth.clientId, client_secret: clientSecret };
  const received = (secret: string, profile: string) => ({
    base_url: sandbox.url,
    auth: oauth,
    profile: `./${profile}.yaml`,
    resources: ['content'],
    webhook: { secrets: [secret] },
  });
  const webhook = { secrets: ['${WH_TEXT}'] };
  const echoed = (auth: object, base_url = echo) => ({
    base_url,
    auth,
    profile: './echo.yaml',
    webhook,
    max_wait: '2s',
  });
  const pings = { success: `http://127.0.0.1:1/${ping}/{resource}`, failure: `${echo}/ping?key=${ping}` };
  const sources = {
    blog: { ...received('${WH_TEXT}', 'blog'), auth: key, ping: pings },
    bearer: received(SECRETS.bearer, 'bearer'),
    query: received(SECRETS.query, 'query'),
    'echo-key': echoed(key),
    'echo-token': echoed(oauth),
    'token-refused': echoed(oauth, `${echo}/refused`),
  };
  const http = { headers_timeout: '3s', timeout: '5s', attempts: 1, concurrency: 8 };
  const ways = Object.keys(ECHOES).map((way) => [
    way,
    { path: `/${way}`, item: `/${way}/{id}`, page: { style: 'cursor' } },
  ]);
  const profile = (webhooks: object) => ({ extends: 'content-service', http, webhooks });
  writeYaml(folder, {
    config: {
      warehouse: 'sqlite:{source}.db',
      sources,
      serve: { port: 0, auth: { user: 'operator', password } },
      log: { level: 'trace' },
    },
    blog: profile({}),
    bearer: profile({ signature: 'bearer', kind: 'header:x-event-kind', id: 'header:authorization' }),
    query: profile({ signature: 'query-token' }),
    echo: { http, resources: Object.fromEntries(ways) },
  });
  const env = { WH_TEXT: SECRETS.webhook };
  const serve = await startServe(folder, { env });
  let printed = '';
  const page = (path: string) => {
    const credential = Buffer.from(`operator:${password}`).toString('base64');
    return serve.ask({ path, headers: { authorization: `Basic ${credential}` } });
  };
  const command = async (make: (context: CliContext) => Command, ...args: string[]): Promise<void> => {
    printed += await printedBy(make, [...args, '--config', 'config.yaml', '--log-level', 'trace'], folder, env);
  };
  const leaks = () => {
    const find = leakFinder({ ...SECRETS, ...Object.fromEntries(tokens.map((token, at) => [`token ${at}`, token])) });
    return [
      ...find('output of serve', latin1(serve.written())),
      ...find('answers of serve', latin1(serve.answered())),
      ...find('output of commands', latin1(printed)),
      ...filesIn(folder, (file) => file.endsWith('.yaml')).flatMap(([file, bytes]) => find(file, bytes)),
    ];
  };
  return { serve, sandbox, tokens, page, command, leaks, printed: () => printed };
}

type SecretsStage = Awaited<ReturnType<typeof secretsStage>>;

function latin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}

/** What a command in this process prints, an error included. */
async function printedBy(
  make: (context: CliContext) => Command,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  const { context, ended } = inMemory(cwd, { env });
  context.json = args.includes('--json');
  await make(context)
    .exitOverride()
    .parseAsync([...args], { from: 'user' })
    .catch((error: unknown) => printError(context, error));
  return `$ ${args.join(' ')}\n${ended().stdout}${ended().stderr}`;
}

interface Status {
  sources: { resources: { runs: { status: string }[] }[] }[];
}

/** Waits until every resource has had a run. */
function firstRuns({ page }: SecretsStage): Promise<true> {
  return until(async () => {
    const status: Status = JSON.parse((await page('/status.json')).body);
    const runs = status.sources.flatMap(({ resources }) => resources.map((resource) => resource.runs[0]?.status));
    return runs.every((run) => run !== undefined && run !== 'running' && run !== 'interrupted') ? true : null;
  }, 500);
}

function contentEvent(id: unknown, more: object = {}): object {
  return { type: 'content.updated', data: { id, resource: 'content', ...more } };
}

/** Deliveries that their receiver accepts, each with what a delivery can hold of secrets; returns their statuses. */
async function deliverSecrets({ serve, sandbox, tokens }: SecretsStage): Promise<number[]> {
  const { apiKey, clientSecret, password, bearer, query } = SECRETS;
  const { ping: _, ...known } = SECRETS;
  const [first] = sandbox.store.list('content');
  const bodies = [
    JSON.stringify(contentEvent(first?.id, { note: JSON.stringify({ ...known, tokens }), debug: known })),
    JSON.stringify(contentEvent(apiKey)),
    JSON.stringify(contentEvent(`of ${clientSecret}`)),
    JSON.stringify({ ...contentEvent('x'), type: apiKey }),
    JSON.stringify({ ...contentEvent(password), type: 'content.deleted' }),
    JSON.stringify({ [bearer]: 1, authorization: query }),
    `{"broken": "${apiKey}`,
    Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(`latin ${clientSecret}`)]),
  ];
  const inId = Buffer.from(apiKey).toString('base64url');
  const event = JSON.stringify(contentEvent(first?.id));
  const deliveries = [
    ...bodies.map((body, at) => signed('standard-webhooks', WHSEC, 'blog', body, `m_${at}_${inId}`)),
    signed('bearer', bearer, 'bearer', event, 'm_bearer'),
    signed('query-token', query, 'query', event, 'm_query'),
    ...['failure_url', 'web_page', 'cut_message'].map((way) => {
      const body = JSON.stringify({ type: 'x.updated', data: { id: 'r1', resource: way } });
      return signed('standard-webhooks', WHSEC, 'echo-token', body, way);
    }),
  ];
  const answers = await Promise.all(deliveries.map((delivery) => serve.ask(delivery)));
  return [...new Set(answers.map(({ status }) => status))];
}

/** Requests of strangers that hold secrets where an answer or a log line could repeat them. */
async function askWithSecrets({ serve }: SecretsStage): Promise<void> {
  const { apiKey, query, password } = SECRETS;
  const authorization = `Basic ${Buffer.from(`nobody:${password}`).toString('base64')}`;
  await serve.ask({ path: `/?password=${encodeURIComponent(password)}`, headers: { authorization } });
  await serve.ask({ path: `/${encodeURIComponent(apiKey)}`, headers: { referer: apiKey, 'x-request-id': apiKey } });
  await serve.ask({ path: '/metrics', headers: { authorization: `Bearer ${apiKey}`, 'user-agent': apiKey } });
  const hook = `/webhooks/blog?t=${encodeURIComponent(query)}`;
  await serve.ask({ method: 'POST', path: hook, headers: JSON_TYPE, body: WHSEC });
  await serve.ask({ method: 'POST', path: `/webhooks/${encodeURIComponent(apiKey)}`, headers: JSON_TYPE });
}

describe('F211 a service that runs for long keeps its secrets', () => {
  it('G25 in all that it writes and answers, whatever services and senders do with them', async () => {
    const stage = await secretsStage();
    await firstRuns(stage);
    expect(await deliverSecrets(stage)).toEqual([202]);
    await askWithSecrets(stage);
    const { serve, command, page } = stage;
    await until(() => serve.written().includes('a delivery was deferred'));
    await until(() => serve.written().includes('the monitor was not reached'));
    for (const path of ['/', '/status.json', '/metrics', '/readyz']) expect((await page(path)).status).toBe(200);
    for (const form of [[], ['--json']]) {
      await command(statusCommand, ...form);
      await command(deliveriesCommand, 'list', ...form);
      await command(deliveriesCommand, 'show', '1', ...form);
      await command(checkCommand, 'web_page', 'cut_request_id', '--source', 'echo-token', ...form);
    }
    expect(stage.printed()).toContain('web_page');
    expect(stage.tokens.length).toBeGreaterThan(0);
    expect(await serve.stop()).toEqual({ code: 0, signal: null });
    expect(stage.leaks()).toEqual([]);
  });

  it('F152 and says why it ends after an uncaught error, without the secret in the error', async () => {
    const folder = servable();
    const serve = await startServe(folder, { env: { WH_TEXT: WHSEC, NODE_OPTIONS: BREAKING } });
    writeFileSync(path.join(folder, 'break'), '');
    expect(await serve.ended).toEqual({ code: 1, signal: null });
    expect(serve.written()).toMatch(/bug with \*\*\*/);
    expect(leakFinder({ WHSEC })('', serve.written())).toEqual([]);
  });
});

describe('F214 secrets of webhooks', () => {
  it('are read from files without what editors and platforms add; those that have run out are told at the start', async () => {
    const folder = servable();
    writeFileSync(path.join(folder, 'mounted'), `\uFEFF${WHSEC}\r\n\n`);
    const secrets = [`\${file:${folder}/mounted}`, { value: OLD, until: '2021-02-03T04:05:06Z' }];
    const serve = await startServe(servable(folder, { blog: { secrets }, closed: { secrets: secrets.slice(1) } }), {
      isHere: true,
    });
    const post = async (source: string, secret: string) =>
      (await serve.ask(signed('standard-webhooks', secret, source, '{}', 'm'))).status;
    expect([await post('blog', WHSEC), await post('blog', OLD)]).toEqual([202, 401]);
    // Where all have run out, no delivery is believed.
    expect([await post('closed', WHSEC), await post('closed', OLD)]).toEqual([401, 401]);
    expect(warnings(serve.written())).toEqual([
      { source: 'blog', message: expect.stringMatching(/^1 of 2 webhook secrets .*2021-02-03T04:05:06/) },
      { source: 'closed', message: expect.stringContaining('every delivery is refused') },
    ]);
  });
});

/** Options of Node with which the process fails by an uncaught error once there is a file `break`. */
const BREAKING = `--import=data:text/javascript,${encodeURIComponent(`import { existsSync } from 'node:fs';
  const fail = () => { const key = process.env.WH_TEXT; Promise.reject(new Error('bug with ' + key, { cause: { key } })); };
  const timer = setInterval(() => { if (existsSync('break')) fail(clearInterval(timer)); }, 20);`)}`;

/** A folder with the config of sources that nobody answers for, by name with what they say of webhooks. */
function servable(
  folder = tempFolder(),
  webhooks: Record<string, object> = { blog: { secrets: ['${WH_TEXT:-}'] } },
): string {
  const auth = { type: 'api_key', key: 'k'.repeat(20) };
  const schedule = { incremental: null, full: null };
  const source = { base_url: 'http://127.0.0.1:1', auth, profile: 'content-service', schedule };
  const sources = Object.fromEntries(Object.entries(webhooks).map(([name, webhook]) => [name, { ...source, webhook }]));
  writeYaml(folder, { config: { warehouse: 'sqlite:{source}.db', sources, serve: { port: 0 } } });
  return folder;
}

/** What the log says as warnings about the settings. */
function warnings(written: string): object[] {
  const lines = written
    .trim()
    .split('\n')
    .map((line): Record<string, unknown> => JSON.parse(line));
  return lines
    .filter(({ level, msg }) => level === 'warn' && String(msg).includes('webhook secret'))
    .map(({ source, msg }) => ({ source, message: msg }));
}
