import { chownSync, mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { messageOf, SyncError } from '../../../src/model/errors.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { openWarehouse } from '../../../src/warehouse/databases.ts';
import { loadOnce } from '../../support/content-loader.ts';
import { startPostgres } from '../../support/postgres-server.ts';

/**
 * Loads pages into a database whose files are in the folder named first until that volume is full, makes room, and
 * loads the rest with the same open warehouse. Prints what happened as JSON.
 */
const [folder = ''] = process.argv.slice(2);
const ROOM_BYTES = 3_000_000;
const PAGES = 60;
const NOBODY = 65_534;
const server = await startPostgres();
const space = path.join(folder, 'space');
mkdirSync(space);
if (process.getuid?.() === 0) chownSync(space, NOBODY, NOBODY);
const admin = new Client({ connectionString: server.url() });
await admin.connect();
await admin.query(`CREATE TABLESPACE small LOCATION '${space}'`);
await admin.query('CREATE DATABASE blog TABLESPACE small');
await admin.end();
const ballast = path.join(folder, 'ballast');
const { bavail, bsize } = statfsSync(folder);
writeFileSync(ballast, Buffer.alloc(bavail * bsize - ROOM_BYTES));

const warehouse = await openWarehouse(`${server.url('blog')}?schema=blog`, systemClock);
const refused: unknown[] = [];
let page = 0;
for (; page < PAGES; page += 1) if (!(await isLoaded())) break;
const full = page;
await isLoaded();
const kept = await warehouse.count('content');
const sizes = await pageSizes();
rmSync(ballast);
for (; page < PAGES; page += 1) if (!(await isLoaded())) break;
console.log(JSON.stringify({ full, kept, sizes, refused, end: page, rows: await warehouse.count('content') }));
await warehouse.close();
await server.remove();

async function isLoaded(): Promise<boolean> {
  const texts = Array.from({ length: 100 }, (_, row) => `{"id":"${page * 100 + row}","body":"${'x'.repeat(900)}"}`);
  try {
    await loadOnce(warehouse, texts);
    return true;
  } catch (error) {
    refused.push(error instanceof SyncError ? { code: error.code, hint: error.hint } : { bug: messageOf(error) });
    return false;
  }
}

/** How many rows the pages have that are there: no page is there in part. */
async function pageSizes(): Promise<unknown[]> {
  const client = new Client({ connectionString: server.url('blog') });
  await client.connect();
  const { rows } = await client.query<{ n: number }>(
    'SELECT DISTINCT count(*)::int AS n FROM blog.content GROUP BY id::int / 100',
  );
  await client.end();
  return rows.map(({ n }) => n);
}
