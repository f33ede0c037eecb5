import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { openWarehouse } from '../../src/database/databases.ts';
import { ownResources } from '../../src/database/state/owned-resource.ts';
import { saveLimit } from '../../src/http/rate-limit/open-rate-limiter.ts';
import { messageOf, SyncError } from '../../src/model/errors.ts';
import { systemClock } from '../../src/observe/system-clock.ts';
import { contentLoader } from '../support/content-loader.ts';
import { recordsOf } from '../support/page-records.ts';

/**
 * Loads pages into a warehouse in the folder named first until the volume is full, makes room, and loads the rest with
 * the same open warehouse. Prints what happened as JSON.
 */
const [folder = '', ballastBytes = '0'] = process.argv.slice(2);
const PAGES = 60;
const ballast = path.join(folder, 'ballast');
writeFileSync(ballast, Buffer.alloc(Number(ballastBytes)));
const warehouse = await openWarehouse(`sqlite:${folder}/blog.db`, systemClock);
const owned = await ownResources(warehouse, systemClock).acquire('content');
const loader = await contentLoader(warehouse, owned);

let page = 0;
const refused: unknown[] = [];
for (; page < PAGES; page += 1) if (!(await isLoaded())) break;
const full = page;
await saveLimit(warehouse.own, 'origin', 'x'.repeat(200_000), 0).catch(note);
const kept = await warehouse.rows.count('content');
rmSync(ballast);
for (; page < PAGES; page += 1) if (!(await isLoaded())) break;
const rows = await warehouse.rows.count('content');
await owned.release();
await warehouse.close();
const integrity: unknown = new Database(`${folder}/blog.db`).pragma('integrity_check');
console.log(JSON.stringify({ full, kept, refused, end: page, rows, integrity }));

async function isLoaded(): Promise<boolean> {
  const texts = Array.from({ length: 100 }, (_, row) => `{"id":"${page * 100 + row}","body":"${'x'.repeat(900)}"}`);
  const loaded = loader.load({ records: recordsOf(texts), requestedAt: 1_000 }, () => []);
  return loaded.then(() => true, note);
}

function note(error: unknown): false {
  const said = error instanceof SyncError ? { code: error.code, hint: error.hint } : { bug: messageOf(error) };
  refused.push(said);
  return false;
}
