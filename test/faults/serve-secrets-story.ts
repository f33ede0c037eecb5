import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { onTestFinished } from 'vitest';
import { checkCommand } from '../../src/cli/check.ts';
import type { CliContext } from '../../src/cli/command/context.ts';
import { printError } from '../../src/cli/command/output.ts';
import { deletesCommand } from '../../src/cli/deletes.ts';
import { statusCommand } from '../../src/cli/status.ts';
import { syncCommand } from '../../src/cli/sync.ts';
import { deliveriesCommand, webhooksCommand } from '../../src/cli/webhooks.ts';
import { signatureSchema } from '../../src/config/profile/signature-scheme.ts';
import { signDelivery } from '../../src/server/signature/sign-delivery.ts';
import { inMemory } from '../cli/in-process.ts';
import { type Sandbox, startSandbox } from '../sandbox/service/sandbox.ts';
import { sampled } from '../support/length.ts';
import type { Answered } from '../support/raw-request.ts';
import { tempFolder } from '../support/temp-warehouse.ts';
import { filesIn, type Leak, leakFinder } from './canaries.ts';
import { ECHOES, type EchoingService, startEchoingService } from './echoing-service.ts';
import { type ServeProcess, startServe, until, writeYaml } from './serve-stage.ts';

/** A secret of Standard Webhooks whose base64 has both marks that URLs escape. */
function whsec(): string {
  const text = randomBytes(30).toString('base64');
  return /\+.*\/|\/.*\+/.test(text) ? `whsec_${text}` : whsec();
}

/** Every kind of secret that there is, by what it is for. */
export function freshSecrets() {
  const mark = randomBytes(4).toString('hex');
  return {
    apiKey: `key${mark}/canary+0815=xy`,
    clientSecret: `cli${mark}/secret+canary`,
    whText: whsec(),
    whFile: whsec(),
    whOld: whsec(),
    inBody: `pri${mark}-json"se\\cret canary`,
    bearer: `bea${mark}/sec+ret=canary`,
    basic: `hook:bas${mark}/secret+canary`,
    query: `que${mark}/secret&canary x`,
    header: `hea${mark}-static"header/canary`,
    password: `pas${mark}-pässword/<canary>`,
    profileHeader: `phe${mark}-profile-header/canary`,
    profileQuery: `pqu${mark}-profile query/canary`,
    ping: `pin${mark}-canary-ping`,
  };
}

export type Secrets = ReturnType<typeof freshSecrets>;

/** Sources whose sender gives its secret instead of a signature, and where it stands. */
const ODD_SCHEMES = {
  constructor: { preset: 'prismic', secret: 'inBody' },
  bearer: { preset: 'bearer', secret: 'bearer' },
  basic: { preset: 'basic', secret: 'basic' },
  query: { preset: 'query-token', secret: 'query' },
  header: { preset: 'static-header', secret: 'header' },
} as const;

/** One whole life of `serve` among services that give secrets back, with everything that it wrote and answered. */
export interface SecretsStage {
  secrets: Secrets;
  folder: string;
  serve: ServeProcess;
  service: EchoingService;
  sandbox: Sandbox;
  /** Addresses of monitors. */
  pings: Readonly<Record<string, string>>;
  /** What commands have printed. */
  printed: () => string;
  command: (make: (context: CliContext) => Command, ...args: string[]) => Promise<number>;
  leaks: () => Leak[];
}

/** The page tells of all sources at length. */
const PAGE_EVERY_MS = 500;
const OWN_FILES = /\.(yaml|secret|json)$/;

/** Resources of the echoing service; those that limit a client have a source of their own. */
const LIMITING = ['limit-headers', 'long-wait'];
const ALL_WAYS = Object.keys(ECHOES).filter((way) => !LIMITING.includes(way));
/** Those that `check` is asked about as well. */
const CHECKED = new Set(['web-page', 'cut-request-id']);
/** In the short form the two sources that give back what they were sent share a quarter of the ways. */
const WAYS: Readonly<Record<string, readonly string[]>> = {
  'echo-key': sampled(ALL_WAYS, 8),
  'echo-token': ALL_WAYS.filter((way) => CHECKED.has(way) || sampled(ALL_WAYS, 8, 4).includes(way)),
};
const LEAST_WAYS = Math.min(...Object.values(WAYS).map(({ length }) => length));

