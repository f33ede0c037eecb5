import {
  closeSync,
  fchmodSync,
  fstatSync,
  fsync,
  lstatSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
  type NoParamCallback,
} from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { messageOf } from '../../model/errors.ts';
import { excludeEnvironment } from '../../observe/exclude-environment.ts';
import { codeOf } from '../file-faults.ts';
import type { AskedFiles, SmallFile, WrittenFile } from './small-file.ts';

/*
 * A thread that writes small files. All steps are made here and now, each in a few microseconds, but for the one that
 * waits for the disk: several files wait for it together.
 */

const port = parentPort;
if (port === null) throw new Error('this is a thread of content-sync, not a program');
excludeEnvironment();

/** So many are told together, or fewer where none is under way: each message wakes a thread on either side. */
const TOLD_TOGETHER = 8;

let written: WrittenFile[] = [];
let underWay = 0;

port.on('message', ({ first, files, contents }: AskedFiles) => {
  let at = 0;
  underWay += files.length;
  for (const [index, file] of files.entries()) {
    begin(file, contents.subarray(at, at + file.bytes), (error) => tell(first + index, error));
    at += file.bytes;
  }
});

function tell(number: number, error: unknown): void {
  underWay -= 1;
  written.push({ number, error: error === null ? null : { message: messageOf(error), code: codeOf(error) } });
  if (written.length < TOLD_TOGETHER && underWay > 0) return;
  port?.postMessage(written, []);
  written = [];
}

function begin(file: SmallFile, content: Uint8Array, done: (error: unknown) => void): void {
  try {
    const there = lstatSync(file.target, { throwIfNoEntry: false });
    if (there?.isFile() === true && there.size === file.bytes) {
      rmSync(file.path, { force: true });
      done(null);
      return;
    }
    const handle = filled(file, content);
    fsync(handle, (error) => done(ended(file, handle, error)));
  } catch (error) {
    done(withoutRest(file, error));
  }
}

/** Open, with all of its content and its rights. */
function filled({ path, fileMode }: SmallFile, content: Uint8Array): number {
  const handle = openSync(path, 'w', fileMode);
  try {
    for (let at = 0; at < content.length;) at += writeSync(handle, content, at);
    // What the mask of the process took away, and those of a file that was left there.
    if ((fstatSync(handle).mode & 0o777) !== fileMode) fchmodSync(handle, fileMode);
    return handle;
  } catch (error) {
    closeSync(handle);
    throw error;
  }
}

/** Returns what went wrong; null if the file is in its place. */
function ended(file: SmallFile, handle: number, unsynced: Parameters<NoParamCallback>[0]): unknown {
  try {
    closeSync(handle);
    if (unsynced !== null) throw unsynced;
    renameSync(file.path, file.target);
    return null;
  } catch (error) {
    return withoutRest(file, error);
  }
}

/** What has no room leaves none of itself behind. */
function withoutRest({ path }: SmallFile, error: unknown): unknown {
  try {
    rmSync(path, { force: true });
  } catch {
    // It is swept later.
  }
  return error;
}
