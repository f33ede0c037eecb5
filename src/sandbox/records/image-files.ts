// The image files that the sandbox serves: read from a folder, or generated as small PNGs.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, parse } from 'node:path';
import { crc32, deflateSync } from 'node:zlib';

/** The bytes of images, by record id: from a folder that may be missing, or generated for the first `generated` ids. */
export class ImageFiles {
  readonly #generated: number;
  readonly #paths: ReadonlyMap<string, string>;
  /** Null for a removed file. */
  readonly #written = new Map<string, Uint8Array | null>();

  constructor(folder: string | null, generated: number) {
    const names = folder !== null && existsSync(folder) ? readdirSync(folder) : [];
    this.#paths = new Map(names.map((file) => [parse(file).name, join(folder ?? '', file)]));
    this.#generated = generated;
  }

  get(id: string): Uint8Array | null {
    const written = this.#written.get(id);
    if (written !== undefined) return written;
    const path = this.#paths.get(id);
    if (path !== undefined) return readFileSync(path);
    return Number(/^img_(\d{9})$/.exec(id)?.[1] ?? Infinity) < this.#generated ? generatePng(id) : null;
  }

  put(id: string, bytes: Uint8Array): void {
    this.#written.set(id, bytes);
  }

  remove(id: string): void {
    this.#written.set(id, null);
  }
}

/** Hex digest, as in an image's record. */
export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

const [WIDTH, HEIGHT] = [320, 240];

/** Generates a PNG of one colour with the id in a comment, so that no two are equal. */
export function generatePng(id: string): Uint8Array {
  const colour = createHash('sha256').update(id).digest().subarray(0, 3);
  return Buffer.concat([
    Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
    HEADER,
    chunk('PLTE', colour),
    chunk('tEXt', Buffer.from(`Comment\0${id}`)),
    ROWS,
    END,
  ]);
}

/** Width, height, one bit per pixel, and the palette as colour type. */
const HEADER = chunk('IHDR', Buffer.from([0, 0, WIDTH >> 8, WIDTH & 255, 0, 0, 0, HEIGHT, 1, 3, 0, 0, 0]));
/** All pixels have the first colour of the palette; a zero before each row says that it has no filter. */
const ROWS = chunk('IDAT', deflateSync(Buffer.alloc((1 + WIDTH / 8) * HEIGHT)));
const END = chunk('IEND', Buffer.alloc(0));

/** Length, name, data and checksum (PNG, 5.3). */
function chunk(name: string, data: Uint8Array): Buffer {
  const named = Buffer.concat([Buffer.from(name, 'latin1'), data]);
  const [length, checksum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  checksum.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, checksum]);
}