export async function secretsStage(secrets: Secrets = freshSecrets()): Promise<SecretsStage> {
  const folder = tempFolder();
  const service = await startEchoingService();
  onTestFinished(() => service.close());
  const { apiKey, clientSecret } = secrets;
  const sandbox = await startSandbox({ apiKey, clientSecret, generate: { content: 16, images: 4, analytics: 4 } });
  onTestFinished(() => sandbox.close());
  writeFileSync(path.join(folder, 'webhook.secret'), `\uFEFF${secrets.whFile}\r\n`);
  const pings = {
    start: `http://127.0.0.1:1/${secrets.ping}`,
    success: `${service.url}/ping-success/${secrets.ping}/{resource}`,
    failure: `${service.url}/ping-failure?key=${secrets.ping}`,
  };
  writeYaml(folder, settingsOf({ secrets, folder, sandbox, service, pings }));
  writeFileSync(path.join(folder, 'event.json'), '{"type":"content.updated"}');
  const env = { WH_TEXT: secrets.whText, PROFILE_HEADER: secrets.profileHeader, PROFILE_QUERY: secrets.profileQuery };
  await publishSecrets(sandbox, secrets);
  const serve = await startServe(folder, { env });
  const commandLine = readFileSync(`/proc/${serve.pid}/cmdline`, 'latin1');
  let printed = '';
  return {
    secrets,
    folder,
    serve,
    pings,
    service,
    sandbox,
    printed: () => printed,
    command: async (make, ...args) => {
      const ended = await inProcess(make, args, folder, env);
      printed += ended.text;
      return ended.code;
    },
    leaks: () => {
      const tokens = Object.fromEntries(service.tokens.map((token, at) => [`token ${at}`, token]));
      const find = leakFinder({ ...partsOf(secrets), ...tokens });
      return [
        ...find('output of serve', latin1(serve.written())),
        ...find('answers of serve', latin1(serve.answered())),
        ...find('output of commands', latin1(printed)),
        ...filesIn(folder, (file) => OWN_FILES.test(file)).flatMap(([file, bytes]) => find(file, bytes)),
        ...find('command line', commandLine),
      ];
    },
  };
}

/** Whole and in the parts that stand alone somewhere. */
function partsOf(secrets: Secrets): Record<string, string> {
  const { whText, whFile, whOld, basic } = secrets;
  const keys = { whText, whFile, whOld };
  const bare = Object.entries(keys).map(([name, text]) => [`${name} bare`, text.slice('whsec_'.length)]);
  return { ...secrets, ...Object.fromEntries(bare), 'basic password': basic.slice('hook:'.length) };
}

function latin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}

function settingsOf({
  secrets,
  folder,
  sandbox,
  service,
  pings,
}: Omit<SecretsStage, 'serve' | 'printed' | 'command' | 'leaks'>): Record<string, object> {
  const key = { type: 'api_key', key: secrets.apiKey };
  const { clientId: client_id, clientSecret: client_secret } = sandbox.oauth;
  const oauth = { type: 'oauth', client_id, client_secret };
  const blog = {
    base_url: sandbox.url,
    auth: key,
    profile: './profile.yaml',
    webhook: {
      secrets: [
        '${WH_TEXT}',
        { value: `\${file:${folder}/webhook.secret}`, until: '2999-01-01T00:00:00Z' },
        { value: secrets.whOld, until: '2020-01-01T00:00:00Z' },
      ],
      public_url: 'https://hooks.example.com/blog',
    },
    ping: pings,
  };
  const received = (webhook: string | undefined, profile: string, more: object = {}) => ({
    base_url: sandbox.url,
    auth: oauth,
    profile: `./${profile}.yaml`,
    resources: ['content'],
    ...(webhook === undefined ? {} : { webhook: { secrets: [webhook] } }),
    ...more,
  });
  const echo = (name: string, auth: object, path = ''): Record<string, object> => ({
    [name]: {
      ...received(secrets.whText, name),
      base_url: `${service.url}${path}`,
      auth,
      resources: undefined,
      max_wait: '2s',
    },
  });
  const sources = {
    blog,
    constructor: received(secrets.inBody, 'prismic-profile'),
    bearer: received(secrets.bearer, 'bearer-profile'),
    basic: received(secrets.basic, 'basic-profile'),
    query: received(secrets.query, 'query-profile'),
    header: received(secrets.header, 'header-profile'),
    ...echo('echo-key', key),
    ...echo('echo-token', oauth),
    ...Object.assign({}, ...LIMITING.map((way) => echo(`echo-${way}`, key))),
    ...echo('token-refused', oauth, '/token-refused'),
    ...echo('token-page', oauth, '/token-page'),
  };
  const serve = { port: 0, auth: { user: 'operator', password: secrets.password } };
  return {
    config: { warehouse: 'sqlite:{source}.db', sources, serve, log: { level: 'trace' } },
    ...profiles(),
  };
}

