import type { ServerResponse } from 'node:http';
import { describe, expect, it, onTestFinished } from 'vitest';
import { newMeter } from '../../../src/http/client.ts';
import { createClient } from '../../../src/http/create-client.ts';
import { createDownloader } from '../../../src/http/download/create-downloader.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { limitsOf, ownGovernor } from '../../../src/state/open-governor.ts';
import { openCoordination } from '../../../src/warehouse/databases.ts';
import { DATABASES, warehouseOn, type TestDatabase } from '../../support/databases.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';
import { get, serve, testProfile } from '../stage.ts';
import { bytesOf, pngOf } from './stage.ts';

const PIECE = 131_072;
const FILE = pngOf(8 * 1_048_576);

/** A piece of a file every 50 ms, so that all of it takes more than three seconds. */
function sendSlowly(response: ServerResponse, from: number): void {
  let at = from;
  const timer = setInterval(() => {
    response.write(FILE.subarray(at, at + PIECE));
    at += PIECE;
    if (at < FILE.length) return;
    clearInterval(timer);
    response.end();
  }, 50);
  response.on('close', () => clearInterval(timer));
}

/** A service of one slow file and of records, with what it was asked for; `etag` is that of the file. */
async function slowService(etag: string | null) {
  const asked: string[] = [];
  const { origin } = await serve(({ url = '', headers: { range } }, response) => {
    asked.push(`${url}${range === undefined ? '' : ` ${range}`}`);
    if (url !== '/file') {
      response.setHeader('content-type', 'application/json');
      response.end('{"data":[{"id":"a"}]}');
      return;
    }
    const from = Number(/\d+/.exec(range ?? '0')?.[0]);
    const headers = { 'content-length': String(FILE.length - from), ...(etag === null ? {} : { etag }) };
    const part = { 'content-range': `bytes ${from}-${FILE.length - 1}/${FILE.length}` };
    response.writeHead(from === 0 ? 200 : 206, from === 0 ? headers : { ...headers, ...part });
    sendSlowly(response, from);
  });
  return { origin, asked };
}

/** A client of one slot, by the governor that the product opens on this database, and its downloads. */
async function oneSlot(database: TestDatabase, origin: string) {
  const { warehouse, address } = await warehouseOn(database);
  const coordination = await openCoordination(address, systemClock);
  const profile = testProfile({ http: { concurrency: 1 } });
  const place = { coordination, own: warehouse.own, isKept: false };
  const limits = limitsOf({ profile, rate: { share: 1 } });
  const governor = await ownGovernor({ ...place, clock: systemClock, maxWaitMs: 60_000 }, 'one', limits);
  const auth = { type: 'api_key', key: 'canary-api-key' } as const;
  const client = createClient({ baseUrl: new URL(origin), profile, auth, governor, clock: systemClock });
  const downloader = createDownloader({ client: client.parts, allowHosts: [], openGovernor: async () => governor });
  onTestFinished(async () => {
    await downloader.close();
    await client.close();
    await governor.close();
    await coordination?.close();
  });
  return { client, downloader };
}

function fileOf(origin: string, spool: string) {
  return {
    url: new URL(`${origin}/file`),
    isOwn: () => true,
    spool,
    name: 'a',
    most: 2 ** 30,
    mostPixels: 1_000_000,
    types: ['image/*'],
    declared: { bytes: FILE.length, sha256: null },
    etag: null,
    lastModified: null,
    meter: newMeter(),
    signal: AbortSignal.timeout(60_000),
  };
}

describe.each(DATABASES)(
  'a large file and records that have one slot together, on $name',
  { timeout: 60_000 },
  (database) => {
    it('lets records pass after two seconds, and goes on where it was', async () => {
      const { origin, asked } = await slowService('"v1"');
      const { client, downloader } = await oneSlot(database, origin);
      const fetching = downloader.download(fileOf(origin, tempFolder()));
      await expect.poll(() => asked).toEqual(['/file']);
      await get(client, `${origin}/content`);
      const isFirst = await Promise.race([fetching.then(() => 'the file'), Promise.resolve('records')]);
      expect(isFirst).toBe('records');
      expect(bytesOf(await fetching).equals(FILE)).toBe(true);
      expect(asked).toEqual(['/file', '/content', expect.stringMatching(/^\/file bytes=\d{7}-$/)]);
    });

    it('comes whole in one turn where nobody waits, and where its rest cannot be asked for', async () => {
      const { origin, asked } = await slowService(null);
      const { client, downloader } = await oneSlot(database, origin);
      const fetching = downloader.download(fileOf(origin, tempFolder()));
      await expect.poll(() => asked).toEqual(['/file']);
      await get(client, `${origin}/content`);
      expect(bytesOf(await fetching).equals(FILE)).toBe(true);
      expect(asked).toEqual(['/file', '/content']);
    });
  },
);
