import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { checkCommand } from '../../src/cli/check.ts';
import { exitCodeOfError } from '../../src/cli/command/context.ts';
import { backfillCommand, syncCommand } from '../../src/cli/sync.ts';
import { messageOf, SyncError } from '../../src/model/errors.ts';
import type { ResourceReport, RunReport } from '../../src/sync/report.ts';
import { inMemory } from '../cli/in-process.ts';
import type { FaultScript } from '../sandbox/service/faults/fault-script.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from '../sandbox/service/sandbox.ts';
import { differences } from '../support/compare-copy.ts';
import { SQLITE, type TestDatabase, USUAL } from '../support/databases.ts';
import { type PushedClock, pushedClock } from '../support/hurried-clock.ts';
import { IS_LONG } from '../support/length.ts';
import { copyPrepared } from '../support/made-databases.ts';

const RESOURCES = ['content', 'images', 'analytics'] as const;
type Resource = (typeof RESOURCES)[number];

/** The request that tries the filter after a full walk. */
export const ITS_FILTER = 1;

export interface StageOptions {
  /** Of the warehouse; the usual one where absent. */
  database?: TestDatabase;
  sandbox?: SandboxOptions;
  /** Fields of every resource of the profile, over those of a small test profile. */
  resource?: Record<string, unknown>;
  /** Fields of the profile itself. */
  profile?: Record<string, unknown>;
  /** Fields of the source in the config. */
  source?: Record<string, unknown>;
  logLevel?: string;
  /** Sixteen records and less where absent. */
  records?: Partial<Record<Resource, number>>;
}

/** How one command ended: what the shell, the pipe and the terminal got. */
export interface Ended {
  code: number;
  report: RunReport;
  /** What ended the command as a whole, such as a setting that cannot be used. */
  error: unknown;
  stdout: string;
  stderr: string;
}

/** A content service, a configured copy of the product in this process, and a folder that holds all that it writes. */
export interface Stage {
  readonly sandbox: Sandbox;
  /** Shared by the product and the service: waits are over twenty times as soon. Deadlines of requests are not. */
  readonly clock: PushedClock;
  readonly folder: string;
  backfill(...args: string[]): Promise<Ended>;
  sync(...args: string[]): Promise<Ended>;
  /** Its report is not that of a run: what it prints is in `stdout`. */
  check(...args: string[]): Promise<Ended>;
  /** Changes what the next command reads from the config. */
  configure(options: StageOptions): void;
  /** Gives what stands in the warehouse to `look`, as a SQLite database on either. */
  read<T>(look: (db: Database.Database) => T): Promise<T>;
  /** Rows of a query on it. */
  query<T = Record<string, unknown>>(sql: string, ...values: unknown[]): Promise<T[]>;
  /** Everything that the commands wrote to stdout and stderr so far. */
  written(): string;
}

/** How many of its seconds pass in one of the machine's. */
const SPEED = 20;
const RECORDS = { content: 16, images: 6, analytics: 6 };
const EMPTY_REPORT: RunReport = { source: 'blog', run_id: '', status: 'failed', resources: [] };

