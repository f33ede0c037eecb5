import type * as FileType from 'file-type';
import { readPicture, type PictureSize } from './picture-size.ts';

/** What a file is by its content, whatever its name and its headers say. */
export interface FileKind {
  type: string;
  /** Pixels; null for what is no picture, and for pictures whose size no header tells. */
  size: PictureSize | null;
  /** True for a picture whose header is damaged. */
  isDamaged: boolean;
}

const TIFF = /^(?:II[*+]\0|MM\0[*+])$/;
const UNKNOWN = 'application/octet-stream';

/** What a file is, by its first bytes, and for pictures by what stands further behind. `file` is null while it is still coming. */
export async function kindOf(head: Buffer, file: { path: string; bytes: number } | null): Promise<FileKind> {
  const type = await typeOf(head);
  if (!type.startsWith('image/')) return { type, size: null, isDamaged: false };
  const size = await readPicture(type, head, file);
  return size === 'damaged' ? { type, size: null, isDamaged: true } : { type, size, isDamaged: false };
}

async function typeOf(head: Buffer): Promise<string> {
  // Its library looks for the directory of a TIFF, which may stand behind all else.
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

/** So many characters are looked at. */
const SAMPLE = 4_096;

/** Control characters besides blanks and the escape of ISO 2022. */
function isNoText(byte: number): boolean {
  return byte < 9 || (byte > 13 && byte < 32 && byte !== 27);
}

/**
 * The type of a text, as far as a server has to know it: pages and drawings, which may hold scripts, other XML, JSON, and
 * any other text. Null for what is no text. Linear in the length of the head.
 */
export function textTypeOf(head: Buffer): string | null {
  const sample = head.subarray(0, SAMPLE);
  if (sample.length === 0 || sample.some(isNoText)) return null;
  const text = sample.toString('latin1');
  const start = text.slice(contentAt(text));
  if (/^<svg[\s>/]/i.test(start)) return 'image/svg+xml';
  if (start.startsWith('<')) return text.includes('<?xml') && !PAGE.test(start) ? 'application/xml' : 'text/html';
  return /^[{[]/.test(start) ? 'application/json' : 'text/plain';
}

const PAGE = /^<(?:!doctype html|html|head|body|script)\b/i;

/** What may stand before the first element, where it tells nothing: a byte order mark, blanks, declarations and comments. */
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
