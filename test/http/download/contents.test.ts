import { writeFileSync } from 'node:fs';
import path from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isAdmitted, detectKind } from '../../../src/http/download/file-kind.ts';
import { HEAD_BYTES } from '../../../src/http/download/file-body.ts';
import { longOrShort } from '../../support/length.ts';
import { tempFolder } from '../../support/temp-warehouse.ts';
import { pngOf } from './stage.ts';

/** Bytes as hex digits with blanks, texts in quotes: `'RIFF' 00000000 'WEBP'`. */
function bytesOf(text: string): Buffer {
  const parts = text.match(/'[^']*'|[\da-f]+/g) ?? [];
  return Buffer.concat(
    parts.map((part) => (part.startsWith("'") ? Buffer.from(part.slice(1, -1)) : Buffer.from(part, 'hex'))),
  );
}

/** A box of ISO 14496-12. */
function box(type: string, ...content: Buffer[]): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt32BE(8 + content.reduce((sum, { length }) => sum + length, 0));
  header.write(type, 4, 'latin1');
  return Buffer.concat([header, ...content]);
}

function heif(brand: string): Buffer {
  const ispe = box('ispe', bytesOf('00000000 00000780 00000438'));
  const meta = box('meta', Buffer.alloc(4), box('iprp', box('ipco', ispe)));
  return Buffer.concat([
    box('ftyp', bytesOf(`'${brand}' 00000000 '${brand}mif1'`)),
    meta,
    box('mdat', Buffer.alloc(200)),
  ]);
}

const FRAME = bytesOf('ffc0 0011 08 0438 0780 03 012200 021101 031101 ffda 000c 03 01 00 02 11 03 11 00 3f 00 00 ffd9');

function jpeg(...segments: Buffer[]): Buffer {
  return Buffer.concat([bytesOf("ffd8 ffe0 0010 'JFIF' 00 0102 00 0048 0048 0000"), ...segments, FRAME]);
}

/** A segment of 64 KB that is of no use to anybody here, as depth maps and colour profiles are. */
const APPLICATION = Buffer.concat([bytesOf('ffed fffe'), Buffer.alloc(65_532, 'x')]);

/** A TIFF whose directory stands behind so many bytes of pixels. */
function tiff(isLittle: boolean, pixels: number, isBig = false): Buffer {
  const at = (isBig ? 16 : 8) + pixels;
  const word = (value: number, size: number): Buffer => {
    const bytes = Buffer.alloc(size);
    if (isLittle) bytes.writeUIntLE(value, 0, Math.min(size, 6));
    else bytes.writeUIntBE(value, Math.max(0, size - 6), Math.min(size, 6));
    return bytes;
  };
  const entry = (tag: number, value: number): Buffer =>
    Buffer.concat([word(tag, 2), word(4, 2), word(1, isBig ? 8 : 4), word(value, 4), Buffer.alloc(isBig ? 4 : 0)]);
  const start = isBig ? [word(43, 2), word(8, 2), word(0, 2), word(at, 8)] : [word(42, 2), word(at, 4)];
  const entries = [entry(256, 1_920), entry(257, 1_080), entry(262, 2)];
  const count = word(entries.length, isBig ? 8 : 2);
  const head = Buffer.from(isLittle ? 'II' : 'MM');
  return Buffer.concat([head, ...start, Buffer.alloc(pixels, 1), count, ...entries, Buffer.alloc(24)]);
}

const FULL_HD = { width: 1_920, height: 1_080 };

