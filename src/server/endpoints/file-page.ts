import { SyncError } from '../../model/errors.ts';
import { MAX_SHOWN_BYTES, RASTER_TYPES, type RasterType } from '../../model/raster-types.ts';
import type { ShownFile, ShownFiles } from '../shown-files.ts';
import { textResponse } from './responses.ts';

const RETRY_AFTER_S = 2;

/** A content of a source. */
export interface FilePath {
  source: string;
  sha256: string;
}

/** A route of hono, for `FilePath`. */
export const FILE_ROUTE = '/files/:source/:sha256{[0-9a-f]{64}}';

/** The path of a file, relative to the overview. */
export function pathOfFile({ source, sha256 }: FilePath): string {
  return `files/${encodeURIComponent(source)}/${sha256}`;
}

/** Answers with a content that a row of the copy names, and with no other file. */
export async function answerFile(
  files: ShownFiles,
  { source, sha256 }: FilePath,
  { method, headers }: Request,
): Promise<Response> {
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
    const hint = error.hint ? ` (${error.hint})` : '';
    const sentence = `The file cannot be read now: ${error.message}${hint}.`;
    return textResponse(503, sentence, { 'retry-after': String(RETRY_AFTER_S) });
  }
}

const FILE_ENDINGS: Readonly<Record<RasterType, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/gif': 'gif',
  'image/webp': 'webp',
  'image/avif': 'avif',
};

const COMMON_HEADERS = {
  // The content of a hash never changes. An hour, because a file that was erased must not be shown for long.
  'cache-control': 'private, max-age=3600, immutable',
  // A file that is opened by itself may run no script, and has no origin.
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox",
};

/** Answers GET and HEAD as RFC 9110 says, always with the whole content; `known` are the tags that the client has. */
export function fileAnswer(
  { sha256, bytes, type }: ShownFile,
  known: string,
): { status: 200 | 304; headers: Record<string, string> } {
  const etag = `"${sha256}"`;
  // Weak tags compare as strong ones do (13.1.2).
  const tags = new Set(known.split(',').map((tag) => tag.trim().replace(/^W\//, '')));
  if (tags.has(etag) || tags.has('*')) return { status: 304, headers: { etag, ...COMMON_HEADERS } };
  const shownType = bytes > MAX_SHOWN_BYTES ? undefined : RASTER_TYPES.find((each) => each === type);
  const name = sha256.slice(0, 16);
  const headers = { etag, ...COMMON_HEADERS, 'content-length': String(bytes) };
  if (shownType !== undefined) {
    const disposition = `inline; filename="${name}.${FILE_ENDINGS[shownType]}"`;
    return { status: 200, headers: { ...headers, 'content-type': shownType, 'content-disposition': disposition } };
  }
  const disposition = `attachment; filename="${name}"`;
  const saved = { 'content-type': 'application/octet-stream', 'content-disposition': disposition };
  return { status: 200, headers: { ...headers, ...saved } };
}
