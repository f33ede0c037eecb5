import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { onTestFinished } from 'vitest';
import { newMeter } from '../../../src/http/client.ts';
import { type ClientOptions, createClient } from '../../../src/http/create-client.ts';
import {
  createDownloader,
  type Downloader,
  type DownloaderOptions,
} from '../../../src/http/download/create-downloader.ts';
import type { Downloaded, DownloadRequest } from '../../../src/http/download/download-request.ts';
import { systemClock } from '../../../src/observe/system-clock.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';
import { openRateLimiter, testProfile } from '../stage.ts';

/** A picture of one pixel, and what follows behind its end, which is whatever a test wants. */
export function pngOf(bytes: number, width = 1, height = 1): Buffer {
  const header = Buffer.alloc(33);
  Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]).copy(header);
  header.writeUInt32BE(13, 8);
  header.write('IHDR', 12, 'latin1');
  header.writeUInt32BE(width, 16);
  header.writeUInt32BE(height, 20);
  header.set([8, 2], 24);
  const data = Buffer.alloc(8);
  data.writeUInt32BE(Math.max(bytes - 53, 0));
  data.write('IDAT', 4, 'latin1');
  const file = Buffer.alloc(Math.max(bytes, 64), 'pixels');
  header.copy(file);
  data.copy(file, 33);
  return file;
}

export function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

export interface Stage {
  downloader: Downloader;
  spool: string;
  /** Origins besides the service's whose rate limiter was opened, in order, and those that were closed. */
  opened: string[];
  closed: string[];
  /** Downloads a file; what is not said is as it is for a small picture of the service's own. */
  fetch(url: string, over?: Partial<DownloadRequest>): Promise<Downloaded>;
  /** Names in the spool. */
  left(): string[];
}

/** A downloader of the service at `origin`, with a spool of its own. */
export function stageFor(
  origin: string,
  { client = {}, ...over }: Partial<Omit<DownloaderOptions, 'client'>> & { client?: Partial<ClientOptions> } = {},
): Stage {
  const service = createClient({
    baseUrl: new URL(origin),
    profile: testProfile(),
    auth: { type: 'api_key', key: 'canary-api-key' },
    rateLimiter: openRateLimiter(),
    clock: systemClock,
    backoff: { base: 1, cap: 4 },
    ...client,
  });
  const [opened, closed]: [string[], string[]] = [[], []];
  const openFor = async (other: string) => {
    opened.push(other);
    return { ...openRateLimiter(), close: () => void closed.push(other) };
  };
  const downloader = createDownloader({ client: service.parts, allowHosts: [], openRateLimiter: openFor, ...over });
  onTestFinished(async () => {
    await downloader.close();
    await service.close();
  });
  const spool = tempFolder();
  return {
    downloader,
    spool,
    opened,
    closed,
    fetch: (url, wanted = {}) => downloader.download(requestFor(url, spool, wanted)),
    left: () => readdirSync(spool),
  };
}

function requestFor(url: string, spool: string, over: Partial<DownloadRequest> = {}): DownloadRequest {
  return {
    url: new URL(url),
    isOfService: () => true,
    spool,
    name: 'a',
    maxBytes: 100_000_000,
    maxPixels: 100_000_000,
    types: ['image/*'],
    declared: { bytes: null, sha256: null },
    etag: null,
    lastModified: null,
    meter: newMeter(),
    signal: AbortSignal.timeout(60_000),
    ...over,
  };
}

/** The bytes of a file that was fetched; anything else fails the test. */
export function bytesOf(downloaded: Downloaded): Buffer {
  if (downloaded.kind !== 'fetched') throw new Error(`expected a file, got ${JSON.stringify(downloaded)}`);
  return readFileSync(downloaded.path);
}