/** What files are by their content, and how large. */
const KINDS: readonly (readonly [string, Buffer, string, { width: number; height: number } | null])[] = [
  ['PNG', pngOf(100, 1_920, 1_080), 'image/png', FULL_HD],
  ['GIF', bytesOf("'GIF89a' 8007 3804 f7 00 00 2c 3b"), 'image/gif', FULL_HD],
  ['JPEG', jpeg(), 'image/jpeg', FULL_HD],
  ['JPEG behind 3 MB', jpeg(...Array.from({ length: 48 }, () => APPLICATION)), 'image/jpeg', FULL_HD],
  ['WebP', bytesOf("'RIFF' 24000000 'WEBPVP8X' 0a000000 10000000 7f0700 370400 00000000"), 'image/webp', FULL_HD],
  [
    'BMP',
    bytesOf("'BM' 46000000 00000000 36000000 28000000 80070000 38040000 0100 1800 00000000"),
    'image/bmp',
    FULL_HD,
  ],
  ['AVIF', heif('avif'), 'image/avif', FULL_HD],
  ['HEIC', heif('heic'), 'image/heic', FULL_HD],
  ['TIFF, little', tiff(true, 10), 'image/tiff', FULL_HD],
  ['TIFF, big', tiff(false, 10), 'image/tiff', FULL_HD],
  ['TIFF with its directory behind 2 MB', tiff(true, 2_000_000), 'image/tiff', FULL_HD],
  ['BigTIFF with its directory behind 2 MB', tiff(true, 2_000_000, true), 'image/tiff', FULL_HD],
  [
    'Photoshop',
    bytesOf("'8BPS' 0001 000000000000 0003 00000438 00000780 0008 0003"),
    'image/vnd.adobe.photoshop',
    FULL_HD,
  ],
  [
    'icon',
    bytesOf('0000 0100 0100 2030 00 00 0100 2000 28010000 16000000 28000000'),
    'image/x-icon',
    { width: 32, height: 48 },
  ],
  ['PDF', bytesOf("'%PDF-1.7' 0a '1 0 obj'"), 'application/pdf', null],
  ['MP4', box('ftyp', bytesOf("'isom' 00000200 'isomiso2avc1mp41'")), 'video/mp4', null],
  ['MP3', bytesOf("'ID3' 0300000000 0000 fffb9064 0000 0000"), 'audio/mpeg', null],
  ['program', bytesOf("'MZ' 9000 0300 0000 0400 0000 ffff"), 'application/x-msdownload', null],
  ['SVG', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="1"/>'), 'image/svg+xml', null],
  [
    'SVG behind much',
    Buffer.from('\ufeff \n<?xml version="1.0"?>\n<!-- c -->\n<!DOCTYPE svg PUBLIC "">\n<svg>'),
    'image/svg+xml',
    null,
  ],
  ['page', Buffer.from('\n<!DOCTYPE html><html>'), 'text/html', null],
  ['page without a declaration', Buffer.from('<!-- x --><h1>Not found</h1>'), 'text/html', null],
  ['page that says that it is XML', Buffer.from('<?xml version="1.0"?><html xmlns="">'), 'text/html', null],
  ['XML', Buffer.from('<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>'), 'application/xml', null],
  ['JSON', Buffer.from('{"error":"not found"}'), 'application/json', null],
  ['text', Buffer.from('not found'), 'text/plain', null],
  ['nothing that is known', Buffer.alloc(100, 1), 'application/octet-stream', null],
];

async function kindOfFile(bytes: Buffer, folder: string) {
  const file = path.join(folder, 'file');
  writeFileSync(file, bytes);
  return detectKind(bytes.subarray(0, HEAD_BYTES), file);
}

describe('detectKind', () => {
  it.each(KINDS)('tells what a file is: %s', async (_, bytes, type, size) => {
    expect(await kindOfFile(bytes, tempFolder())).toEqual({ type, size, isDamaged: false });
  });

  it('waits for what has not come before it calls a header damaged', async () => {
    const bytes = jpeg(APPLICATION, APPLICATION);
    expect(await detectKind(bytes.subarray(0, HEAD_BYTES), null)).toEqual({
      type: 'image/jpeg',
      size: null,
      isDamaged: false,
    });
  });

  it('neither throws nor takes long, whatever the bytes are', async () => {
    const folder = tempFolder();
    const starts = KINDS.map(([, bytes]) => bytes.subarray(0, 2_000));
    const noise = fc.uint8Array({ maxLength: 4_000 });
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...starts),
        fc.nat(2_000),
        noise,
        fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 8 }),
        async (start, cut, rest, flips) => {
          const bytes = Buffer.concat([start.subarray(0, cut), rest]);
          for (const [at, value] of flips) if (at < bytes.length) bytes[at] = value;
          const before = process.cpuUsage().user;
          const kind = await kindOfFile(bytes, folder);
          expect(process.cpuUsage().user - before).toBeLessThan(500_000);
          const { width, height } = kind.size ?? { width: 1, height: 1 };
          expect(width * height).toBeGreaterThan(0);
        },
      ),
      { numRuns: longOrShort(50_000, 60) },
    );
  });

  it.each([
    [
      'properties of a HEIC',
      () =>
        Buffer.concat([
          box('ftyp', bytesOf("'heic' 00000000 'heic'")),
          box(
            'meta',
            Buffer.alloc(4),
            box(
              'iprp',
              box('ipco', Buffer.concat(Array.from({ length: 100_000 }, () => box('ispe', Buffer.alloc(12, 1))))),
            ),
          ),
        ]),
    ],
    [
      'markers of a JPEG',
      () => Buffer.concat([bytesOf('ffd8ffe0'), Buffer.alloc(4_000_000, Buffer.from([0xff, 0xe0, 0, 2]))]),
    ],
    ['pictures of an icon', () => Buffer.concat([bytesOf('00000100ffff'), Buffer.alloc(4_000_000, 1)])],
    ['tags of a TIFF', () => Buffer.concat([bytesOf("'II' 2a00 08000000"), Buffer.alloc(4_000_000, 1)])],
    ['declarations of a page', () => Buffer.from('<?x?>'.repeat(800_000))],
    ['roots of a drawing', () => Buffer.from('<svg '.repeat(800_000))],
  ])('does not take long over a million %s', async (_, make) => {
    const bytes = make();
    const folder = tempFolder();
    const before = process.cpuUsage().user;
    await kindOfFile(bytes, folder);
    expect(process.cpuUsage().user - before).toBeLessThan(1_000_000);
  });
});

describe('isAdmitted', () => {
  it.each([
    ['image/png', ['image/*'], true],
    ['image/png', ['image/jpeg', 'video/*'], false],
    ['image/svg+xml', ['image/*'], false],
    ['image/svg+xml', ['image/*', 'image/svg+xml'], true],
    ['text/html', ['text/*'], false],
    ['imagery/png', ['image/*'], false],
  ])('%s by %j: %s', (type, patterns, isWanted) => {
    expect(isAdmitted(type, patterns)).toBe(isWanted);
  });
});
