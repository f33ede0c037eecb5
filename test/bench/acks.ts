import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import v8 from 'node:v8';
import Database from 'better-sqlite3';
import { systemClock } from '../../src/observe/system-clock.ts';
import { profileSchema } from '../../src/source/profile.ts';
import { inboxAddress } from '../../src/warehouse/open-inbox.ts';
import { openWarehouse } from '../../src/warehouse/open.ts';
import { startReceiver } from '../../src/web/receiver/start-receiver.ts';

/**
 * `node test/bench/acks.ts`: signed deliveries of 1 KB from a process of its own, for so many seconds at so many per
 * second. Prints how soon they were answered, and compares those that were with what the inbox holds. With `--lock`
 * another process holds the write lock of the warehouse for 10 s meanwhile.
 */
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    rate: { type: 'string', default: '2000' },
    lock: { type: 'boolean', default: false },
  },
});
// As `main.ts` does.
v8.setFlagsFromString('--semi-space-growth-factor=1');
v8.setFlagsFromString('--heap-growing-percent=100');
const LOCK_MS = 10_000;
const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-acks-'));
const warehouseFile = path.join(folder, 'bench.db');
const page = { style: 'cursor' };
const { webhooks } = profileSchema.parse({ resources: { content: { path: '/content', page } } });

try {
  const warehouse = await openWarehouse(`sqlite:${warehouseFile}`, systemClock);
  const inbox = inboxAddress(`sqlite:${warehouseFile}`);
  const webhook = { secrets: [{ value: secret }], max_body: 1_048_576, keep: 7 * 86_400_000, attempts: 8 };
  const receiver = await startReceiver({
    serve: { host: '127.0.0.1', port: 0 },
    sources: [{ name: 'bench', inbox, webhook, profile: webhooks }],
    clock: systemClock,
    pages: () => Promise.resolve({ status: 404, headers: {}, body: '' }),
    onArrival: () => undefined,
    onFigures: () => undefined,
    onNote: (note) => console.log(note),
  });
  const log = path.join(folder, 'acked');
  const sending = script('acks-sender.ts', [receiver.url, secret, options.rate, options.seconds, log]);
  const holder = options.lock ? script('../support/lock-holder.ts', [warehouseFile, String(LOCK_MS)]) : null;
  const { rate, p50, p99, p999, max, statuses } = JSON.parse((await sending).trim());
  await holder;
  await receiver.close();
  await warehouse.close();

  const db = new Database(path.join(folder, 'bench-inbox.db'), { readonly: true });
  const stored = new Set(db.prepare<[], string>('SELECT delivery_id FROM _sync_deliveries').pluck().all());
  db.close();
  const lost = readFileSync(log, 'utf8')
    .split('\n')
    .filter((id) => id !== '' && !stored.has(id));
  process.stdout.write(
    `${Math.round(rate)}/s for ${options.seconds} s${options.lock ? `, the warehouse locked for ${LOCK_MS / 1_000} s` : ''}: ` +
      `p50 ${ms(p50)}, p99 ${ms(p99)}, p99.9 ${ms(p999)}, max ${ms(max)}, lost ${lost.length}, ` +
      `answers ${JSON.stringify(statuses)}\n`,
  );
  process.exitCode = lost.length === 0 ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
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
