import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { PastRun, StatusSnapshot } from '../../src/serve/status/snapshot.ts';
import type { Packed } from './answer-shapes.ts';
import { portOf } from './port-of.ts';
import { startServe, writeYaml, type ServeProcess } from './serve-stage.ts';

/** What the heap may grow to in a container of 512 MiB, and what that lets the whole process hold. */
const HEAP_MIB = 256;
export const CONTAINER_MIB = 512;
const MIB = 2 ** 20;
const HONEST = 'honest';

/** What became of a `serve` whose sources were all answered at once. */
export interface Survived {
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
export async function serveAgainst(bodies: readonly Packed[]): Promise<Survived> {
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
  const port = await portOf(server);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${port}`;
}

function send(response: ServerResponse, packed: Packed | undefined): void {
  const { body, encoding } = packed ?? { body: Buffer.from('{}'), encoding: 'identity' };
  if (encoding !== 'identity') response.setHeader('content-encoding', encoding);
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
