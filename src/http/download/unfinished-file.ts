import { createHash, hash, type Hash } from 'node:crypto';
import { mkdir, open, rm, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { codeOf, told } from '../../object-store/file-faults.ts';
import type { Begun, Validator } from './byte-range.ts';
import { hashedHead, readCheckpoint, type Checkpoints } from './checkpoint.ts';

/** So much is kept in memory of each file: enough to tell what it is; smaller files are written in one go. */
export const HEAD_BYTES = 65_536;
/** Less than this is not worth keeping for another call. */
const LEAST_KEPT = 1_048_576;
/** A kill costs at most so many bytes, which are fetched again. */
const CHECKPOINT_BYTES = 16_777_216;
/** Only this user: whoever stores the file gives it the mode that is wanted. */
const MODE = 0o600;

/** Most files are small, and hashed in one go. */
const NOTHING = createHash('sha256');

/** Where an unfinished file stands, and what it is of. */
interface FilePlace {
  folder: string;
  name: string;
  /** Origin and path of the file. */
  from: string;
  checkpoints: Checkpoints;
}

/**
 * A file on its way, hashed while it is written. What is here of a large one survives a kill, if the service told by which
 * validator its rest is asked for; its bytes are proved by their hash, whatever became of them meanwhile.
 */
export class UnfinishedFile implements Begun {
  readonly path: string;
  readonly #note: string;
  readonly #notes: Checkpoints;
  readonly #from: string;
  /** Of what stands on the disk. */
  #hash: Hash = NOTHING;
  #handle: FileHandle | null = null;
  #head: Buffer[] = [];
  #headBytes = 0;
  #onDisk = 0;
  #checked = 0;
  #bytes = 0;
  #validator: Validator | null = null;
  #isPieced = false;

  private constructor({ folder, name, from, checkpoints }: FilePlace) {
    this.#notes = checkpoints;
    this.path = path.join(folder, `${name}.part`);
    this.#note = path.join(folder, `${name}.json`);
    this.#from = from;
  }

  /** Goes on with what a call before this one left. Throws what `append` does. */
  static async open(place: FilePlace): Promise<UnfinishedFile> {
    const file = new UnfinishedFile(place);
    if (await file.#notes.has(file.#note)) await file.#resume();
    return file;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get validator(): Validator | null {
    return this.#validator;
  }

  /** True if nothing of it stands on the disk: its head is all of it. */
  get isInMemory(): boolean {
    return this.#onDisk === 0;
  }

  /** True if it is made of the bodies of several answers. */
  get isPieced(): boolean {
    return this.#isPieced;
  }

  /** Its first bytes, up to `HEAD_BYTES`. */
  get head(): Buffer {
    const [first] = this.#head;
    return first !== undefined && this.#head.length === 1 ? first : Buffer.concat(this.#head, this.#headBytes);
  }

  /** Throws away what is here; what comes belongs to this validator. */
  async begin(validator: Validator | null): Promise<void> {
    this.#hash = NOTHING;
    this.#head = [];
    this.#headBytes = 0;
    this.#onDisk = 0;
    this.#checked = 0;
    this.#bytes = 0;
    this.#validator = validator;
    this.#isPieced = false;
    await this.#tried(async () => {
      await this.#handle?.truncate(0);
      await this.#notes.remove(this.#note);
    });
  }

  /** From here on it is another answer's body. */
  goOn(): void {
    this.#isPieced = true;
  }

  /** Throws `SyncError`: `file_store_full` (retry), and what else `storeFault` makes of what the disk says. */
  async append(chunk: Buffer): Promise<void> {
    this.#bytes += chunk.length;
    if (this.#headBytes < HEAD_BYTES) {
      // A copy: the chunk may be a part of a larger piece of memory, or be used again.
      const part = Buffer.from(chunk.subarray(0, HEAD_BYTES - this.#headBytes));
      this.#head.push(part);
      this.#headBytes += part.length;
      if (this.#headBytes < HEAD_BYTES) return;
      await this.#write(this.head);
      if (part.length < chunk.length) await this.#write(chunk.subarray(part.length));
    } else {
      await this.#write(chunk);
    }
    if (this.#validator !== null && this.#bytes - this.#checked >= CHECKPOINT_BYTES) await this.#checkpoint();
  }

  /**
   * Writes what is still in memory, unless a small file is to stay there, and closes it; returns the SHA-256 in hex
   * digits. Throws what `append` does.
   */
  async finish(keepsSmall: boolean): Promise<string> {
    await this.#tried(async () => {
      if (this.#onDisk < this.#bytes && !keepsSmall) await this.#write(this.head);
      await this.#handle?.close();
      this.#handle = null;
      await this.#notes.remove(this.#note);
    });
    return this.isInMemory ? hash('sha256', this.head, 'hex') : this.#hash.copy().digest('hex');
  }

  /** Closes it so that another call can go on; what nobody could go on with is removed. Never throws. */
  async leave(): Promise<void> {
    try {
      if (this.#validator === null || this.#onDisk < LEAST_KEPT) return await this.remove();
      await this.#checkpoint();
      await this.#handle?.close();
      this.#handle = null;
    } catch {
      await this.remove();
    }
  }

  /** Removes it. Never throws: what stays behind is swept later. */
  async remove(): Promise<void> {
    const handle = this.#handle;
    this.#handle = null;
    await handle?.close().catch(() => undefined);
    await this.#notes.remove(this.#note).catch(() => undefined);
    if (this.#onDisk > 0) await rm(this.path, { force: true }).catch(() => undefined);
  }

  /** Always at the place of its own: a file that was resumed is open at its beginning. */
  async #write(chunk: Buffer): Promise<void> {
    await this.#tried(async () => {
      this.#handle ??= await this.#create();
      for (let at = 0; at < chunk.length;) {
        const { bytesWritten } = await this.#handle.write(chunk, at, chunk.length - at, this.#onDisk);
        at += bytesWritten;
        this.#onDisk += bytesWritten;
      }
      if (this.#hash === NOTHING) this.#hash = createHash('sha256');
      this.#hash.update(chunk);
    });
  }

  async #create(): Promise<FileHandle> {
    try {
      return await open(this.path, 'w', MODE);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error;
      await mkdir(path.dirname(this.path), { recursive: true });
      return open(this.path, 'w', MODE);
    }
  }

  async #checkpoint(): Promise<void> {
    if (this.#validator === null || this.#checked === this.#bytes) return;
    const sha256 = this.#hash.copy().digest('hex');
    const checkpoint = { ...this.#validator, from: this.#from, bytes: this.#bytes, sha256 };
    await this.#tried(() => this.#notes.write(this.#note, checkpoint));
    this.#checked = checkpoint.bytes;
  }

  async #resume(): Promise<void> {
    const note = await readCheckpoint(this.#note, this.#from);
    const begun = note === null ? null : await hashedHead(this.path, note.bytes, HEAD_BYTES);
    if (note === null || begun === null || begun.hash.copy().digest('hex') !== note.sha256) {
      await this.#tried(async () => {
        await this.#notes.remove(this.#note);
        await rm(this.path, { force: true });
      });
      return;
    }
    await this.#tried(async () => {
      this.#handle = await open(this.path, 'r+');
      await this.#handle.truncate(note.bytes);
    });
    this.#hash = begun.hash;
    this.#head = [begun.head];
    this.#headBytes = begun.head.length;
    this.#bytes = this.#onDisk = this.#checked = note.bytes;
    this.#validator = { etag: note.etag, total: note.total };
    this.#isPieced = true;
  }

  #tried(work: () => Promise<void>): Promise<void> {
    return told(path.dirname(this.path), work);
  }
}
