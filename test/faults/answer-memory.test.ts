import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { IS_LONG, longOrShort } from '../support/length.ts';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { PastRun, StatusSnapshot } from '../../src/server/status/snapshot.ts';
import { serveUntilEnd } from './port-of.ts';
import { type ServeProcess, startServe, writeYaml } from './serve-stage.ts';
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';

/** What the heap may grow to in a container of 512 MiB, and what that lets the whole process hold. */
const HEAP_MIB = 256;
const CONTAINER_MIB = 512;
const MIB = 2 ** 20;
const HONEST = 'honest';

/** What became of a `serve` whose sources were all answered at once. */
interface Survived {
  /** The outcome of the first run of each source: a code, or `ok` or `partial`. */
  outcomes: Readonly<Record<string, string>>;
  /** Hints by code. */
  hints: ReadonlyMap<string, string | null>;
  peakMib: number;
  /** How it ended on SIGTERM. */
  end: Awaited<ReturnType<ServeProcess['stop']>>;
}

/**
 * Starts `serve` on a source for each of the bodies, and one that is honest; answers with all the bodies at once, when
 * each was asked for, and stops it when each source has had its first run.
 */
async function serveAgainst(bodies: readonly Packed[]): Promise<Survived> {
  const origin = await hostileService(bodies);
  const folder = mkdtempSync(path.join(tmpdir(), 'content-sync-hostile-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const page = { style: 'page', total: 'total' };
  writeYaml(folder, {
    profile: {
      extends: 'content-service-page',
      http: { attempts: 2 },
      resources: { content: { page, updated: null }, images: null, analytics: null },
    },
    config: {
      warehouse: 'sqlite:{source}.db',
      serve: { port: 0 },
      sources: Object.fromEntries([...bodies.keys(), HONEST].map((name) => sourceOf(name, origin))),
    },
  });
  const serving = await startServe(folder, { env: { NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB}` } });
  const runs = await Promise.race([firstRuns(serving), endedEarly(serving)]);
  const peakMib = peakOf(serving.pid) / MIB;
  const hints = new Map(Object.values(runs).map(({ error }) => [error?.code ?? '', error?.hint ?? null]));
  const outcomes = Object.entries(runs).map(([name, { status, error }]) => [name, error?.code ?? status]);
  return { outcomes: Object.fromEntries(outcomes), hints, peakMib, end: await serving.stop() };
}

function sourceOf(name: string | number, origin: string): [string, object] {
  const schedule = { incremental: null, full: '17 3 1 1 *', jitter: '0s' };
  const base_url = `${origin}/${name}`;
  return [
    `s${name}`,
    { base_url, auth: { type: 'api_key', key: `key-of-${name}` }, profile: './profile.yaml', schedule },
  ];
}

async function hostileService(bodies: readonly Packed[]): Promise<string> {
  const waiting = new Map<number, ServerResponse>();
  let isOpen = false;
  const server: Server = createServer((request, response) => {
    const name = (request.url ?? '').split('/')[1] ?? '';
    response.setHeader('content-type', 'application/json');
    if (name === HONEST) response.end('{"data":[{"id":1},{"id":2}],"total":2}');
    else waiting.set(Number(name), response);
    isOpen ||= waiting.size === bodies.length;
    if (!isOpen) return;
    for (const [at, each] of waiting) send(each, bodies[at]);
    waiting.clear();
  });
  return serveUntilEnd(server);
}

function send(response: ServerResponse, packed: Packed | undefined): void {
  const { body, encoding }: Packed = packed ?? { body: Buffer.from('{}') };
  if (encoding !== undefined) response.setHeader('content-encoding', encoding);
  response.end(body);
}

/** As long as it takes: the test's own time is the limit. */
async function firstRuns(serving: ServeProcess): Promise<Record<string, PastRun>> {
  for (;;) {
    const runs = await firstRunsNow(serving);
    if (runs !== null) return runs;
    await delay(100);
  }
}

async function firstRunsNow(serving: ServeProcess): Promise<Record<string, PastRun> | null> {
  // A busy one answers later; where it is gone, `endedEarly` tells how it ended.
  const answer = await serving.ask({ path: '/status.json' }).catch(() => null);
  if (answer?.status !== 200) return null;
  const { sources }: StatusSnapshot = JSON.parse(answer.body);
  const ended = sources.flatMap(({ source, resources }): [string, PastRun][] => {
    const run = resources[0]?.runs.at(-1);
    return run !== undefined && isEnded(run) ? [[source, run]] : [];
  });
  return ended.length === sources.length ? Object.fromEntries(ended) : null;
}

/** A run that is just beginning may be shown as one that was interrupted. */
function isEnded({ status }: PastRun): boolean {
  return status !== 'running' && status !== 'interrupted';
}

async function endedEarly(serving: ServeProcess): Promise<never> {
  const { code, signal } = await serving.ended;
  throw new Error(`serve ended by itself (${signal ?? code}): ${serving.written().slice(-2_000)}`);
}

/** The most bytes of memory that a process has held so far. Linux only. */
function peakOf(pid: number): number {
  const [, kilobytes] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1_024;
}

/** A body as it is sent; without an encoding as it is. */
interface Packed {
  body: Buffer;
  encoding?: string;
}

const brotli = (body: Buffer): Buffer => brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 3 } });

function many(value: string, bytes: number): string {
  return `[${`${value},`.repeat(bytes / (value.length + 1))}${value}]`;
}

function record(value: string): Buffer {
  return Buffer.from(`{"data":[{"id":1,"x":${value}}],"total":1}`);
}

/** Records of about `size` bytes each, made by their number. */
function numbered(bytes: number, size: number, make: (index: number) => string): Buffer {
  const count = Math.ceil(bytes / size);
  return Buffer.from(
    `{"data":[${Array.from({ length: count }, (_, index) => make(index)).join(',')}],"total":${count}}`,
  );
}

const MB = 1_000_000;
/** Of bodies that cost as much time as memory. */
const SLOW_BYTES = longOrShort(15, 4) * MB;

describe.skipIf(!existsSync('/proc/self/status'))('in a container of 512 MiB', () => {
  it('answers that are small on the wire and large in memory fail their own walks and nothing else', async () => {
    const nested = `${'{"a":'.repeat(SLOW_BYTES / 6)}1${'}'.repeat(SLOW_BYTES / 6)}`;
    const survived = await serveAgainst([
      { encoding: 'gzip', body: gzipSync(Buffer.from(`{"data":${many('[]', 15 * MB)}}`)) },
      { encoding: 'br', body: brotli(record(`[${'9'.repeat(40)},${many('1', 15 * MB).slice(1)}`)) },
      { encoding: 'deflate', body: deflateSync(record(`0.${'1'.repeat(SLOW_BYTES)}`)) },
      { body: record(`"${'世'.repeat(SLOW_BYTES / 3)}"`) },
      { encoding: 'gzip, gzip', body: gzipSync(gzipSync(Buffer.alloc(100 * MB, ' '))) },
      { encoding: 'zstd', body: zstdCompressSync(record(nested)) },
      ...(IS_LONG
        ? [
            { encoding: 'gzip', body: gzipSync(numbered(SLOW_BYTES, 30, (at) => `{"id":${at},"f${at}":1}`)) },
            { encoding: 'zstd, br', body: brotli(zstdCompressSync(numbered(SLOW_BYTES, 14, (at) => `{"id":${at}}`))) },
          ]
        : []),
    ]);
    expect(survived.outcomes).toMatchObject({
      s0: 'body_too_large',
      s1: 'body_too_large',
      s2: 'body_too_large',
      s3: 'ok',
      s4: 'body_too_large',
      shonest: 'ok',
    });
    expect(survived.hints.get('body_too_large')).toContain('http.max_values');
    expect(survived.peakMib).toBeLessThan(CONTAINER_MIB);
    expect(survived.end).toEqual({ code: 0, signal: null });
  }, 300_000);
});
