import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { newMeter } from '../../../src/http/client.ts';
import { createClient } from '../../../src/http/create-client.ts';
import { createDownloader } from '../../../src/http/download/create-downloader.ts';
import { SyncError } from '../../../src/model/errors.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { createGovernor } from '../../../src/queue/governor.ts';
import { profileSchema } from '../../../src/source/profile.ts';

/**
 * Downloads `<url>/0`, `<url>/1`, ... to a folder, all at once, in a process of its own, and removes them; prints what
 * became of each, what is left in the folder, and the peak of the process's memory in megabytes.
 */
const [spool = '', url = '', count = ''] = process.argv.slice(2);
const http = { concurrency: Number(count) + 1, timeout: '10m', attempts: 2 };
const profile = profileSchema.parse({ resources: { content: { path: '/c', page: { style: 'cursor' } } }, http });
const governor = createGovernor({
  clock: systemClock,
  dialect: profile.rate_limit,
  share: 1,
  concurrency: http.concurrency,
  maxWaitMs: 1_000,
});
const client = createClient({
  baseUrl: new URL(url),
  profile,
  auth: { type: 'api_key', key: 'k' },
  governor,
  clock: systemClock,
  backoff: { base: 1, cap: 1 },
});
const downloader = createDownloader({ client: client.parts, allowHosts: [], openGovernor: async () => governor });

async function download(nth: number): Promise<unknown> {
  try {
    const downloaded = await downloader.download({
      url: new URL(`${url}/${nth}`),
      isOwn: () => true,
      spool,
      name: String(nth),
      most: 2 ** 40,
      mostPixels: 1_000_000,
      types: ['image/*'],
      declared: { bytes: null, sha256: null },
      etag: null,
      lastModified: null,
      meter: newMeter(),
      signal: AbortSignal.timeout(3_600_000),
    });
    if (downloaded.kind !== 'fetched') return downloaded;
    rmSync(downloaded.path);
    return { bytes: downloaded.bytes, sha256: downloaded.sha256 };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const { code, recovery, message } = error;
    return { code, recovery, message };
  }
}

const results = await Promise.all(Array.from({ length: Number(count) }, (_, nth) => download(nth)));
await downloader.close();
await client.close();
const [, peak = 0] = /VmHWM:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
process.stdout.write(JSON.stringify({ results, left: readdirSync(spool), peak: Number(peak) / 1_024 }));
