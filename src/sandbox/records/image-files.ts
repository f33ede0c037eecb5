import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, parse } from 'node:path';
import { crc32, deflateSync } from 'node:zlib';

/** The bytes of records that have a file, by record id. */
export type ImageFiles = ReturnType<typeof imageFiles>;

/** Serves `<id>.<anything>` from a folder that may be missing, else what `generate` makes. */
export function imageFiles(folder: string | null, generate: (id: string) => Uint8Array | null) {
  const names = folder !== null && existsSync(folder) ? readdirSync(folder) : [];
  const paths = new Map(names.map((file) => [parse(file).name, join(folder ?? '', file)]));
  const written = new Map<string, Uint8Array | null>();
  return {
    /** Null if there is none. */
    get: (id: string): Uint8Array | null => {
      const own = written.get(id);
      if (own !== undefined) return own;
      const path = paths.get(id);
      return path === undefined ? generate(id) : readFileSync(path);
    },
    put: (id: string, bytes: Uint8Array): void => {
      written.set(id, bytes);
    },
    remove: (id: string): void => {
      written.set(id, null);
    },
  };
}

/** Hex digest, as in an image's record. */
export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

const [WIDTH, HEIGHT] = [320, 240];

/** The bytes of a made-up image: a PNG of a colour of its own, with its id in a comment, so that no two are alike. */
export function pictureOf(id: string): Uint8Array {
  return Buffer.concat([
    SIGNATURE,
    HEADER,
    chunk('PLTE', createHash('sha256').update(id).digest().subarray(0, 3)),
    chunk('tEXt', Buffer.from(`Comment\0${id}`)),
    ROWS,
    END,
  ]);
}

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const HEADER = chunk('IHDR', headerOf(WIDTH, HEIGHT));
/** One bit a pixel, all of them the first colour of the palette; a byte before each row names its filter, which is none. */
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

/** One bit a pixel, which is a place in the palette. */
function headerOf(width: number, height: number): Buffer {
  const data = Buffer.alloc(13);
  data.writeUInt32BE(width, 0);
  data.writeUInt32BE(height, 4);
  data.set([1, 3], 8);
  return data;
}
