import { SyncError } from '../model/errors.ts';
import { MOST_SHOWN_BYTES, RASTER_TYPES, type RasterType } from '../model/raster-types.ts';
import type { ShownFile, ShownFiles } from '../serve/shown-files.ts';
import { SOURCE_NAME } from '../settings/settings.ts';
import { textResponse } from './responses.ts';

const RETRY_AFTER_S = 2;

interface FilePageOptions {
  files: ShownFiles;
  /** Null where nobody proves who he is. */
  controls: () => object | null;
}

/**
 * A content that a row of the copy names; no other file, whatever the path says. What records show is shown to those
 * only who have proved who they are, as their texts are.
 */
export async function answerFile(
  { files, controls }: FilePageOptions,
  { source, sha256 }: FilePath,
  { method, headers }: Request,
): Promise<Response> {
  if (controls() === null) return textResponse(403, 'Files are shown where serve.auth is set.');
  try {
    const file = await files.find(source, sha256);
    if (file === null) return textResponse(404, 'No row of the copy names such a file.');
    const { range, ...init } = fileAnswer(file, Object.fromEntries(headers));
    if (range === null || method === 'HEAD') return new Response(null, init);
    return new Response(await files.read(source, sha256, range), init);
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    if (error.code === 'file_missing') {
      return textResponse(404, 'The file is not in its store: content-sync files verify says what is missing.');
    }
    return notNow(error);
  }
}

/** The copy or its store cannot be read, such as while a source is being opened. */
function notNow({ message, hint }: SyncError): Response {
  const sentence = `The file cannot be read now: ${message}${hint ? ` (${hint})` : ''}.`;
  return textResponse(503, sentence, { 'retry-after': String(RETRY_AFTER_S) });
}

/** A content of a source, by its path on the page's server. */
export interface FilePath {
  source: string;
  sha256: string;
}

const SHA256 = /^[0-9a-f]{64}$/;

/** `/files/<source>/<sha256>`, without its query; null for every other path. */
export function filePathOf(path: string): FilePath | null {
  const [empty, files, source = '', sha256 = '', ...more] = path.split('/');
  if (empty !== '' || files !== 'files' || more.length > 0) return null;
  return SOURCE_NAME.test(source) && SHA256.test(sha256) ? { source, sha256 } : null;
}

/** The same path, from the overview. */
export function pathOfFile({ source, sha256 }: FilePath): string {
  return `files/${encodeURIComponent(source)}/${sha256}`;
}

/** Headers of a request by their lower-case names. */
type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

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
export function fileAnswer(file: ShownFile, asked: RequestHeaders): FileAnswer {
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
function typeHeaders(file: ShownFile): Record<string, string> {
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

/** A part of a content. */
export interface ByteRange {
  from: number;
  /** How many; at least 1, unless the content is empty. */
  bytes: number;
}

const ONE_RANGE = /^bytes=(?:(\d{1,15})-(\d{1,15})?|-(\d{1,15}))$/;

/**
 * The part of a content of `length` bytes that a Range header asks for. `none`: all of it, because nothing, several
 * parts or something else is asked for, which a server may do without. `unmet`: there is no such part (416).
 */
export function parseByteRange(header: string, length: number): ByteRange | 'none' | 'unmet' {
  const [found, first, last, ending] = ONE_RANGE.exec(header.replaceAll(/[ \t]/g, '')) ?? [];
  if (found === undefined) return 'none';
  if (ending !== undefined) return endOf(Number(ending), length);
  const from = Number(first);
  const to = last === undefined ? length - 1 : Math.min(Number(last), length - 1);
  if (last !== undefined && Number(last) < from) return 'none';
  return from >= length ? 'unmet' : { from, bytes: to - from + 1 };
}

function endOf(count: number, length: number): ByteRange | 'unmet' {
  const bytes = Math.min(count, length);
  return bytes === 0 ? 'unmet' : { from: length - bytes, bytes };
}
