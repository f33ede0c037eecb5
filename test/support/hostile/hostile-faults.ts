import type { HostileRun } from './hostile-run.ts';

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
