import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import { type Command, type Ended, spawnCommand } from '../command.ts';
import type { HostileStage } from './hostile-service.ts';

const WATCH = new URL('child-watch.ts', import.meta.url);
const QUIET_MS = 700;
const MOST_MS = 30_000;
const PAGES = ['/status.json', '/healthz', '/', '/metrics', '/readyz'];

export type HostileCommand = 'backfill' | 'sync' | 'serve';

/** A run of the command line, and all that may be held against it. */
export interface HostileRun {
  command: HostileCommand;
  /** True where it was told to stop; `serve` always is. */
  isStopped: boolean;
  ended: Ended;
  /** Milliseconds from the signal to the end. */
  stopMs: number;
  /** Null where it died before it could tell. */
  watch: { peakBytes: number; stalledMs: number } | null;
  /** Pages of `serve`: what they said, and how long the slowest one took. */
  pages: string;
  slowestMs: number;
}

/** Runs a command against the services; with `stopAfter` it is told to stop once so many requests were sent. */
export async function runHostile(
  stage: HostileStage,
  command: HostileCommand,
  stopAfter: number | null,
): Promise<HostileRun> {
  const watchFile = path.join(stage.folder, 'watch.json.yaml');
  rmSync(watchFile, { force: true });
  const args = command === 'serve' ? ['serve', '--port', '0'] : [command, '--json'];
  const child = spawnCommand([...args, '--config', 'content-sync.yaml'], {
    cwd: stage.folder,
    env: { NODE_OPTIONS: `--import=${WATCH.href}`, CHILD_WATCH: watchFile, CHILD_AHEAD_MS: String(stage.aheadMs) },
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await child.ended;
  });
  const looked = { pages: '', slowestMs: 0 };
  const isOver = child.ended.then(() => true);
  const before = askedIn(stage);
  if (command === 'serve') await lookAround(stage, child, looked, isOver, stopAfter);
  else if (stopAfter !== null) {
    while (askedIn(stage) - before < stopAfter && !(await Promise.race([delay(10, false), isOver])));
  }
  const isStopped = command === 'serve' || stopAfter !== null;
  const told = performance.now();
  if (isStopped) child.kill('SIGTERM');
  const ended = await child.ended;
  return { command, isStopped, ended, stopMs: performance.now() - told, watch: watchIn(watchFile), ...looked };
}

function askedIn({ sources }: HostileStage): number {
  return sources.reduce((sum, { service }) => sum + service.asked, 0);
}

/** Looks at the pages until the sources have nothing more to ask, or have asked often enough. */
async function lookAround(
  stage: HostileStage,
  child: Command,
  looked: Pick<HostileRun, 'pages' | 'slowestMs'>,
  isOver: Promise<boolean>,
  stopAfter: number | null,
): Promise<void> {
  const began = performance.now();
  let [asked, askedAt] = [askedIn(stage), began];
  const before = asked;
  let isTold = false;
  for (let look = 0; performance.now() - began < MOST_MS; look += 1) {
    if (await Promise.race([delay(60, false), isOver])) return;
    const url = urlIn(child.logged());
    if (url === null) askedAt = performance.now();
    else {
      if (!isTold) await tellOfChanges(stage, url);
      isTold = true;
      const at = performance.now();
      looked.pages += await pageAt(`${url}${PAGES[look % PAGES.length]}`);
      looked.slowestMs = Math.max(looked.slowestMs, performance.now() - at);
    }
    if (askedIn(stage) !== asked) [asked, askedAt] = [askedIn(stage), performance.now()];
    if (performance.now() - askedAt > QUIET_MS + (asked === before ? 2_000 : 0)) return;
    if (stopAfter !== null && asked - before >= stopAfter) return;
  }
}

/** Webhooks of two records of each source: they are read alone, which no walk does before it is done. */
async function tellOfChanges({ sources }: HostileStage, url: string): Promise<void> {
  for (const { name, hook } of sources) {
    for (const id of ['r1', 'r5']) {
      const event = { id: `${name}-${id}`, type: 'content.updated', data: { resource: 'content', id } };
      const headers = { authorization: `Bearer ${hook}`, 'content-type': 'application/json' };
      await fetch(`${url}/webhooks/${name}`, { method: 'POST', headers, body: JSON.stringify(event) }).catch(
        () => null,
      );
    }
  }
}

