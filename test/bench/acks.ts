import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import v8 from 'node:v8';
import Database from 'better-sqlite3';
import { Client } from 'pg';
import { systemClock } from '../../src/observe/system-clock.ts';
import { profileSchema } from '../../src/source/profile.ts';
import { inboxAddress, openWarehouse } from '../../src/warehouse/databases.ts';
import { WorkQueue } from '../../src/serve/work-items/work-queue.ts';
import { startReceiver } from '../../src/web/receiver/start-receiver.ts';
import { OPEN_DATABASE } from './databases.ts';

/**
 * `node test/bench/acks.ts`: signed deliveries of 1 KB from a process of its own, for so many seconds at so many per
 * second, on SQLite or with `--database postgres` on a server of its own, where each asks for its work as well. Prints how soon they were answered, and
 * compares those that were with what the inbox holds. With `--lock` another process holds the write lock of the SQLite
 * warehouse for 10 s meanwhile.
 */
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    rate: { type: 'string', default: '2000' },
    lock: { type: 'boolean', default: false },
    database: { type: 'string', default: 'sqlite' },
  },
});
// As `main.ts` does.
v8.setFlagsFromString('--semi-space-growth-factor=1');
v8.setFlagsFromString('--heap-growing-percent=100');
const LOCK_MS = 10_000;
/** More than are filled in a minute. */
const LOG_FILES = 24;
const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-acks-'));
const open = OPEN_DATABASE[options.database];
if (open === undefined) throw new Error(`--database: one of ${Object.keys(OPEN_DATABASE).join(', ')}`);
if (options.lock && options.database !== 'sqlite') throw new Error('--lock: only SQLite has a lock for all writers');
const database = await open(folder);
const page = { style: 'cursor' };
const { webhooks } = profileSchema.parse({ resources: { content: { path: '/content', page } } });

try {
  const { raw, setting } = await database.make('bench');
  const address = setting.replace('{source}', 'bench');
  const warehouse = await openWarehouse(address, systemClock);
  const inbox = inboxAddress(address);
  await useUp(inbox);
  const asks = await askedIn(address);
  const webhook = {
    secrets: [{ value: secret }],
    max_body: 1_048_576,
    keep: 7 * 86_400_000,
    attempts: 8,
    max_waiting: 1_000_000,
    max_waiting_size: 1_073_741_824,
  };
  const receiver = await startReceiver({
    serve: { host: '127.0.0.1', port: 0 },
    sources: [{ name: 'bench', inbox, asks, webhook, profile: webhooks }],
    clock: systemClock,
    pages: async () => new Response(null, { status: 404 }),
    onArrival: () => undefined,
    onFigures: () => undefined,
    onNote: (note) => console.log(note),
  });
  const log = path.join(folder, 'acked');
  const sending = script('acks-sender.ts', [receiver.url, secret, options.rate, options.seconds, log]);
  const holder = options.lock ? script('../support/lock-holder.ts', [raw, String(LOCK_MS)]) : null;
  const { rate, p50, p99, p999, max, statuses } = JSON.parse((await sending).trim());
  await holder;
  await receiver.close();
  await warehouse.close();

  const stored = new Set(await storedIds(inbox));
  const lost = readFileSync(log, 'utf8')
    .split('\n')
    .filter((id) => id !== '' && !stored.has(id));
  process.stdout.write(
    `${database.name}: ${Math.round(rate)}/s for ${options.seconds} s${options.lock ? `, the warehouse locked for ${LOCK_MS / 1_000} s` : ''}: ` +
      `p50 ${ms(p50)}, p99 ${ms(p99)}, p99.9 ${ms(p999)}, max ${ms(max)}, lost ${lost.length}, ` +
      `answers ${JSON.stringify(statuses)}\n`,
  );
  process.exitCode = lost.length === 0 ? 0 : 1;
} finally {
  await database.close();
  rmSync(folder, { recursive: true, force: true });
}

/** Who is asked by a `serve` on such a warehouse; the queue that this takes is there from then on. */
async function askedIn(address: string): Promise<'nobody' | 'workers'> {
  if (address.startsWith('sqlite:')) return 'nobody';
  const queue = new WorkQueue({ address, clock: systemClock, failed: (error) => console.error(error) });
  await queue.opened;
  await queue.close();
  return 'workers';
}

/**
 * A Postgres that has run for a while writes its log into files that it used before. A new one has none yet, and making
 * one takes a slow disk for a tenth of a second, every seven seconds at this rate.
 */
async function useUp(inbox: string): Promise<void> {
  if (inbox.startsWith('sqlite:')) return;
  const client = new Client({ connectionString: inbox.replace(/\?.*/, '') });
  await client.connect();
  for (let file = 0; file < LOG_FILES; file += 1) {
    await client.query("SELECT pg_logical_emit_message(true, 'bench', '')");
    await client.query('SELECT pg_switch_wal()');
  }
  await client.query('CHECKPOINT');
  await client.end();
}

/** As any other program reads them. */
async function storedIds(inbox: string): Promise<string[]> {
  if (inbox.startsWith('sqlite:')) {
    const db = new Database(inbox.slice('sqlite:'.length), { readonly: true });
    const ids = db.prepare<[], string>('SELECT delivery_id FROM _sync_deliveries').pluck().all();
    db.close();
    return ids;
  }
  const client = new Client({ connectionString: inbox.replace(/\?.*/, '') });
  await client.connect();
  const { rows } = await client.query<{ delivery_id: string }>('SELECT delivery_id FROM bench._sync_deliveries');
  await client.end();
  return rows.map((row) => row.delivery_id);
}

function script(file: string, args: readonly string[]): Promise<string> {
  const child = spawn(process.execPath, [path.join(import.meta.dirname, file), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return Promise.all([text(child.stdout), once(child, 'close')]).then(([output]) => output);
}

function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}
