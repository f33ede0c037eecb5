import { MOST_SHOWN_BYTES, RASTER_TYPES, type RasterType } from '../../model/raster-types.ts';
import { parseByteRange, type ByteRange } from './byte-range.ts';

/** Headers of a request by their lower-case names. */
type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A content that a row of the copy names. */
export interface NamedFile {
  sha256: string;
  bytes: number;
  /** As its content was understood when it was stored, never as a name or a header said. */
  type: string;
}

/** What is answered, and which bytes of the content; `range` is null where none are sent. */
export interface FileAnswer {
  status: 200 | 206 | 304 | 416;
  headers: Record<string, string>;
  range: ByteRange | null;
}

/** The ending of each type that is shown. */
const ENDINGS: Readonly<Record<RasterType, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
  'image/avif': 'avif',
};

/** Opened by itself, a file can do nothing: no script, no style, no form, no origin. */
const POLICY = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox";
/** A content never changes under its hash. An hour, because one that has been forgotten must not be shown for long. */
const KEPT = 'private, max-age=3600, immutable';

/** Answers GET and HEAD as RFC 9110 has it, with one range at most. Pure. */
export function fileAnswer(file: NamedFile, asked: RequestHeaders): FileAnswer {
  const { sha256, bytes } = file;
  const etag = `"${sha256}"`;
  const { 'if-none-match': known, 'if-range': condition } = asked;
  const kept = { etag, 'cache-control': KEPT, 'content-security-policy': POLICY };
  if (isNamed(textOf(known), etag)) return { status: 304, headers: kept, range: null };
  const headers = { ...kept, ...typeHeaders(file), 'accept-ranges': 'bytes' };
  const isSame = condition === undefined || textOf(condition) === etag;
  const range = isSame ? parseByteRange(textOf(asked['range']), bytes) : 'none';
  if (range === 'none') {
    return { status: 200, headers: { ...headers, 'content-length': String(bytes) }, range: { from: 0, bytes } };
  }
  if (range === 'unmet') {
    return { status: 416, headers: { ...kept, 'content-range': `bytes */${bytes}` }, range: null };
  }
  const told = `bytes ${range.from}-${range.from + range.bytes - 1}/${bytes}`;
  const part = { 'content-length': String(range.bytes), 'content-range': told };
  return { status: 206, headers: { ...headers, ...part }, range };
}

/** The name is ours: one that a service gave would have to be trusted by a file system. */
function typeHeaders(file: NamedFile): Record<string, string> {
  const name = file.sha256.slice(0, 16);
  const type = file.bytes > MOST_SHOWN_BYTES ? undefined : RASTER_TYPES.find((each) => each === file.type);
  if (type === undefined) {
    return { 'content-type': 'application/octet-stream', 'content-disposition': `attachment; filename="${name}"` };
  }
  return { 'content-type': type, 'content-disposition': `inline; filename="${name}.${ENDINGS[type]}"` };
}

/** Weak tags compare as their strong ones do (RFC 9110, 13.1.2). */
function isNamed(header: string, etag: string): boolean {
  const tags = new Set(header.split(',').map((tag) => tag.trim().replace(/^W\//, '')));
  return tags.has(etag) || tags.has('*');
}

function textOf(value: RequestHeaders[string]): string {
  return typeof value === 'string' ? value : '';
}
