// Detects the type of a file, and the size of a picture, from its content, because names and headers are often wrong.
import { type FileHandle, open } from 'node:fs/promises';
import type * as FileType from 'file-type';
import type * as ImageSize from 'image-size';

export interface FileKind {
  type: string;
  /** Pixels of a picture; null if unknown, and for other files. */
  size: PictureSize | null;
  /** True for a complete picture whose size cannot be read: its header is damaged. */
  isDamaged: boolean;
}

const TIFF = /^(?:II[*+]\0|MM\0[*+])$/;

/**
 * Detects the type of a file from its first bytes (`head`). If they do not contain the size of a picture, it reads the
 * file at `path`, which is null while the file is incomplete.
 */
export async function detectKind(head: Buffer, path: string | null): Promise<FileKind> {
  const type = await detectType(head);
  if (!type.startsWith('image/')) return { type, size: null, isDamaged: false };
  const size = await readPictureSize(type, head, path);
  return size === 'damaged' ? { type, size: null, isDamaged: true } : { type, size, isDamaged: false };
}

async function detectType(head: Buffer): Promise<string> {
  // The library needs the directory of a TIFF, which may be at the end of the file.
  const known = (await detectBinaryType(head)) ?? (TIFF.test(head.toString('latin1', 0, 4)) ? 'image/tiff' : null);
  // The library recognises XML, but not SVG and HTML.
  if (known !== null && known !== 'application/xml') return known;
  return detectTextType(head) ?? known ?? 'application/octet-stream';
}

/** Loaded with the first file. */
let detection: Promise<typeof FileType> | undefined;

async function detectBinaryType(head: Buffer): Promise<string | null> {
  const { fileTypeFromBuffer } = await (detection ??= import('file-type'));
  try {
    return (await fileTypeFromBuffer(head))?.mime.split(';')[0] ?? null;
  } catch {
    // A file that its parser cannot read is not of that type.
    return null;
  }
}

/** Types that can contain scripts: they must be allowed by name, not by `image/*` or `text/*`. */
const ACTIVE: ReadonlySet<string> = new Set(['image/svg+xml', 'text/html', 'application/xhtml+xml']);

/** True if one of the patterns (`image/png`, `image/*`) allows a type. */
export function isAdmitted(type: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => pattern === type || (!ACTIVE.has(type) && pattern === type.replace(/\/.*$/, '/*')));
}

/** Bytes of a text that are examined. */
const SAMPLE_BYTES = 4_096;

/** True for a control character that texts do not contain. */
function isBinary(byte: number): boolean {
  return byte < 9 || (byte > 13 && byte < 32 && byte !== 27);
}

