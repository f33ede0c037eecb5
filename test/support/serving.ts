import { createHash, createHmac } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import { Agent, request } from 'undici';
import { onTestFinished } from 'vitest';
import type { Clock } from '../../src/model/clock.ts';
import { startSandbox, type Sandbox, type SandboxOptions } from '../sandbox/service/sandbox.ts';
import type { Attention } from '../../src/server/status/attention.ts';
import type { ResourceStatus, SourceStatus, StatusSnapshot } from '../../src/server/status/snapshot.ts';
import { insideCommand, runCommand, spawnCommand, type Command, type Ended } from './command.ts';
import { differences } from './compare-copy.ts';
import { type Looks, looksOf, USUAL, type TestDatabase } from './databases.ts';
import { IS_LONG } from './length.ts';

/** Fields of the settings or of a profile, laid over those of the stage. */
type Fields = Record<string, unknown>;

export interface ServingOptions {
  sandbox?: SandboxOptions;
  /** Fields of the profile. */
  profile?: Fields;
  /** Fields of every source. */
  source?: Fields;
  /** Fields beside the sources. */
  settings?: Fields;
  /** Sources by name, each with what it has of its own; one `blog` where absent. */
  sources?: Readonly<Record<string, Fields>>;
  /** The usual one where absent. */
  database?: TestDatabase;
  /** On SQLite, below the stage's folder; `{source}.db` where absent. */
  warehouse?: string;
  /**
   * True where each `serve` runs inside this process: for stories that are not about the process, its signals, its rights
   * or its death, and in which no other command and no second `serve` works on what it owns. In the long form each is a
   * process of its own all the same.
   */
  isInside?: boolean;
  /** Of a `serve` inside this process, where that is not to wait as long as others; the machine's where absent. */
  clock?: Clock;
}

export interface Start {
  /** Any that is free where absent. */
  port?: number;
  /** Put before the command, as `ulimit -n 64; exec`. */
  shell?: string;
  /** Other than the stage's others. */
  isInside?: boolean;
}

/** One event as a service would send it. */
export interface SentDelivery {
  id: string;
  body: string | Uint8Array<ArrayBuffer>;
  source?: string;
}

/** A `serve` that listens. */
export interface Serving {
  command: Command;
  url: string;
  /** Body and status of a page. */
  page(path: string): Promise<{ status: number; body: string }>;
  /** `/status.json`. */
  status(): Promise<StatusSnapshot & { attention: Attention[] }>;
  /** Sends one signed delivery; its status, 0 where no answer came. */
  deliver(delivery: SentDelivery): Promise<number>;
  /** Ends it as an operator does. */
  stop(signal?: NodeJS.Signals): Promise<Ended & { ms: number }>;
}

/** A service, the settings that lead to it, and a folder; all gone with `close`. */
export interface ServingStage extends Looks {
  folder: string;
  sandbox: Sandbox;
  /** Paths of a source's files on SQLite. */
  file(source?: string): string;
  inboxFile(source?: string): string;
  /** Of a source's warehouse, on either database. */
  address(source?: string): string;
  /** Starts `serve`, and waits until it listens. Throws where it ends before. */
  serve(start?: Start): Promise<Serving>;
  /** Starts `serve` and waits for nothing. */
  launch(start?: Start): Command;
  /** Runs another command beside it. */
  run(...args: string[]): Promise<Ended>;
  /** Has the service tell a `serve` of changes; returns the subscription's id. */
  subscribe(serving: Pick<Serving, 'url'>, events?: readonly string[], source?: string): Promise<string>;
  unsubscribe(id: string): Promise<void>;
  /** Sends one signed delivery to whoever listens there; its status, 0 where no answer came. */
  deliver(url: string, delivery: SentDelivery): Promise<number>;
  /** Writes a record of the service, fields over what it had, changed just now; it tells its subscribers. */
  write(resource: string, id: string, fields?: Fields): void;
  /** Gives what stands in a source's warehouse, or its inbox, to `look`, as a SQLite database on either. */
  read<T>(look: (db: Database.Database) => T, source?: string): Promise<T>;
  readInbox<T>(look: (db: Database.Database) => T, source?: string): Promise<T>;
  inbox: Looks;
  /** Runs a statement on a source's warehouse, to age it. */
  change(statement: string, source?: string): Promise<number>;
  /** Changes settings for the next start. */
  configure(options: ServingOptions): void;
  /** Until every resource has been walked whole. */
  fresh(serving: Serving, source?: string): Promise<void>;
  /** Until the copy is the service, no delivery waits, and nothing of both changes any more. */
  settled(source?: string, patienceMs?: number): Promise<void>;
  close(): Promise<void>;
}

