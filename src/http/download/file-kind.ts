import { type FileHandle, open } from 'node:fs/promises';
import type * as FileType from 'file-type';
import type * as ImageSize from 'image-size';

/** What a file is by its content, whatever its name and its headers say. */
export interface FileKind {
  type: string;
  /** Pixels; null for other files, and if no header holds the size. */
  size: PictureSize | null;
  /** True for a picture whose header is damaged. */
  isDamaged: boolean;
}

const TIFF = /^(?:II[*+]\0|MM\0[*+])$/;
const UNKNOWN = 'application/octet-stream';

/**
 * Detects the type of a file from its first bytes, and the size of a picture. `file` is null while it is being
 * received.
 */
export async function kindOf(head: Buffer, file: { path: string; bytes: number } | null): Promise<FileKind> {
  const type = await typeOf(head);
  if (!type.startsWith('image/')) return { type, size: null, isDamaged: false };
  const size = await readPicture(type, head, file);
  return size === 'damaged' ? { type, size: null, isDamaged: true } : { type, size, isDamaged: false };
}

async function typeOf(head: Buffer): Promise<string> {
  // The library looks for the directory of a TIFF, which may be at its end.
  const known = (await magicType(head)) ?? (TIFF.test(head.toString('latin1', 0, 4)) ? 'image/tiff' : null);
  // Its library knows XML, and not what is written in it.
  return known === null || known === 'application/xml' ? (textTypeOf(head) ?? known ?? UNKNOWN) : known;
}

/** Only who fetches files needs it; to look for it again costs more than to look at a file. */
let detection: Promise<typeof FileType> | undefined;

async function magicType(head: Buffer): Promise<string | null> {
  const { fileTypeFromBuffer } = await (detection ??= import('file-type'));
  try {
    const found = await fileTypeFromBuffer(head);
    return found === undefined ? null : (found.mime.split(';')[0] ?? null);
  } catch {
    // A parser that stumbles over what a stranger wrote has not recognised it.
    return null;
  }
}

/** Types that hold scripts: no `image/*` or `text/*` admits them, they have to be named. */
const ACTIVE: ReadonlySet<string> = new Set(['image/svg+xml', 'text/html', 'application/xhtml+xml']);

/** True if one of the patterns (`image/png`, `image/*`) admits a type. */
export function isAdmitted(type: string, patterns: readonly string[]): boolean {
  return patterns.some((pattern) => pattern === type || (!ACTIVE.has(type) && pattern === type.replace(/\/.*$/, '/*')));
}

/** Bytes of a text that are examined. */
const SAMPLE_BYTES = 4_096;

/** Control characters besides blanks and the escape of ISO 2022. */
function isNoText(byte: number): boolean {
  return byte < 9 || (byte > 13 && byte < 32 && byte !== 27);
}

/**
 * The type of a text, as far as a server has to know it: pages and drawings, which may hold scripts, other XML, JSON, and
 * any other text. Null for what is no text. Linear in the length of the head.
 */
export function textTypeOf(head: Buffer): string | null {
  const sample = head.subarray(0, SAMPLE_BYTES);
  if (sample.length === 0 || sample.some(isNoText)) return null;
  const text = sample.toString('latin1');
  const start = text.slice(contentAt(text));
  if (/^<svg[\s>/]/i.test(start)) return 'image/svg+xml';
  if (start.startsWith('<')) return text.includes('<?xml') && !PAGE.test(start) ? 'application/xml' : 'text/html';
  return /^[{[]/.test(start) ? 'application/json' : 'text/plain';
}

const PAGE = /^<(?:!doctype html|html|head|body|script)\b/i;

/** What may precede the first element and has no meaning: a byte order mark, blanks, declarations and comments. */
const BEFORE: readonly (readonly [string, string])[] = [
  ['<?', '?>'],
  ['<!--', '-->'],
  ['<!doctype svg', '>'],
];

function contentAt(text: string): number {
  let at = text.startsWith('\u00ef\u00bb\u00bf') ? 3 : 0;
  for (;;) {
    while (/\s/.test(text.charAt(at))) at += 1;
    const found = BEFORE.find(([opening]) => text.slice(at, at + opening.length).toLowerCase() === opening);
    const end = found === undefined ? -1 : text.indexOf(found[1], at);
    if (found === undefined || end === -1) return at;
    at = end + found[1].length;
  }
}

interface PictureSize {
  width: number;
  height: number;
}

/** Types whose size the library reads. */
const SIZED_TYPES: ReadonlySet<string> = new Set(
  'apng avif bmp gif heic heif icns j2c jp2 jpeg jxl ktx png tiff vnd.adobe.photoshop webp x-icon'
    .split(' ')
    .map((name) => `image/${name}`),
);

/** Bytes that are searched if the first ones do not hold the size. */
const MAX_SEARCHED_BYTES = 8_388_608;
/** Pictures in boxes (ISO 23008-12), which are searched in a time that is quadratic in their length. */
const BOXED: ReadonlySet<string> = new Set(['image/avif', 'image/heic', 'image/heif']);

/** Their brands that are read; a sequence has another one. */
const BRANDS = /^(?:avif|mif1|msf1|hei[cx]|hev[cx])$/;

/**
 * Reads the size of the largest picture in a file from its header; null if the format is not supported, or the header
 * is not received yet. `damaged` if the size is missing.
 */
async function readPicture(
  type: string,
  head: Buffer,
  file: { path: string; bytes: number } | null,
): Promise<PictureSize | null | 'damaged'> {
  if (!SIZED_TYPES.has(type) || (BOXED.has(type) && !BRANDS.test(head.toString('latin1', 8, 12)))) return null;
  const size = await sizeIn(head);
  if (size !== 'damaged' || file === null) return size === 'damaged' ? null : size;
  if (BOXED.has(type)) return 'damaged';
  await using handle = await open(file.path);
  const part = type === 'image/tiff' ? await moveDirectoryFirst(handle) : await readBytes(handle, 0);
  return part === null ? 'damaged' : sizeIn(part);
}

/** The first directory of a TIFF is often after all of its pixels: returns it as if it followed the header. */
async function moveDirectoryFirst(handle: FileHandle): Promise<Buffer | null> {
  const head = await readBytes(handle, 0, 16);
  if (head.length < 16) return null;
  const isLittle = head[0] === 0x49;
  const isBig = head[isLittle ? 2 : 3] === 43;
  const order = isLittle ? 'LE' : 'BE';
  const at = isBig ? Number(head[`readBigUInt64${order}`](8)) : head[`readUInt32${order}`](4);
  if (isBig) head.fill(0, 8).writeUInt8(16, isLittle ? 8 : 15);
  else head.fill(0, 4).writeUInt8(16, isLittle ? 4 : 7);
  return Buffer.concat([head, await readBytes(handle, Math.min(at, Number.MAX_SAFE_INTEGER))]);
}

async function readBytes(handle: FileHandle, position: number, max = MAX_SEARCHED_BYTES): Promise<Buffer> {
  const { buffer, bytesRead } = await handle.read({ buffer: Buffer.alloc(max), position });
  return buffer.subarray(0, bytesRead);
}

/** Loaded with the first picture. */
let reader: Promise<typeof ImageSize> | undefined;

async function sizeIn(head: Buffer): Promise<PictureSize | 'damaged'> {
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
