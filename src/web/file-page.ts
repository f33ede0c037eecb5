import { SyncError } from '../model/errors.ts';
import type { ShownFiles } from '../serve/files/shown-files.ts';
import { fileAnswer } from './files/file-answer.ts';
import type { FilePath } from './files/file-path.ts';
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
