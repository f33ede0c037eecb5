import { spawnSync } from 'node:child_process';
import { createReadStream, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';

/** Why writes and syncs cannot be watched here; null where they can. */
export function noTracing(): string | null {
  const { status } = spawnSync('strace', ['-f', '--seccomp-bpf', '-o', '/dev/null', 'true']);
  return status === 0 ? null : 'strace is not installed, or may not trace';
}

/** Put before a command, it has the command's writes and syncs of files written to `trace`. */
export function tracedInto(trace: string): string {
  const calls = 'trace=pwrite64,ftruncate,fsync,fdatasync,unlink';
  return `exec strace -D -f --seccomp-bpf -y -xx -s 4000000 -e ${calls} -o '${trace}'`;
}

interface Call {
  name: string;
  file: string;
  rest: string;
}

/** Changes a file that has become so large. */
type Change = (before: Buffer) => Buffer;

interface TracedFile {
  /** What a power cut leaves. */
  kept: Buffer;
  /** Written, and not yet synced. */
  loose: Change[];
}

const CALL = /^(?<pid>\d+) +(?<name>\w+)\((?:\d+<|")(?<file>[^>"]*)[>"](?<rest>.*)$/;
const RESUMED = /^(?<pid>\d+) +<\.\.\. \w+ resumed>(?<rest>.*)$/;
const UNFINISHED = ' <unfinished ...>';
const WRITTEN = /^, "(?<data>[^"]*)", \d+, (?<offset>\d+)/;
const CUT_TO = /^, (?<length>\d+)/;

/**
 * Plays a trace again, and calls `synced` after each sync with the file and a way to have all files as a power cut in
 * this moment leaves them, where every write goes that was not synced.
 */
export async function replayTrace(
  trace: string,
  synced: (file: string, cut: (folder: string) => void) => void,
): Promise<void> {
  const files = new Map<string, TracedFile>();
  const open = new Map<string, { call: Call; seen: number }>();

  function fileOf(name: string): TracedFile {
    const file = files.get(name) ?? { kept: Buffer.alloc(0), loose: [] };
    files.set(name, file);
    return file;
  }

  function end({ name, file, rest }: Call, seen: number): void {
    // Only journals go, which have had their turn by then: SQLite syncs the folder behind it.
    if (name === 'unlink') return void files.delete(file);
    const traced = fileOf(file);
    const change = changeOf(name, rest);
    if (change !== null) return void traced.loose.push(change);
    traced.kept = traced.loose.splice(0, seen).reduce((bytes, apply) => apply(bytes), traced.kept);
    synced(file, (folder) => writeAll(files, folder));
  }

  for await (const line of createInterface({ input: createReadStream(trace) })) {
    const resumed = RESUMED.exec(line)?.groups;
    const begun = resumed === undefined ? CALL.exec(line)?.groups : undefined;
    if (begun !== undefined) {
      const { pid = '', name = '', file: hex = '', rest = '' } = begun;
      const call = { name, file: bytesOf(hex).toString(), rest };
      // Only what was written before a sync began is sure to be in it.
      const seen = fileOf(call.file).loose.length;
      if (rest.endsWith(UNFINISHED)) open.set(pid, { call, seen });
      else if (isWell(rest)) end(call, seen);
    } else if (resumed !== undefined) {
      const { pid = '', rest = '' } = resumed;
      const one = open.get(pid);
      open.delete(pid);
      if (one !== undefined && isWell(rest)) end(one.call, one.seen);
    }
  }
}

/** Null for a sync. */
function changeOf(name: string, rest: string): Change | null {
  const written = name === 'pwrite64' ? WRITTEN.exec(rest)?.groups : undefined;
  if (written !== undefined) {
    const data = bytesOf(written['data'] ?? '');
    const offset = Number(written['offset']);
    return (before) => {
      const after = resized(before, Math.max(before.length, offset + data.length));
      data.copy(after, offset);
      return after;
    };
  }
  const length = name === 'ftruncate' ? CUT_TO.exec(rest)?.groups?.['length'] : undefined;
  return length === undefined ? null : (before) => resized(before, Number(length));
}

function resized(before: Buffer, length: number): Buffer {
  const after = Buffer.alloc(length);
  before.copy(after, 0, 0, Math.min(length, before.length));
  return after;
}

function isWell(rest: string): boolean {
  return !/ = -1 E[A-Z]+/.test(rest);
}

/** `\x2f\x74` as bytes. */
function bytesOf(hex: string): Buffer {
  return Buffer.from(hex.replaceAll(String.raw`\x`, ''), 'hex');
}

function writeAll(files: ReadonlyMap<string, TracedFile>, folder: string): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, { kept }] of files) {
    if (/\.db(?:-wal|-journal)?$/.test(name)) writeFileSync(path.join(folder, path.basename(name)), kept);
  }
}
