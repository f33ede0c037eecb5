import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { Pool } from 'undici';
import { inboxAddress } from '../../src/database/databases.ts';
import type { RequestEntry } from '../sandbox/service/request-log.ts';
import type { SandboxOptions } from '../sandbox/service/sandbox.ts';
import { OPEN_DATABASE } from './databases.ts';
import { openReader, type Reader } from './reader.ts';

/** A sandbox and a `serve` on it, each a process of its own, with one resource: content. */
export interface Staged {
  /** Where deliveries are posted to. */
  hook: string;
  secret: string;
  sandbox: SandboxProcess;
  serve: ChildProcess;
  /** Lines that `serve` has logged as warnings or worse. */
  complaints: string[];
  reader: Reader;
  inbox: Reader;
  /** Changes records through the service's API; throws where that is refused. */
  api(method: 'POST' | 'PATCH' | 'DELETE', id: string | null, record?: object): Promise<void>;
  /** Has the sandbox tell `serve` of every change. */
  subscribe(): Promise<void>;
  close(): Promise<void>;
}

export interface SandboxProcess {
  url: string;
  ids(): Promise<string[]>;
  requests(): Promise<RequestEntry[]>;
}

interface Options {
  sandbox: SandboxOptions;
  /** False to begin while `serve` still copies. */
  copied: boolean;
  /** A name of `OPEN_DATABASE`. */
  database: string;
  /** More of the environment of `serve`. */
  env?: Readonly<Record<string, string>>;
}

const MAIN = path.join(import.meta.dirname, '../../src/main.ts');
const KEY = 'bench-key';
const PATIENCE_MS = 60_000;

