import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { pipeline, Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { startScript } from '../../support/child-script.ts';
import { longOrShort } from '../../support/length.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';
import { serve } from '../stage.ts';
import { pngOf } from './stage.ts';

const SCRIPT = new URL('downloading.ts', import.meta.url);
const MEGABYTE = 1_000_000;
const FILES = 8;
/** The smaller ones fill what is held in memory at once already, many times over: the collector is not quick. */
const [SMALL, LARGE] = longOrShort([60 * MEGABYTE, 500 * MEGABYTE], [6 * MEGABYTE, 20 * MEGABYTE]);
/** Megabytes that a collector leaves for later; the files themselves have 4,000 of them, or 160. */
const MOST_MORE = longOrShort(150, 80);

const PIECE = pngOf(MEGABYTE);

function* pieces(bytes: number): Generator<Buffer> {
  for (let sent = 0; sent < bytes; sent += PIECE.length) yield PIECE.subarray(0, bytes - sent);
}

/** A service whose files, made up as they go out, are so large. */
function serveLarge(bytes: number) {
  return serve((_, response) => {
    response.writeHead(200, { 'content-length': String(bytes), etag: '"v1"' });
    pipeline(Readable.from(pieces(bytes)), response, () => undefined);
  });
}

interface Downloads {
  results: { bytes?: number; sha256?: string; code?: string; recovery?: string; message?: string }[];
  left: string[];
  peak: number;
}

async function download(spool: string, url: string, count: number, shell: string | null = null): Promise<Downloads> {
  const { stdout, stderr } = await startScript(SCRIPT, [spool, url, String(count)], shell).ended;
  expect(stderr).toBe('');
  return JSON.parse(stdout);
}

describe.skipIf(process.platform !== 'linux')('large files', () => {
  it('take no more memory than small ones, eight at once', { timeout: 3_600_000 }, async () => {
    const peaks: number[] = [];
    for (const bytes of [SMALL, LARGE]) {
      const service = await serveLarge(bytes);
      const { results, left, peak } = await download(tempFolder(), service.origin, FILES);
      const hash = createHash('sha256');
      for (let sent = 0; sent < bytes; sent += PIECE.length) hash.update(PIECE);
      expect(results).toEqual(Array.from({ length: FILES }, () => ({ bytes, sha256: hash.copy().digest('hex') })));
      expect(left).toEqual([]);
      peaks.push(peak);
    }
    const [small = 0, large = 0] = peaks;
    const sizes = [SMALL, LARGE].map((bytes) => bytes / MEGABYTE).join(' and ');
    console.log(`${FILES} files of ${sizes} MB at once: peaks of ${peaks.map(Math.round).join(' and ')} MB`);
    expect(large - small).toBeLessThan(MOST_MORE);
  });

  it('end where the disk is full, leave it as it was, and come once there is room', async (context) => {
    const service = await serveLarge(20 * MEGABYTE);
    const folder = tempFolder();
    const mount = `unshare -m sh -c 'mount -t tmpfs -o size=10m tmpfs ${folder} && exec "$@"' sh`;
    if (spawnSync('sh', ['-c', `${mount} true`]).status !== 0) context.skip('this user may not mount a small volume');
    const { results, left } = await download(folder, service.origin, 1, mount);
    expect(results).toEqual([{ code: 'file_store_full', recovery: 'retry', message: expect.stringContaining(folder) }]);
    expect(left).toEqual([]);
    expect(service.seen).toHaveLength(1);
    expect((await download(folder, service.origin, 1)).results).toMatchObject([{ bytes: 20 * MEGABYTE }]);
  });

  it('end in the same way at a limit of the system', async () => {
    const service = await serveLarge(20 * MEGABYTE);
    // In blocks of 512 bytes.
    const { results, left } = await download(tempFolder(), service.origin, 1, 'ulimit -f 20000; exec');
    expect(results).toMatchObject([{ code: 'file_store_full' }]);
    expect(left).toEqual([]);
  });
});
