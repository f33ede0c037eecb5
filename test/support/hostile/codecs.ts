import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import type { Tricks } from './answer.ts';

/** A body as it goes over the wire, and what is said of it: null where nothing is. */
export interface Coded {
  bytes: Buffer;
  encoding: string | null;
}

const FAST_BROTLI = { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } };
const CODERS = {
  gzip: (body: Buffer) => gzipSync(body, { level: 1 }),
  deflate: (body: Buffer) => deflateSync(body, { level: 1 }),
  br: (body: Buffer) => brotliCompressSync(body, FAST_BROTLI),
  zstd: (body: Buffer) => zstdCompressSync(body),
} as const;
const NAMES = ['gzip', 'deflate', 'br', 'zstd'] as const;

const BOMB = 24 * 2 ** 20;
const bombs = new Map<string, Buffer>();

/** Content codings: those that are right, and those that lie. */
export const CODECS: Tricks<(body: Buffer) => Coded> = {
  'codec: one': ({ random }) => {
    const name = random.pick(NAMES);
    return (body) => ({ bytes: CODERS[name](body), encoding: random.pick([name, name.toUpperCase(), ` ${name} `]) });
  },
  'codec: raw deflate': () => (body) => ({ bytes: deflateRawSync(body), encoding: 'deflate' }),
  'codec: nested': ({ random }) => {
    const names = Array.from({ length: random.pick([2, 2, 3, 5]) }, () => random.pick(NAMES));
    return (body) => ({ bytes: names.reduce((bytes, name) => CODERS[name](bytes), body), encoding: names.join(', ') });
  },
  'codec: not so': ({ random }) => {
    const encoding = random.pick([
      ...NAMES,
      'identity',
      'compress',
      'aws-chunked',
      'x-gzip, x-gzip',
      ',,gzip,',
      '\\',
      'x'.repeat(5_000),
    ]);
    return (body) => ({ bytes: body, encoding });
  },
  'codec: not told':
    ({ random }) =>
    (body) => ({ bytes: CODERS[random.pick(NAMES)](body), encoding: null }),
  'codec: cut off': ({ random }) => {
    const name = random.pick(NAMES);
    return (body) => {
      const bytes = CODERS[name](body);
      return { bytes: bytes.subarray(0, Math.floor(bytes.length * random.next())), encoding: name };
    };
  },
  'codec: something behind it': ({ random }) => {
    const name = random.pick(NAMES);
    return (body) => ({ bytes: Buffer.concat([CODERS[name](body), Buffer.from('{"more":1}')]), encoding: name });
  },
  'codec: many members': () => (body) => {
    const empty = gzipSync(Buffer.alloc(0));
    return { bytes: Buffer.concat([...Array.from({ length: 3_000 }, () => empty), gzipSync(body)]), encoding: 'gzip' };
  },
  'codec: bomb': ({ random }) => {
    const name = random.pick(NAMES);
    const isNested = random.chance(0.3);
    return () => {
      const bytes = bomb(name);
      return isNested ? { bytes: CODERS.gzip(bytes), encoding: `${name}, gzip` } : { bytes, encoding: name };
    };
  },
};

/** Spaces around an empty listing: JSON to its last byte. Made once, for it takes a while. */
function bomb(name: (typeof NAMES)[number]): Buffer {
  const known = bombs.get(name);
  if (known !== undefined) return known;
  const made = CODERS[name](Buffer.alloc(BOMB, ' ').fill('{"data":[],"total":0}', 0, 21));
  bombs.set(name, made);
  return made;
}
