import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** One whole process from start to end. */
export interface Measured {
  seconds: number;
  /** User and system time; NaN where the system does not tell. */
  cpuSeconds: number;
  /** Peak resident memory; NaN where the system does not tell. */
  peakMegabytes: number;
  /** What other processes have used meanwhile, by the names that they were given. */
  besideSeconds: Readonly<Record<string, number>>;
  stdout: string;
}

interface MeasureOptions {
  env?: NodeJS.ProcessEnv;
  /** Process ids by name; the children of each count with it. */
  beside?: Readonly<Record<string, number>>;
}

/** Clock ticks per second of `/proc/<pid>/stat`, which is 100 on every Linux that Node runs on. */
const TICKS = 100;
const SAMPLE_MS = 20;

/** Runs a command to its end. Throws where it fails, with what it said. */
export async function measure(args: readonly string[], options: MeasureOptions = {}): Promise<Measured> {
  const { env = process.env, beside = {} } = options;
  const before = secondsOf(beside);
  const ownBefore = statOf('self')?.endedSeconds ?? Number.NaN;
  const started = performance.now();
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], env });
  const [out, err]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  let peakMegabytes = Number.NaN;
  const sampling = setInterval(() => (peakMegabytes = peakOf(child.pid) ?? peakMegabytes), SAMPLE_MS);
  const { promise, resolve } = Promise.withResolvers<number | null>();
  child.on('close', resolve);
  const code = await promise;
  clearInterval(sampling);
  const seconds = (performance.now() - started) / 1_000;
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}:\n${Buffer.concat(err).toString()}`);
  // A child that has ended counts as a whole, up to its last moment.
  const cpuSeconds = (statOf('self')?.endedSeconds ?? Number.NaN) - ownBefore;
  const after = secondsOf(beside);
  const besideSeconds = Object.fromEntries(
    Object.entries(after).map(([name, used]) => [name, used - (before[name] ?? Number.NaN)]),
  );
  return { seconds, cpuSeconds, peakMegabytes, besideSeconds, stdout: Buffer.concat(out).toString() };
}

function secondsOf(processes: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(processes).map(([name, pid]) => [name, familySeconds(pid)]));
}

/** Of a process with its children, those that have ended among them. */
function familySeconds(pid: number): number {
  const all = readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? (statOf(name) ?? []) : []));
  const family = all.filter((one) => one.pid === pid || one.parent === pid);
  return family.reduce((sum, { ownSeconds, endedSeconds }) => sum + ownSeconds + endedSeconds, 0);
}

/** Times of a process, and of those of its children that have ended; null where there is none, or no `/proc`. */
function statOf(pid: string): { pid: number; parent: number; ownSeconds: number; endedSeconds: number } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // After the command's name, which may hold anything: user time is field 14 of the line, and the others follow.
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15);
    return {
      pid: Number.parseInt(stat, 10),
      parent: fields[1] ?? 0,
      ownSeconds: (user + system) / TICKS,
      endedSeconds: (endedUser + endedSystem) / TICKS,
    };
  } catch {
    return null;
  }
}

function peakOf(pid: number | undefined): number | null {
  try {
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return peak === undefined ? null : Number(peak) / 1_024;
  } catch {
    return null;
  }
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}