/** Sets the stage, plays, and clears it away, whatever happens. */
export async function onStage(options: StageOptions, play: (stage: Stage) => Promise<void>): Promise<void> {
  const clock = pushedClock(new Date().toISOString(), SPEED);
  const generate = options.sandbox?.data === undefined ? { ...RECORDS, ...options.records } : {};
  const sandbox = await startSandbox({ clock, generate, ...options.sandbox });
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-fault-'));
  try {
    await play(await stageIn(folder, sandbox, clock, options));
  } finally {
    await sandbox.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function stageIn(folder: string, sandbox: Sandbox, clock: PushedClock, options: StageOptions): Promise<Stage> {
  let all = '';
  const database = options.database ?? USUAL;
  if (database === SQLITE) await copyPrepared(path.join(folder, 'blog.db'));
  const warehouse = await database.setting(folder);
  const read: Stage['read'] = (look) => database.read(warehouse.replace('{source}', 'blog'), look);
  const configure = (changed: StageOptions): void =>
    writeSettings({ folder, warehouse, sandbox }, { ...options, ...changed });
  configure({});
  const run = async (name: keyof typeof COMMANDS, args: string[]): Promise<Ended> => {
    const ended = await runCommand(name, args, folder, clock);
    all += ended.stdout + ended.stderr;
    return ended;
  };
  return {
    sandbox,
    clock,
    folder,
    configure,
    backfill: (...args) => run('backfill', args),
    sync: (...args) => run('sync', args),
    check: (...args) => run('check', args),
    read,
    query: <T>(sql: string, ...values: unknown[]) => read((db) => db.prepare<unknown[], T>(sql).all(...values)),
    written: () => all,
  };
}

interface Place {
  folder: string;
  warehouse: string;
  sandbox: Sandbox;
}

function writeSettings({ folder, warehouse, sandbox }: Place, options: StageOptions): void {
  const resource = { page: { size: 4 }, ...options.resource };
  const profile = {
    extends: 'content-service',
    http: { headers_timeout: '3s', timeout: '5s', attempts: 3, concurrency: 4 },
    ...options.profile,
    resources: Object.fromEntries(RESOURCES.map((name) => [name, resource])),
  };
  const auth = { type: 'api_key', key: sandbox.apiKey };
  const blog = { base_url: sandbox.url, auth, profile: './profile.yaml', ...options.source };
  const log = { level: options.logLevel ?? 'info' };
  // JSON is YAML.
  writeFileSync(path.join(folder, 'profile.yaml'), JSON.stringify(profile));
  writeFileSync(path.join(folder, 'config.yaml'), JSON.stringify({ warehouse, sources: { blog }, log }));
}

const COMMANDS = { backfill: backfillCommand, sync: syncCommand, check: checkCommand } as const;

async function runCommand(
  name: keyof typeof COMMANDS,
  args: string[],
  cwd: string,
  clock: PushedClock,
): Promise<Ended> {
  const { context, ended } = inMemory(cwd, { clock });
  context.json = true;
  let error: unknown = null;
  try {
    const command = COMMANDS[name](context).exitOverride();
    await command.parseAsync(['--config', 'config.yaml', '--json', ...args], { from: 'user' });
  } catch (thrown) {
    error = thrown;
    context.stderr.write(`${messageOf(thrown)}\n${thrown instanceof SyncError ? thrown.hint : ''}\n`);
  }
  const { code, stdout, stderr } = ended();
  const line = stdout.trim();
  const report: RunReport = line === '' ? EMPTY_REPORT : JSON.parse(line);
  return { code: error === null ? code : exitCodeOfError(error), error, report, stdout: line, stderr };
}

/** One resource's part of a run. */
export function reportOf(ended: Ended, resource: Resource = 'content'): ResourceReport {
  const report = ended.report.resources.find((one) => one.resource === resource);
  if (report === undefined) throw new Error(`no report of ${resource}: ${ended.stderr}`);
  return report;
}

/** Statuses and error codes, as `ok` or `failed bad_json`, by resource. */
export function endsOf(ended: Ended): Record<string, string> {
  return Object.fromEntries(
    ended.report.resources.map(({ resource, status, error }) => [
      resource,
      [status, error?.code === 'bug' ? error.message : error?.code].join(' ').trim(),
    ]),
  );
}

/** The rows of the warehouse are the records of the service, and its bodies are theirs byte for byte. */
export async function expectWholeCopy(stage: Stage): Promise<void> {
  expect(await stage.read((db) => differences(db, stage.sandbox.store))).toEqual([]);
  await expectSameBodies(stage);
}

/** The bodies alone, each once. */
export async function expectSameBodies(stage: Stage): Promise<void> {
  const copied = await stage.read((db) => {
    const open = (resource: string) =>
      db.prepare<[string], string[]>(
        `SELECT t.id, v.body FROM "${resource}" t LEFT JOIN _sync_versions v
         ON v.resource = ? AND v.id = t.id AND v.version = t._version AND v.valid_to IS NULL
         WHERE t._deleted_at IS NULL`,
      );
    return RESOURCES.map((resource) => open(resource).raw().all(resource));
  });
  for (const [at, resource] of RESOURCES.entries()) {
    const service = [...stage.sandbox.store.list(resource)].map(({ id, text }) => [id, text]).toSorted(byFirst);
    expect(copied[at]?.toSorted(byFirst)).toEqual(service);
  }
}

function byFirst([a = '']: string[], [b = '']: string[]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Rows of a resource's own table. */
export async function rowsIn(stage: Stage, resource: Resource = 'content'): Promise<number> {
  return (await stage.query<{ n: number }>(`SELECT count(*) AS n FROM "${resource}"`))[0]?.n ?? 0;
}

/** How often the service was asked for a resource. */
export function requestsFor(stage: Stage, resource: Resource | 'oauth'): number {
  return stage.sandbox.requests.entries().filter((entry) => entry.resource === resource).length;
}

/** From now on the commands use the service's client credentials instead of its API key. */
export function useOauth(stage: Stage): void {
  const { clientId: client_id, clientSecret: client_secret } = stage.sandbox.oauth;
  stage.configure({ source: { auth: { type: 'oauth', client_id, client_secret } } });
}

/** The body of a listing of one page, the records as they are. */
function pageOf(records: readonly (string | Uint8Array)[]): Buffer {
  const parts = records.flatMap((record, index) => [Buffer.from(index === 0 ? '' : ','), Buffer.from(record)]);
  return Buffer.concat([Buffer.from('{"data":['), ...parts, Buffer.from('],"next_cursor":null}')]);
}

/** From now on the service lists these records as all of its content. */
export function list(stage: Stage, records: readonly (string | Uint8Array)[]): void {
  stage.sandbox.faults.clear();
  stage.sandbox.faults.add({ fault: 'body', resource: 'content', text: pageOf(records) });
}

/** A record of content that was changed at that second. */
export function record(id: string, fields: Record<string, unknown>, second = 0): string {
  const time = new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
  return JSON.stringify({ id, updated_at: time, ...fields });
}

/** The bodies that the warehouse keeps of content as it stands, by id. */
export async function bodiesIn(stage: Stage): Promise<Map<string, string>> {
  const rows = await stage.query<{ id: string; body: string }>(
    `SELECT id, body FROM _sync_versions WHERE resource = 'content' AND valid_to IS NULL`,
  );
  return new Map(rows.map(({ id, body }) => [id, body]));
}

interface StoredReject {
  reason: string;
  record_id: string | null;
  body: string;
  resolved_at: string | null;
}

export function rejectsIn(stage: Stage): Promise<StoredReject[]> {
  return stage.query('SELECT reason, record_id, body, resolved_at FROM _sync_rejects ORDER BY rowid');
}

/** Source paths of the columns of a table and the columns' names, as the catalogue remembers them. */
export async function columnsOf(stage: Stage, table = 'content'): Promise<Map<string, string>> {
  const rows = await stage.query<{ source_path: string; column_name: string }>(
    `SELECT source_path, column_name FROM _sync_columns WHERE table_name = ? AND role = 'source'`,
    table,
  );
  return new Map(rows.map((row) => [row.source_path, row.column_name]));
}

export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/** The keys of a path, as the catalogue writes it. */
export function keysIn(sourcePath: string): string[] {
  const keys: string[] = JSON.parse(sourcePath);
  return keys;
}

/** One fault of the catalogue, played against the whole product. */
export interface FaultRow {
  /** Begins with the number in the catalogue. */
  title: string;
  /** What the service does wrong while `content` is listed, unless the script names another resource. */
  faults: FaultScript[];
  stage?: StageOptions;
  /** How `content` ends, as `ok` or `failed <code>`; images and analytics end `ok`. */
  ends: string;
  /** Rows of `content` afterwards; all 16 where absent. */
  rows?: number;
  /** What else the run under the fault must show, and what that must be. */
  shows?: [look: (stage: Stage, ended: Ended) => unknown, expected: unknown];
}

const EXIT_CODES: Readonly<Record<string, number>> = { ok: 0, failed: 3, partial: 3, deferred: 4 };

/** Declares a test per row: the run under the fault ends as said, and a quiet one afterwards repairs everything. */
export function testFaults(rows: readonly FaultRow[]): void {
  it.concurrent.each(shortly(rows))('$title', async (row) => {
    await onStage(row.stage ?? {}, (stage) => playRow(stage, row));
  });
}

/** In the short form the first row of each number and end. */
function shortly(rows: readonly FaultRow[]): readonly FaultRow[] {
  const kinds = rows.map(({ title, ends }) => `${title.split(' ')[0]} ${ends}`);
  return rows.filter((_, at) => IS_LONG || kinds.indexOf(kinds[at] ?? '') === at);
}

async function playRow(stage: Stage, row: FaultRow): Promise<void> {
  for (const fault of row.faults) stage.sandbox.faults.add({ resource: 'content', ...fault });
  const ended = await stage.backfill();
  expect(endsOf(ended)).toEqual({ content: row.ends, images: 'ok', analytics: 'ok' });
  expect(ended.code).toBe(EXIT_CODES[row.ends.split(' ')[0] ?? '']);
  expect(await rowsIn(stage)).toBe(row.rows ?? 16);
  expect(await isComplete(stage)).toBe(row.ends === 'ok' || row.ends === 'partial');
  const [look, expected] = row.shows ?? [() => undefined, undefined];
  expect(await look(stage, ended)).toEqual(expected);

  stage.sandbox.faults.clear();
  const quiet = await stage.sync();
  expect(endsOf(quiet)).toEqual({ content: 'ok', images: 'ok', analytics: 'ok' });
  expect(quiet.code).toBe(0);
  await expectWholeCopy(stage);
}

/** True where the checkpoint says that all of `content` was read. */
async function isComplete(stage: Stage): Promise<boolean> {
  const [row] = await stage.query<{ last_full_at: string | null }>(
    `SELECT last_full_at FROM _sync_checkpoints WHERE resource = 'content'`,
  );
  return row !== undefined && row.last_full_at !== null;
}
