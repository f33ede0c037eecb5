import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';

const checkpointSchema = z.strictObject({
  /** Origin and path of what was asked for. */
  from: z.string(),
  etag: z.string(),
  /** Bytes of the whole file; null if no answer has told. */
  total: z.int().nullable(),
  /** So many bytes are here, and this is their SHA-256. */
  bytes: z.int().min(1),
  sha256: z.string(),
});

/** What is remembered of an unfinished file: its first bytes are whole and right exactly if they have this hash. */
type Checkpoint = z.output<typeof checkpointSchema>;

/**
 * The checkpoints in the folders of unfinished files: which there are is read once, as only one process at a time fetches
 * to a folder. To look for one beside every small file would wait for the renames of those before it.
 */
export class Checkpoints {
  readonly #folders = new Map<string, Promise<Set<string>>>();

  /** True if there may be one. */
  async has(file: string): Promise<boolean> {
    return (await this.#of(file)).has(file);
  }

  /** Under another name first, so that it is never half. Throws what the disk says. */
  async write(file: string, checkpoint: Checkpoint): Promise<void> {
    await writeFile(`${file}.new`, JSON.stringify(checkpoint), { mode: 0o600 });
    await rename(`${file}.new`, file);
    (await this.#of(file)).add(file);
  }

  /** No error if there is none. Throws what the disk says. */
  async remove(file: string): Promise<void> {
    const files = await this.#of(file);
    if (!files.has(file)) return;
    await rm(file, { force: true });
    files.delete(file);
  }

  #of(file: string): Promise<Set<string>> {
    const folder = path.dirname(file);
    const files = this.#folders.get(folder) ?? filesIn(folder);
    this.#folders.set(folder, files);
    return files;
  }
}

/** None where there is no such folder yet. */
async function filesIn(folder: string): Promise<Set<string>> {
  const names = await readdir(folder).catch(() => []);
  return new Set(names.map((name) => path.join(folder, name)));
}

/** Null if there is none that can be read, or if it is about something else than what stands at `from`. */
export async function readCheckpoint(file: string, from: string): Promise<Checkpoint | null> {
  try {
    const { data } = checkpointSchema.safeParse(JSON.parse(await readFile(file, 'utf8')));
    return data !== undefined && data.from === from ? data : null;
  } catch {
    return null;
  }
}

/** The hash of the first `bytes` of a file, and the first `most` of them; null if it has not so many. */
export async function hashedHead(
  file: string,
  bytes: number,
  most: number,
): Promise<{ hash: Hash; head: Buffer } | null> {
  const hash = createHash('sha256');
  const head: Buffer[] = [];
  let read = 0;
  try {
    for await (const chunk of createReadStream(file, { end: bytes - 1, highWaterMark: 262_144 })) {
      if (!Buffer.isBuffer(chunk)) return null;
      if (read < most) head.push(Buffer.from(chunk.subarray(0, most - read)));
      hash.update(chunk);
      read += chunk.length;
    }
  } catch {
    return null;
  }
  return read === bytes ? { hash, head: Buffer.concat(head) } : null;
}