const SECRET = `whsec_${Buffer.alloc(32, 'content-sync').toString('base64')}`;
const RESOURCES = ['content', 'images', 'analytics'] as const;
/** On a machine that is busy with everything else as well. */
const PATIENCE_MS = 45_000;
/** Between two looks, as long as so many of them take, up to a second. */
const [MOST_RATIO, MOST_WAIT_MS] = [6, 1_000];
/** Characters of the log of a `serve` that has ended. */
const MOST_SAID = 2_000;

/** A stage that is cleared away with the test. */
export async function servingStage(options: ServingOptions = {}): Promise<ServingStage> {
  const stage = await openServingStage(options);
  onTestFinished(() => stage.close());
  return stage;
}

/** A stage for several tests: whoever opens it closes it. */
export async function openServingStage(options: ServingOptions = {}): Promise<ServingStage> {
  const sandbox = await startSandbox({ webhookRetry: 200, ...options.sandbox });
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-serve-'));
  const config = path.join(folder, 'content-sync.yaml');
  const agent = new Agent({ connections: 64 });
  const { commands, launch, serve } = startsIn(folder, options, agent);
  const database = options.database ?? USUAL;
  const opened = await database.open(folder);
  const warehouse = opened.setting.replace('{source}.db', options.warehouse ?? '{source}.db');
  const address = (source = 'blog'): string => warehouse.replace('{source}', source);
  // On Postgres it is the same schema.
  const inboxAddress = (source?: string): string => address(source).replace(/\.db$/, '-inbox.db');
  const configure = (changed: ServingOptions): void =>
    writeSettings({ folder, warehouse, sandbox }, { ...options, ...changed });
  configure({});
  const stage: ServingStage = {
    folder,
    sandbox,
    file: (source) => address(source).slice('sqlite:'.length),
    inboxFile: (source) => inboxAddress(source).slice('sqlite:'.length),
    address,
    configure,
    launch,
    serve,
    run: (...args) => runCommand([...args, '--config', config], folder),
    subscribe: async ({ url }, events = ['*'], source = 'blog') => {
      const made = await api(sandbox, 'POST', '/v1/webhooks', {
        url: `${url}/webhooks/${source}`,
        events,
        secret: SECRET,
      });
      return String(made['id']);
    },
    unsubscribe: async (id) => void (await api(sandbox, 'DELETE', `/v1/webhooks/${id}`)),
    write: (resource, id, fields = {}) => {
      const before: object = JSON.parse(sandbox.store.get(resource, id)?.text ?? '{}');
      sandbox.store.put(resource, { ...before, ...fields, id, updated_at: new Date().toISOString() });
    },
    deliver: (url, delivery) => deliver(url, delivery, agent),
    read: (look, source) => database.read(address(source), look),
    readInbox: (look, source) => database.read(inboxAddress(source), look),
    ...looksOf((look) => database.read(address(), look)),
    inbox: looksOf((look) => database.read(inboxAddress(), look)),
    change: (statement, source) => database.write(address(source), statement),
    fresh: (serving, source) => until('fresh', () => isWhole(serving, source)),
    settled: (source, patienceMs) => until('settled', () => settledNow(stage, source), patienceMs),
    close: async () => {
      for (const command of commands) command.kill('SIGKILL');
      await Promise.all(commands.map(({ ended }) => ended));
      await Promise.all([sandbox.close(), agent.destroy(), opened.close()]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
  return stage;
}

/** Starts `serve` for a stage, and remembers each. */
function startsIn(
  folder: string,
  options: ServingOptions,
  agent: Agent,
): Pick<ServingStage, 'launch' | 'serve'> & { commands: Command[] } {
  const commands: Command[] = [];
  const noted = (command: Command): Command => {
    commands.push(command);
    return command;
  };
  const args = ({ port = 0 }: Start): string[] => {
    return ['serve', '--port', String(port), '--config', path.join(folder, 'content-sync.yaml')];
  };
  const launch = ({ shell, ...start }: Start = {}): Command => {
    const how = { cwd: folder, ...(shell === undefined ? {} : { shell }) };
    return noted(spawnCommand(args(start), how));
  };
  const serve = async (start: Start = {}): Promise<Serving> => {
    const isInside = !IS_LONG && (start.isInside ?? options.isInside ?? false);
    if (!isInside) return listening(launch(start), agent);
    return listening(noted(await insideCommand(args(start), folder, options.clock)), agent);
  };
  return { commands, launch, serve };
}

/**
 * Looks again and again until it holds. Throws with what was seen last after a time that a busy machine needs: a look
 * returns true where it holds, and else whatever tells why it does not.
 */
export async function until(what: string, look: () => unknown, patienceMs = PATIENCE_MS): Promise<void> {
  const deadline = performance.now() + patienceMs;
  for (let wait = 5; ; wait = Math.min(100, wait * 1.5)) {
    const began = performance.now();
    const seen = await seenBy(look);
    if (seen === true) return;
    const took = performance.now() - began;
    if (performance.now() > deadline) throw new Error(`not ${what} after ${patienceMs} ms: ${JSON.stringify(seen)}`);
    // A look at a whole copy may take as long as what it waits for: the processor is left to that most of the time.
    await delay(Math.max(wait, Math.min(MOST_RATIO * took, MOST_WAIT_MS)));
  }
}

/** What cannot be looked at yet is not there yet. */
async function seenBy(look: () => unknown): Promise<unknown> {
  try {
    return await look();
  } catch (error) {
    return String(error);
  }
}

/**
 * A port for a `serve` that is to listen where the one before it did. Below those that the system gives out by itself,
 * so that nobody gets it in between, and apart for each process of the tests.
 */
export async function freePort(): Promise<number> {
  for (let port = 20_000 + (process.pid % 1_000) * 10; ; port += 1) {
    const server = createServer();
    try {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
      return port;
    } catch {
      // Somebody has it.
    } finally {
      server.close();
    }
  }
}

/** The part of one source in a snapshot. Throws where it has none. */
export function sourceIn({ sources }: StatusSnapshot, name = 'blog'): SourceStatus {
  const found = sources.find(({ source }) => source === name);
  if (found === undefined) throw new Error(`the page shows no source ${name}`);
  return found;
}

/** The part of one resource in a snapshot. Throws where it has none. */
export function resourceIn(snapshot: StatusSnapshot, name: string, source = 'blog'): ResourceStatus {
  const found = sourceIn(snapshot, source).resources.find(({ resource }) => resource === name);
  if (found === undefined) throw new Error(`the page shows no resource ${name}`);
  return found;
}

/** The body of an event as the sandbox and the default profile write it. */
export function eventBody(data: object, type = 'content.updated'): string {
  return JSON.stringify({ type, data });
}

/** Gives an image of a sandbox another file; returns its hash. */
export async function uploadFile(
  { url, apiKey }: Sandbox,
  id: string,
  body: string | Uint8Array<ArrayBuffer>,
  type?: string,
): Promise<string> {
  const headers = { authorization: `Bearer ${apiKey}`, ...(type === undefined ? {} : { 'content-type': type }) };
  const answer = await fetch(`${url}/v1/images/${id}/file`, { method: 'PUT', headers, body });
  if (!answer.ok) throw new Error(`the sandbox answered ${answer.status}`);
  return createHash('sha256').update(body).digest('hex');
}

/** The lines of a log about what a process was told to do. */
export function controlsIn({ command }: Serving): ControlLine[] {
  const lines = command.logged().split('\n');
  return lines.filter((line) => line.includes('"msg":"control"')).map((line): ControlLine => JSON.parse(line));
}

interface ControlLine {
  via: string;
  by: string;
  done: boolean;
  control: { action: string };
}

/** The headers of a delivery that is signed now. */
function signedHeaders(id: string, body: string | Uint8Array): Record<string, string> {
  const timestamp = String(Math.floor(Date.now() / 1_000));
  const key = Buffer.from(SECRET.replace('whsec_', ''), 'base64');
  const digest = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64');
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${digest}`,
  };
}

interface Place {
  folder: string;
  warehouse: string;
  sandbox: Sandbox;
}

function writeSettings({ folder, warehouse, sandbox }: Place, options: ServingOptions): void {
  const page = { size: 40 };
  const profile = {
    extends: 'content-service',
    resources: Object.fromEntries(RESOURCES.map((name) => [name, { page }])),
    ...options.profile,
  };
  const usual = {
    base_url: sandbox.url,
    auth: { type: 'api_key', key: sandbox.apiKey },
    profile: './profile.yaml',
    schedule: { incremental: '17 4 1 1 *', full: '17 3 1 1 *', jitter: '0s' },
    webhook: { secrets: [SECRET] },
    ...options.source,
  };
  const sources = Object.entries(options.sources ?? { blog: {} }).map(([name, own]) => [name, { ...usual, ...own }]);
  const settings = {
    warehouse,
    log: { level: 'info' },
    sources: Object.fromEntries(sources),
    ...options.settings,
  };
  // JSON is YAML.
  writeFileSync(path.join(folder, 'profile.yaml'), JSON.stringify(profile));
  writeFileSync(path.join(folder, 'content-sync.yaml'), JSON.stringify(settings));
}

async function listening(command: Command, agent: Agent): Promise<Serving> {
  const ended = command.ended.then(() => true);
  while (urlIn(command.logged()) === null) {
    if (await Promise.race([delay(5, false), ended])) throw new Error(`serve ended: ${(await command.ended).stderr}`);
  }
  const url = urlIn(command.logged()) ?? '';
  let end: Ended | null = null;
  void command.ended.then((how) => (end = how));
  const page = async (at: string): Promise<{ status: number; body: string }> => {
    const { statusCode, body } = await request(`${url}${at}`, { dispatcher: agent }).catch((error: unknown) => {
      throw end === null ? error : new Error(endText(end), { cause: error });
    });
    return { status: statusCode, body: await body.text() };
  };
  return {
    command,
    url,
    page,
    status: async () => JSON.parse((await page('/status.json')).body),
    deliver: (delivery) => deliver(url, delivery, agent),
    stop: async (signal = 'SIGTERM') => {
      const began = performance.now();
      command.kill(signal);
      const end = await command.ended;
      return { ...end, ms: performance.now() - began };
    },
  };
}

/** Why nobody answers any more. */
function endText({ code, signal, stderr }: Ended): string {
  return `serve has ended with ${signal ?? code}, and said at last: ${stderr.slice(-MOST_SAID)}`;
}

function urlIn(log: string): string | null {
  const line = log.split('\n').find((one) => one.includes('"msg":"listening"'));
  if (line === undefined) return null;
  const { url }: { url: string } = JSON.parse(line);
  return url;
}

async function deliver(url: string, { id, body, source = 'blog' }: SentDelivery, agent: Agent): Promise<number> {
  try {
    const headers = signedHeaders(id, body);
    const answer = await request(`${url}/webhooks/${source}`, { method: 'POST', headers, body, dispatcher: agent });
    await answer.body.dump();
    return answer.statusCode;
  } catch {
    return 0;
  }
}

async function api(sandbox: Sandbox, method: string, at: string, body?: object): Promise<Fields> {
  const headers = { authorization: `Bearer ${sandbox.apiKey}`, 'content-type': 'application/json' };
  const answer = await fetch(`${sandbox.url}${at}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  if (!answer.ok) throw new Error(`${method} ${at}: ${answer.status} ${await answer.text()}`);
  const text = await answer.text();
  const made: Fields = text === '' ? {} : JSON.parse(text);
  return made;
}

async function isWhole(serving: Serving, source?: string): Promise<unknown> {
  const { resources } = sourceIn(await serving.status(), source);
  const left = resources.filter(({ last_full_at, running }) => last_full_at === null || running !== null);
  return left.length === 0 || left.map(({ resource, runs }) => ({ resource, runs }));
}

async function settledNow(stage: ServingStage, source?: string): Promise<unknown> {
  if (stage.sandbox.deliveries.pending > 0) return { undelivered: stage.sandbox.deliveries.pending };
  const waiting = await stage.readInbox(
    (db) => db.prepare("SELECT * FROM _sync_deliveries WHERE state = 'waiting' LIMIT 3").all(),
    source,
  );
  if (waiting.length > 0) return { waiting };
  const different = await stage.read((db) => differences(db, stage.sandbox.store), source);
  return different.length === 0 || { different };
}
