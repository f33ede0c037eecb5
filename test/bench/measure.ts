import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** One whole process from start to end. */
export interface Measured {
  seconds: number;
  /** User and system time; NaN where the system does not tell. */
  cpuSeconds: number;
  /** Peak resident memory; NaN where the system does not tell. */
  peakMegabytes: number;
  stdout: string;
}

/** Clock ticks per second of `/proc/<pid>/stat`, which is 100 on every Linux that Node runs on. */
const TICKS = 100;
const SAMPLE_MS = 20;

/** Runs a command to its end. Throws where it fails, with what it said. */
export async function measure(args: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<Measured> {
  const started = performance.now();
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'], env });
  const [out, err]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
  let last = { cpuSeconds: Number.NaN, peakMegabytes: Number.NaN };
  const sampling = setInterval(() => (last = sample(child.pid) ?? last), SAMPLE_MS);
  const { promise, resolve } = Promise.withResolvers<number | null>();
  child.on('close', resolve);
  const code = await promise;
  clearInterval(sampling);
  const seconds = (performance.now() - started) / 1_000;
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}:\n${Buffer.concat(err).toString()}`);
  return { seconds, ...last, stdout: Buffer.concat(out).toString() };
}

function sample(pid: number | undefined): { cpuSeconds: number; peakMegabytes: number } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // After the command's name, which may hold anything: user time is field 14 of the line, system time field 15.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    if (peak === undefined) return null;
    return { cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS, peakMegabytes: Number(peak) / 1_024 };
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
