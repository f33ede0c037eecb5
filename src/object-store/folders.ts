import { existsSync } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import path from 'node:path';
import pMap from 'p-map';
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

/** So many folders are synced at once: what is written together is on the disk together. */
const AT_ONCE = 8;

/** Folders that were written to and are not on the disk for sure. */
export class UnsyncedFolders {
  readonly #folders = new Set<string>();
  #before: Promise<void> = Promise.resolve();

  /** To be called after something was renamed into a folder, or made in it. */
  add(folder: string): void {
    this.#folders.add(folder);
  }

  /** One after the other: whoever asks waits for what is under way as well. Throws what the disk says. */
  sync(): Promise<void> {
    const synced = this.#before.catch(() => undefined).then(() => this.#syncAll());
    this.#before = synced;
    // Whoever asks next may never come.
    synced.catch(() => undefined);
    return synced;
  }

  async #syncAll(): Promise<void> {
    const folders = [...this.#folders];
    this.#folders.clear();
    try {
      await pMap(folders, syncFolder, { concurrency: AT_ONCE });
    } catch (error) {
      for (const folder of folders) this.#folders.add(folder);
      throw error;
    }
  }
}
