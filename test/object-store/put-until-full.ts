import { mkdirSync, writeFileSync } from 'node:fs';
import { createHash } from 'node:crypto';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import { SyncError } from '../../src/model/errors.ts';
import { storeFault } from '../../src/object-store/file-system.ts';
import { openObjectStore } from '../../src/object-store/open-stores.ts';
import { systemClock } from '../../src/observe/system-clock.ts';

/**
 * `node put-until-full.ts FOLDER make|fill`: opens a store there, and with `fill` puts objects until that fails; prints the
 * error's code and what is in the store then, as JSON.
 */
const [folder = '', what = ''] = process.argv.slice(2);
const world = { clock: systemClock, env: {}, signal: new AbortController().signal, fileMode: 0o600 };
const root = path.join(folder, 'files');
const store = await openObjectStore({ kind: 'disk', name: `disk:${root}`, folder: root }, world);
let put = 0;
try {
  if (what === 'make') process.exit(0);
  for (let at = 0; at < 200; at += 1) {
    const body = Buffer.alloc(100_000, `picture ${at} `);
    const sha256 = createHash('sha256').update(body).digest('hex');
    const file = path.join(store.spool, 'download');
    mkdirSync(store.spool, { recursive: true });
    try {
      writeFileSync(file, body);
    } catch (error) {
      throw storeFault(file, error);
    }
    await store.put({ path: file, sha256, bytes: body.length, type: 'image/png' });
    put += 1;
  }
} catch (error) {
  let [listed, unread] = [0, 0];
  for await (const { sha256 } of store.list()) {
    listed += 1;
    const body = await buffer(await store.read(sha256));
    if (createHash('sha256').update(body).digest('hex') !== sha256) unread += 1;
  }
  const told = error instanceof SyncError ? { code: error.code, recovery: error.recovery } : { code: String(error) };
  process.stdout.write(`${JSON.stringify({ ...told, put, listed, unread })}\n`);
}