function profiles(): Record<string, object> {
  return {
    profile: profile({}),
    'prismic-profile': profile({ webhooks: { signature: 'prismic' } }),
    'bearer-profile': profile({
      webhooks: { signature: 'bearer', kind: 'header:x-event-kind', id: 'header:authorization' },
    }),
    'basic-profile': profile({ webhooks: { signature: 'basic' }, headers: { 'X-Api-Key': '${PROFILE_HEADER}' } }),
    'query-profile': profile({ webhooks: { signature: 'query-token' } }, { query: { api_key: '${PROFILE_QUERY}' } }),
    ...Object.fromEntries(Object.entries(WAYS).map(([name, ways]) => [name, echoProfile(ways)])),
    ...Object.fromEntries(LIMITING.map((way) => [`echo-${way}`, echoProfile([way])])),
    ...Object.fromEntries(['token-refused', 'token-page'].map((name) => [name, echoProfile(['web-page'])])),
    'header-profile': profile({ webhooks: { signature: 'static-header', kind: 'header:x-api-key' } }),
  };
}

function profile(fields: object, resource: object = {}): object {
  const http = { headers_timeout: '3s', timeout: '5s', attempts: 2, concurrency: 4 };
  return { extends: 'content-service', http, ...fields, resources: { content: { page: { size: 4 }, ...resource } } };
}

/** A resource for each way, named as it is with `_` for `-`. */
function echoProfile(ways: readonly string[]): object {
  const http = { headers_timeout: '3s', timeout: '5s', attempts: 1, concurrency: 8 };
  const listing = { page: { style: 'cursor', size: 4 } };
  const resources = ways.map((way) => [
    way.replaceAll('-', '_'),
    { path: `/${way}`, item: `/${way}/{id}`, ...listing },
  ]);
  return { http, resources: Object.fromEntries(resources) };
}

/** Records whose fields and ids are secrets: content is copied as it is, and told nowhere else. */
async function publishSecrets(sandbox: Sandbox, secrets: Secrets): Promise<void> {
  const { whOld } = secrets;
  const deep = Array.from({ length: 200 }).reduce<object>((inner) => ({ [whOld]: inner }), { whOld });
  for (const record of [{ title: whOld }, { id: whOld, title: 'x' }, { title: 'too deep', deep }]) {
    const headers = { authorization: `Bearer ${secrets.apiKey}`, 'content-type': 'application/json' };
    const answer = await fetch(`${sandbox.url}/v1/content`, { method: 'POST', headers, body: JSON.stringify(record) });
    if (answer.status !== 201) throw new Error(`the service took no record: ${await answer.text()}`);
  }
}

/** What the pages say, to somebody who may read them. */
export function page({ serve, secrets }: SecretsStage, path: string): Promise<Answered> {
  const credential = Buffer.from(`operator:${secrets.password}`).toString('base64');
  return serve.ask({ path, headers: { authorization: `Basic ${credential}` } });
}

interface Status {
  sources: { source: string; webhooks: { waiting: number } | null; resources: { runs: { status: string }[] }[] }[];
}

/** Waits until every resource has had a run, but for one whose service makes it wait, and returns what `/status.json` says then. */
export function firstRuns(stage: SecretsStage): Promise<Status> {
  return until(async () => {
    const status: Status = JSON.parse((await page(stage, '/status.json')).body);
    const awaited = status.sources.filter(({ source }) => source !== 'echo-limit-headers');
    const runs = awaited.flatMap(({ resources }) => resources.map((resource) => resource.runs[0]?.status));
    return runs.every((run) => run !== undefined && run !== 'running' && run !== 'interrupted') ? status : null;
  }, PAGE_EVERY_MS);
}

function contentEvent(id: unknown, more: object = {}): object {
  return { type: 'content.updated', data: { id, resource: 'content', ...more } };
}

/** Deliveries that their receiver believes, each with what a delivery can hold of secrets; returns their statuses. */
export async function deliverSecrets(stage: SecretsStage): Promise<number[]> {
  const { serve, secrets, sandbox, service, pings } = stage;
  const { ping: _, ...others } = secrets;
  const known = { ...others, pings };
  const [first] = sandbox.store.list('content');
  const inId = Buffer.from(secrets.apiKey).toString('base64url');
  const events: object[] = [
    contentEvent(first?.id, { note: JSON.stringify({ ...known, tokens: service.tokens }), debug: known }),
    contentEvent(secrets.apiKey),
    contentEvent(`of ${secrets.clientSecret}`),
    contentEvent(secrets.whOld),
    { ...contentEvent('x'), type: secrets.apiKey },
    { ...contentEvent(secrets.password), type: 'content.deleted' },
    { type: 'content.updated', data: { id: 'x', resource: secrets.whOld } },
    { [secrets.header]: 1, authorization: `Basic ${Buffer.from(secrets.basic).toString('base64')}` },
  ];
  const bodies = [
    ...events.map((event) => JSON.stringify(event)),
    `{"broken": "${secrets.apiKey}`,
    Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from(`latin ${secrets.whFile}`)]),
    secrets.apiKey,
  ];
  const deliveries = [
    ...bodies.map((body, at) => signed('standard-webhooks', secrets.whText, 'blog', body, `m_${at}_${inId}`)),
    ...Object.entries(ODD_SCHEMES).map(([source, { preset, secret }]) =>
      signed(preset, secrets[secret], source, JSON.stringify(contentEvent(first?.id)), `m_${source}`),
    ),
    ...Object.entries(WAYS).flatMap(([source, ways]) =>
      ways.map((way) => {
        const body = JSON.stringify({ type: 'x.updated', data: { id: 'r1', resource: way.replaceAll('-', '_') } });
        return signed('standard-webhooks', secrets.whText, source, body, way);
      }),
    ),
  ];
  const answers = await Promise.all(deliveries.map((delivery) => serve.ask(delivery)));
  return [...new Set(answers.map(({ status }) => status))];
}