/** Detects HTML, SVG, other XML, JSON and plain text; null for a binary file. Takes linear time. */
export function detectTextType(head: Buffer): string | null {
  const sample = head.subarray(0, SAMPLE_BYTES);
  if (sample.length === 0 || sample.some(isBinary)) return null;
  const text = sample.toString('latin1');
  const start = text.slice(skipPrologue(text));
  if (/^<svg[\s>/]/i.test(start)) return 'image/svg+xml';
  if (start.startsWith('<')) return text.includes('<?xml') && !HTML_START.test(start) ? 'application/xml' : 'text/html';
  return /^[{[]/.test(start) ? 'application/json' : 'text/plain';
}

/** Tells XHTML from other XML, which may both begin with an XML declaration. */
const HTML_START = /^<(?:!doctype html|html|head|body|script)\b/i;

/** Starts and ends of declarations and comments, which may precede the first element. */
const PROLOGUE: readonly (readonly [string, string])[] = [
  ['<?', '?>'],
  ['<!--', '-->'],
  ['<!doctype svg', '>'],
];

function skipPrologue(text: string): number {
  let position = text.startsWith('\u00ef\u00bb\u00bf') ? 3 : 0;
  for (;;) {
    while (/\s/.test(text.charAt(position))) position += 1;
    const found = PROLOGUE.find(
      ([opening]) => text.slice(position, position + opening.length).toLowerCase() === opening,
    );
    const end = found === undefined ? -1 : text.indexOf(found[1], position);
    if (found === undefined || end === -1) return position;
    position = end + found[1].length;
  }
}

interface PictureSize {
  width: number;
  height: number;
}

/** Types whose pixels the library can read. */
const SIZED_TYPES: ReadonlySet<string> = new Set(
  'apng avif bmp gif heic heif icns j2c jp2 jpeg jxl ktx png tiff vnd.adobe.photoshop webp x-icon'
    .split(' ')
    .map((name) => `image/${name}`),
);

/** Bytes to search if the first ones do not hold the size. */
const MAX_SEARCHED_BYTES = 8_388_608;
/** Box formats (ISO 23008-12): not searched beyond the first bytes, because that takes quadratic time. */
const BOXED: ReadonlySet<string> = new Set(['image/avif', 'image/heic', 'image/heif']);

/** Their supported brands, which exclude image sequences. */
const BRANDS = /^(?:avif|mif1|msf1|hei[cx]|hev[cx])$/;

/**
 * Returns the pixels in the header of a picture; null if the format is not supported or the size is not in `head` and
 * the file is incomplete (`path` is null): its rest may have it. `damaged` if no part of a complete file has a size.
 */
async function readPictureSize(
  type: string,
  head: Buffer,
  path: string | null,
): Promise<PictureSize | null | 'damaged'> {
  if (!SIZED_TYPES.has(type) || (BOXED.has(type) && !BRANDS.test(head.toString('latin1', 8, 12)))) return null;
  const size = await sizeInHeader(head);
  if (size !== 'damaged' || path === null) return size === 'damaged' ? null : size;
  if (BOXED.has(type)) return 'damaged';
  await using handle = await open(path);
  const part = type === 'image/tiff' ? await moveDirectoryFirst(handle) : await readBytes(handle, 0);
  return part === null ? 'damaged' : sizeInHeader(part);
}

/** Bytes of the header of a BigTIFF; that of a TIFF has 8, but no picture is smaller than this. */
const TIFF_HEADER_BYTES = 16;

/**
 * Reads the directory of a TIFF, which is often after the pixels, and returns it right after the header, with the offset
 * in the header corrected: the library reads only the beginning.
 */
async function moveDirectoryFirst(handle: FileHandle): Promise<Buffer | null> {
  const head = await readBytes(handle, 0, TIFF_HEADER_BYTES);
  if (head.length < TIFF_HEADER_BYTES) return null;
  const isLittle = head[0] === 0x49;
  const isBig = head[isLittle ? 2 : 3] === 43;
  const order = isLittle ? 'LE' : 'BE';
  const position = isBig ? Number(head[`readBigUInt64${order}`](8)) : head[`readUInt32${order}`](4);
  // Writes the new offset of the directory, which fits into the lowest byte of an offset of 8 or 4 bytes.
  if (isBig) head.fill(0, 8).writeUInt8(TIFF_HEADER_BYTES, isLittle ? 8 : 15);
  else head.fill(0, 4).writeUInt8(TIFF_HEADER_BYTES, isLittle ? 4 : 7);
  return Buffer.concat([head, await readBytes(handle, Math.min(position, Number.MAX_SAFE_INTEGER))]);
}

async function readBytes(handle: FileHandle, position: number, max = MAX_SEARCHED_BYTES): Promise<Buffer> {
  const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(max), position });
  return buffer.subarray(0, bytesRead);
}

/** Loaded with the first picture. */
let reader: Promise<typeof ImageSize> | undefined;

async function sizeInHeader(head: Buffer): Promise<PictureSize | 'damaged'> {
  const { imageSize } = await (reader ??= import('image-size'));
  try {
    // A copy: the library reads past the end of a view.
    const { width, height } = imageSize(new Uint8Array(head));
    return isSize(width) && isSize(height) ? { width, height } : 'damaged';
  } catch {
    return 'damaged';
  }
}

function isSize(pixels: number): boolean {
  return Number.isSafeInteger(pixels) && pixels > 0;
}