async function pageAt(url: string): Promise<string> {
  try {
    const answer = await fetch(url);
    return await answer.text();
  } catch {
    return '';
  }
}

function urlIn(log: string): string | null {
  return /"url":"(http:[^"]+)","msg":"listening"/.exec(log)?.[1] ?? null;
}

function watchIn(file: string): HostileRun['watch'] {
  try {
    const watch: HostileRun['watch'] = JSON.parse(readFileSync(file, 'utf8'));
    return watch;
  } catch {
    return null;
  }
}

const MOST_BYTES = 512 * 2 ** 20;
/** Bounds that a busy machine does not break: a loop that stands still does so for minutes, or for ever. */
const MOST_STALLED_MS = 20_000;
const MOST_STOP_MS = 20_000;

/** Ends that the README knows, for what was asked and how it ended. */
const MAY_END = {
  hostile: [0, 1, 3, 4],
  stopped: [0, 1, 3, 4, 130],
  honest: [0],
  serve: [0],
} as const;

/** Told as a bug, an error that is none of ours with its stack, or a stack beside the log. */
const BUG = /"?code"?: ?"bug"|\[bug\]|"err":\{"type":"(?!SyncError|DeferredError|ConfigError)|^\s+at .+:\d+:\d+/m;

/** In what a run broke a promise, as sentences. */
export function faultsOf(run: HostileRun, isHostile: boolean): string[] {
  const { ended, watch, slowestMs, stopMs, isStopped } = run;
  const said = `${ended.stdout}\n${ended.stderr}\n${run.pages}`;
  const faults = [
    wrongEnd(run, isHostile),
    BUG.test(said) ? `it says that it has a bug: ${around(said)}` : null,
    watch === null ? 'it died without a word' : null,
    watch !== null && !(watch.peakBytes <= MOST_BYTES) ? `it took ${watch.peakBytes} bytes of memory` : null,
    watch !== null && !(watch.stalledMs <= MOST_STALLED_MS) ? `its loop stood still for ${watch.stalledMs} ms` : null,
    slowestMs > MOST_STALLED_MS ? `a page took ${slowestMs} ms` : null,
    isStopped && stopMs > MOST_STOP_MS ? `it took ${stopMs} ms to stop` : null,
  ];
  return faults.filter((fault) => fault !== null);
}

function wrongEnd({ command, isStopped, ended }: HostileRun, isHostile: boolean): string | null {
  const kind = command === 'serve' ? 'serve' : !isHostile ? 'honest' : isStopped ? 'stopped' : 'hostile';
  // A signal that meets a process whose work is told, while Node takes it down, finds nobody who listens to it.
  const isOver = kind === 'stopped' && ended.signal === 'SIGTERM' && ended.stdout.split('\n').some(isReport);
  const isRight = isOver || MAY_END[kind].some((code) => code === ended.code);
  return isRight ? null : `exit ${ended.code ?? ended.signal}, expected ${MAY_END[kind].join(', ')}: ${told(ended)}`;
}

/** How each source ended, and what a process that died said last. */
function told({ code, stdout, stderr }: HostileRun['ended']): string {
  const reports = stdout.split('\n').flatMap(reportIn);
  const last = code === null || reports.length === 0 ? [stderr.trimEnd().slice(-900)] : [];
  return [...reports, ...last].join('; ');
}

function isReport(line: string): boolean {
  return line.startsWith('{');
}

function reportIn(line: string): string[] {
  if (!isReport(line)) return [];
  const { source, resources }: Report = JSON.parse(line);
  return resources.map(({ status, error, warnings = [] }) =>
    [source, status, error?.code, error?.message, ...warnings.map((warning) => warning.code)]
      .filter((part) => part !== undefined)
      .join(' '),
  );
}

interface Report {
  source: string;
  resources: { status: string; error?: { code: string; message: string }; warnings?: { code: string }[] }[];
}

function around(said: string): string {
  const at = said.search(BUG);
  return said.slice(Math.max(0, at - 500), at + 900);
}
