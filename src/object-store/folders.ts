import { existsSync } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import path from 'node:path';
import { codeOf } from './file-faults.ts';

/** Makes a folder with those above it. Level by level: Node's own `recursive` never ends where a file system answers ENOENT, as /proc does. */
export async function makeFolder(folder: string): Promise<void> {
  if (existsSync(folder)) return;
  await makeFolder(path.dirname(folder));
  await mkdir(folder).catch((error: unknown) => {
    if (codeOf(error) !== 'EEXIST') throw error;
  });
}

/** What was renamed into a folder is there after a power cut once the folder is on the disk as well. */
export async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder, 'r');
  await handle.sync();
}

/** Folders that are being synced, and the next time for those who came meanwhile. */
const underWay = new Map<string, { now: Promise<void>; next: Promise<void> | null }>();

/** The same, once for all who ask while another one is under way. */
export async function syncMerged(folder: string): Promise<void> {
  const running = underWay.get(folder);
  if (running !== undefined) {
    running.next ??= running.now.catch(() => undefined).then(() => syncMerged(folder));
    return running.next;
  }
  const now = syncFolder(folder).finally(() => underWay.delete(folder));
  underWay.set(folder, { now, next: null });
  return now;
}
