import { SyncError } from '../../model/errors.ts';
import { MOST_SHOWN_BYTES, RASTER_TYPES, type RasterType } from '../../model/raster-types.ts';
import type { ShownFile, ShownFiles } from '../shown-files.ts';
import { SOURCE_NAME } from '../../config/settings.ts';
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
    const answer = fileAnswer(file, headers.get('if-none-match') ?? '');
    if (answer.status === 304 || method === 'HEAD') return new Response(null, answer);
    return new Response(await files.read(source, sha256), answer);
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

/** What is answered; 304 has no content. */
export interface FileAnswer {
  status: 200 | 304;
  headers: Record<string, string>;
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

/** Answers GET and HEAD as RFC 9110 has it, always with the whole content; `known` are the tags that the client has. Pure. */
export function fileAnswer(file: ShownFile, known: string): FileAnswer {
  const etag = `"${file.sha256}"`;
  const kept = { etag, 'cache-control': KEPT, 'content-security-policy': POLICY };
  if (isNamed(known, etag)) return { status: 304, headers: kept };
  return { status: 200, headers: { ...kept, ...typeHeaders(file), 'content-length': String(file.bytes) } };
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
