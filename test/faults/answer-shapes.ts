import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';

/** Bodies whose cost lies in their shape, each about so many bytes long once it is decoded. */
export const SHAPES: Readonly<Record<string, (bytes: number) => Buffer>> = {
  'empty arrays as records': (bytes) => listing('[]', bytes),
  'empty objects as records': (bytes) => listing('{}', bytes),
  'empty arrays in one record': (bytes) => record(many('[]', bytes)),
  'small numbers': (bytes) => record(many('1', bytes)),
  'small numbers behind a long one': (bytes) => record(`[${'9'.repeat(40)},${many('1', bytes).slice(1)}`),
  'decimals that a double does not hold': (bytes) => record(many('0.12345678901234567890123', bytes)),
  'nested arrays': (bytes) => record('['.repeat(bytes / 2) + ']'.repeat(bytes / 2)),
  'nested objects': (bytes) => record(`${'{"a":'.repeat(bytes / 6)}1${'}'.repeat(bytes / 6)}`),
  'a record of many fields': (bytes) => Buffer.from(`{"data":[${fields(bytes)}],"total":1}`),
  'records of a field of their own': (bytes) => ownFields(bytes),
  'one key again and again': (bytes) => record(`{${many('"a":[]', bytes).slice(1, -1)}}`),
  'a number of megabytes': (bytes) => record('9'.repeat(bytes)),
  'a decimal of megabytes': (bytes) => record(`0.${'1'.repeat(bytes)}`),
  'a text of escapes': (bytes) => record(`"${'\\u4e16'.repeat(bytes / 6)}"`),
  'a text in another script': (bytes) => record(`"${'世'.repeat(bytes / 3)}"`),
  'a key of megabytes': (bytes) => record(`{"${'k'.repeat(bytes)}":1}`),
  'many small records': (bytes) => numbered(bytes),
  'a text that is not closed': (bytes) => Buffer.from(`{"data":[{"id":1,"x":"${'x'.repeat(bytes)}`),
  'nothing but spaces': (bytes) => Buffer.alloc(bytes, ' '),
};

/** Ways to send a body; what is not packed is named after no encoding. */
export const CODECS: Readonly<Record<string, (body: Buffer) => Buffer>> = {
  identity: (body) => body,
  gzip: gzipSync,
  deflate: deflateSync,
  br: (body) => brotliCompressSync(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 3 } }),
  zstd: zstdCompressSync,
  'gzip, gzip': (body) => gzipSync(gzipSync(body)),
  'zstd, br': (body) => brotliCompressSync(zstdCompressSync(body), { params: { [constants.BROTLI_PARAM_QUALITY]: 3 } }),
};

/** A body as it is sent. */
export interface Packed {
  body: Buffer;
  /** `identity` for none. */
  encoding: string;
}

export function packed(shape: string, encoding: string, bytes: number): Packed {
  const [make, pack] = [SHAPES[shape], CODECS[encoding]];
  if (make === undefined || pack === undefined) throw new Error(`there is no ${shape} in ${encoding}`);
  return { body: pack(make(bytes)), encoding };
}

function many(value: string, bytes: number): string {
  return `[${`${value},`.repeat(bytes / (value.length + 1))}${value}]`;
}

function listing(value: string, bytes: number): Buffer {
  return Buffer.from(`{"data":${many(value, bytes)}}`);
}

function record(value: string): Buffer {
  return Buffer.from(`{"data":[{"id":1,"x":${value}}],"total":1}`);
}

function fields(bytes: number): string {
  const count = Math.ceil(bytes / 12);
  return `{"id":1,${Array.from({ length: count }, (_, index) => `"f${index}":1`).join(',')}}`;
}

function ownFields(bytes: number): Buffer {
  const count = Math.ceil(bytes / 30);
  return Buffer.from(
    `{"data":[${Array.from({ length: count }, (_, index) => `{"id":${index},"f${index}":1}`).join(',')}]}`,
  );
}

function numbered(bytes: number): Buffer {
  const count = Math.ceil(bytes / 14);
  const records = Array.from({ length: count }, (_, index) => `{"id":${index}}`);
  return Buffer.from(`{"data":[${records.join(',')}],"total":${count}}`);
}