/** Requests of strangers that hold secrets where an answer, a log or a figure could repeat them. */
export async function askWithSecrets({ serve, secrets }: SecretsStage): Promise<void> {
  const { apiKey, whText, query, password } = secrets;
  const json = { 'content-type': 'application/json' };
  const basic = (user: string): string => `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
  await serve.ask({ path: `/?password=${encodeURIComponent(password)}`, headers: { authorization: basic('nobody') } });
  await serve.ask({ path: `/${encodeURIComponent(apiKey)}`, headers: { referer: apiKey, 'x-request-id': apiKey } });
  await serve.ask({ path: '/metrics', headers: { authorization: `Bearer ${apiKey}`, 'user-agent': apiKey } });
  await serve.ask({
    method: 'POST',
    path: `/webhooks/blog?t=${encodeURIComponent(query)}`,
    headers: json,
    body: whText,
  });
  await serve.ask({ method: 'POST', path: '/webhooks/blog', headers: { 'content-type': encodeURIComponent(apiKey) } });
  await serve.ask({ method: 'POST', path: `/webhooks/${encodeURIComponent(apiKey)}`, headers: json });
  await serve.ask({ method: 'POST', path: '/webhooks/bearer', headers: { ...json, authorization: `Bearer ${query}` } });
}

/** What an operator asks for while `serve` runs. */
export async function runCommands({ command }: SecretsStage): Promise<void> {
  for (const form of [[], ['--json']]) {
    await command(statusCommand, ...form);
    await command(deletesCommand, 'list', '--source', 'blog', ...form);
    await command(deliveriesCommand, 'list', ...form);
    await command(deliveriesCommand, 'show', '1', ...form);
    await command(checkCommand, 'web_page', 'cut_request_id', '--source', 'echo-token', ...form);
  }
  await command(syncCommand, '--due', '--json', '--source', 'echo-token');
  await command(deliveriesCommand, 'replay', '--dead');
  await command(
    webhooksCommand,
    'send',
    'event.json',
    '--source',
    'basic',
    '--url',
    'http://127.0.0.1:1/webhooks/basic',
  );
}

/** Waits until it has come to what could tell a secret: failed walks, failed readings, monitors that did not answer. */
export async function troubled({ serve }: SecretsStage): Promise<void> {
  const count = (text: string): number => serve.written().split(text).length - 1;
  await until(() => count('scan failed') > LEAST_WAYS && count('a delivery was deferred') > LEAST_WAYS);
  await until(() => count('the monitor was not reached') > 0);
}

/** Secrets that were found anywhere but where content has them, because content is copied as it is. */
export function leaksBeyondContent(stage: SecretsStage): Leak[] {
  return stage
    .leaks()
    .filter(({ secret, where }) => !(secret.startsWith('whOld') && /^[a-z]+\.db(-wal)?$/.test(where)));
}

/** A delivery that `source` believes, for one of the built-in schemes. */
export function signed(preset: string, value: string, source: string, body: string | Buffer, id: string) {
  const draft = { body: Buffer.from(body), id, at: Date.now(), method: 'POST', path: `/webhooks/${source}` };
  return signDelivery(signatureSchema.parse(preset), { value }, { ...draft, publicUrl: null });
}

/** A command in this process, with what it printed and how it would have ended. */
async function inProcess(
  make: (context: CliContext) => Command,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv,
): Promise<{ code: number; text: string }> {
  const { context, ended } = inMemory(cwd, { env });
  context.json = args.includes('--json');
  let hasFailed = false;
  try {
    await make(context)
      .exitOverride()
      .parseAsync([...args, '--config', 'config.yaml', '--log-level', 'trace'], { from: 'user' });
  } catch (error) {
    hasFailed = true;
    await printError(context, error);
  }
  const { code, stdout, stderr } = ended();
  return { code: hasFailed ? 1 : code, text: `$ ${args.join(' ')}\n${stdout}${stderr}` };
}
