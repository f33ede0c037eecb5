import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { pipeline, Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { FileRow } from '../../../src/database/own-tables.ts';
import { pngOf } from '../../http/download/stage.ts';
import { BUCKET, startBucketServer } from '../../support/bucket-server.ts';
import { startCommand } from '../../support/command.ts';
import { SQLITE } from '../../support/databases.ts';
import { longOrShort } from '../../support/length.ts';
import { pictureStage } from './picture-stage.ts';

const MEGABYTE = 1_000_000;
const FILES = 8;
/** The smaller ones fill what is held in memory at once already, many times over: the collector is not quick. */
const SIZES = longOrShort([60, 500], [10, 40]).map((size) => size * MEGABYTE);
/** Megabytes that a collector leaves for later; the files themselves have 4,000 of them, or 320. */
const MOST_MORE = 150;

const PIECE = pngOf(MEGABYTE);

/** Each file begins as a picture and ends as one of its own. */
function* pieces(bytes: number, name: string): Generator<Buffer> {
  for (let sent = PIECE.length; sent < bytes; sent += PIECE.length) yield PIECE;
  yield Buffer.concat([PIECE.subarray(0, PIECE.length - 1), Buffer.from(name)]);
}

function hashOf(bytes: number, name: string): string {
  const hash = createHash('sha256');
  for (const piece of pieces(bytes, name)) hash.update(piece);
  return hash.digest('hex');
}

function peakOf(pid: number): number {
  try {
    return Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024;
  } catch {
    return 0;
  }
}

/** Copies eight files of a size by a command, and returns the peak of its memory in megabytes, and its seconds. */
async function copied(store: string, env: NodeJS.ProcessEnv, bytes: number): Promise<[peak: number, seconds: number]> {
  const stage = await pictureStage(SQLITE, {
    files: { at: '/images/{id}/file', max_bytes: '1GB' },
    settings: { store },
  });
  const { service } = stage;
  stage.setProfile({
    http: { attempts: 1, concurrency: FILES + 1, timeout: '10m' },
    resources: { images: { files: { at: '/images/{id}/file', max_bytes: '1GB' } } },
  });
  const ids = Array.from({ length: FILES }, (_, nth) => String(nth));
  for (const id of ids) service.put({ id, has_file: true });
  service.instead = (_, response, { pathname }) => {
    const [, id = ''] = /images\/(\d)\/file/.exec(pathname) ?? [];
    response.writeHead(200, { 'content-length': bytes, etag: `"${id}"` });
    pipeline(Readable.from(pieces(bytes, id)), response, () => undefined);
    return true;
  };
  const began = performance.now();
  const command = startCommand(['sync', '--config', stage.config], stage.folder, env);
  const over = command.ended.then(() => true);
  let peak = 0;
  while (!(await Promise.race([delay(20, false), over]))) peak = Math.max(peak, peakOf(command.pid));
  const { code, stderr } = await command.ended;
  expect([code, stderr]).toEqual([0, '']);
  const rows = await stage.read((db) =>
    db.prepare<[], FileRow>('SELECT status, sha256 FROM _sync_files ORDER BY record_id').all(),
  );
  expect(rows).toEqual(ids.map((id) => ({ status: 'stored', sha256: hashOf(bytes, id) })));
  return [peak, (performance.now() - began) / 1_000];
}

describe.skipIf(process.platform !== 'linux')('the memory of a run with eight large files at once', () => {
  it.each(['folder', 'bucket'])('is that of small ones, into a %s', { timeout: 3_600_000 }, async (kind) => {
    const { env } = kind === 'bucket' ? await startBucketServer() : { env: {} };
    const storeFor = (bytes: number): string => (kind === 'bucket' ? `s3://${BUCKET}/of-${bytes}` : 'disk:files');
    const found: [peak: number, seconds: number][] = [];
    for (const bytes of SIZES) found.push(await copied(storeFor(bytes), env, bytes));
    const told = found.map(([peak, seconds]) => `${Math.round(peak)} MB in ${seconds.toFixed(1)} s`);
    console.log(
      `${FILES} files of ${SIZES.map((size) => size / MEGABYTE).join(' and ')} MB into a ${kind}: ${told.join(', ')}`,
    );
    const [[small] = [0], [large] = [0]] = found;
    expect(large - small).toBeLessThan(MOST_MORE);
  });
});