/** Starts both; with `copied` it resolves when everything is there. */
export async function staged({ sandbox: options, copied, database, env = {} }: Options): Promise<Staged> {
  const stack = new AsyncDisposableStack();
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-bench-'));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  try {
    const setting = await emptyDatabase(database, folder, stack);
    const address = setting.replace('{source}', 'bench');
    const sandbox = await startSandboxProcess({ ...options, apiKey: KEY }, stack);
    const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
    const { serve, url, complaints } = await startServe({ folder, setting, baseUrl: sandbox.url, secret, env }, stack);
    const reader = await opened(address, 'content', stack);
    const inbox = await opened(inboxAddress(address), '_sync_deliveries', stack);
    const pool = new Pool(sandbox.url, { connections: 16 });
    stack.defer(() => pool.close());
    const hook = `${url}/webhooks/bench`;
    const ask = async (method: 'POST' | 'PATCH' | 'DELETE', to: string, body?: object): Promise<void> => {
      const headers = { authorization: `Bearer ${KEY}`, 'content-type': 'application/json' };
      const answer = await pool.request({ path: to, method, headers, body: JSON.stringify(body) ?? null });
      await answer.body.dump();
      if (answer.statusCode >= 300) throw new Error(`${method} ${to} was answered ${answer.statusCode}`);
    };
    if (copied) await isCopied(reader);
    return {
      hook,
      secret,
      sandbox,
      serve,
      complaints,
      reader,
      inbox,
      api: (method, id, record) => ask(method, id === null ? '/v1/content' : `/v1/content/${id}`, record),
      subscribe: () => ask('POST', '/v1/webhooks', { url: hook, events: ['*'], secret }),
      close: () => stack.disposeAsync(),
    };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

/** Starts one, which ends with the stack. */
export async function startSandboxProcess(
  options: SandboxOptions,
  stack: AsyncDisposableStack,
): Promise<SandboxProcess> {
  const child = fork(path.join(import.meta.dirname, 'sandbox-process.ts'), [JSON.stringify(options)]);
  stack.defer(() => stopped(child));
  const open = new Map<number, (answer: never) => void>();
  const started = new Promise<{ url: string }>((resolve) => open.set(0, resolve));
  child.on('message', ({ number, answer }: { number: number; answer: never }) => open.get(number)?.(answer));
  let asked = 0;
  const ask = <T>(what: string, ...of: string[]): Promise<T> => {
    const number = ++asked;
    child.send({ number, ask: what, of });
    return new Promise<T>((resolve) => open.set(number, resolve));
  };
  return {
    url: (await started).url,
    ids: () => ask('ids', 'content'),
    requests: () => ask('requests'),
  };
}

/** The setting of a warehouse that nobody has used yet. */
async function emptyDatabase(name: string, folder: string, stack: AsyncDisposableStack): Promise<string> {
  const open = OPEN_DATABASE[name];
  if (open === undefined) throw new Error(`--database: one of ${Object.keys(OPEN_DATABASE).join(', ')}`);
  const database = await open(folder);
  stack.defer(() => database.close());
  return (await database.make('bench')).setting;
}

interface ServePlace {
  folder: string;
  setting: string;
  baseUrl: string;
  secret: string;
  env: Readonly<Record<string, string>>;
}

async function startServe({ folder, setting, baseUrl, secret, env }: ServePlace, stack: AsyncDisposableStack) {
  const config = path.join(folder, 'config.yaml');
  const bench = {
    base_url: baseUrl,
    auth: { type: 'api_key', key: KEY },
    profile: 'content-service',
    resources: ['content'],
    webhook: { secrets: [secret] },
  };
  // JSON is YAML.
  writeFileSync(config, JSON.stringify({ warehouse: setting, sources: { bench } }));
  const args = [MAIN, 'serve', '--config', config, '--port', '0', '--log-level', 'info'];
  const serve = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'], env: { ...process.env, ...env } });
  stack.defer(() => stopped(serve));
  const complaints: string[] = [];
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  createInterface(serve.stderr).on('line', (line) => {
    const { level = 'error', url }: { level?: string; url?: string } = line.startsWith('{') ? JSON.parse(line) : {};
    if (url !== undefined) resolve(url);
    if (level === 'warn' || level === 'error') complaints.push(line);
  });
  serve.once('exit', (code) => reject(new Error(`serve ended with ${code}:\n${complaints.join('\n')}`)));
  const url = await promise;
  return { serve, url, complaints };
}

async function stopped(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await Promise.race([ended, delay(10_000, undefined, { ref: false })]);
  child.kill('SIGKILL');
}

/** As soon as `serve` has made the table, and where it copies has begun with that. */
async function opened(address: string, table: string, stack: AsyncDisposableStack): Promise<Reader> {
  const found: Reader[] = [];
  await until(async () => {
    const reader = found[0] ?? (await openReader(address));
    found[0] = reader;
    const rows = await reader.rows(`SELECT 1 FROM ${table} LIMIT 1`);
    return table !== 'content' || rows.length > 0;
  }, `serve has not made ${table}`);
  const [reader] = found;
  if (reader === undefined) throw new Error(`nothing is open at ${table}`);
  stack.defer(() => reader.close());
  return reader;
}

async function isCopied(reader: Reader): Promise<void> {
  const done = "SELECT 1 FROM _sync_checkpoints WHERE resource = 'content' AND last_full_at IS NOT NULL";
  await until(async () => (await reader.rows(done)).length > 0, 'serve has not copied the records');
}

/** Looks now and then until it holds. Throws with the sentence where that takes a minute; what is not there yet does not. */
export async function until(holds: () => Promise<boolean>, orElse: string, everyMs = 20): Promise<void> {
  const deadline = performance.now() + PATIENCE_MS;
  while (!(await holds().catch(() => false))) {
    if (performance.now() > deadline) throw new Error(orElse);
    await delay(everyMs);
  }
}

/** True where no delivery waits any more. */
export async function isDrained({ inbox }: Staged): Promise<boolean> {
  return (await inbox.rows("SELECT 1 FROM _sync_deliveries WHERE state = 'waiting' LIMIT 1")).length === 0;
}

/** `p50 12 ms, p95 ..., p99 ..., max ...` */
export function percentiles(values: readonly number[], parts: readonly number[] = [0.5, 0.95, 0.99]): string {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (part: number): string => (sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? NaN).toFixed(1);
  const named = parts.map((part) => `p${part * 100} ${at(part)}`);
  return `${[...named, `max ${at(1)}`].join(', ')} ms`;
}

/** How busy the machine was, to be told along with figures. */
export function load(): string {
  return `load ${readFileSync('/proc/loadavg', 'utf8').split(' ').slice(0, 3).join(' ')}`;
}
