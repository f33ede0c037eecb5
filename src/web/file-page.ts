import { SyncError } from '../model/errors.ts';
import type { ShownFiles } from '../serve/files/shown-files.ts';
import { fileAnswer } from './files/file-answer.ts';
import type { FilePath } from './files/file-path.ts';
import type { PageAnswer, PageRequest } from './page-request.ts';

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
  { method, headers }: PageRequest,
): Promise<PageAnswer> {
  if (controls() === null) return text(403, 'Files are shown where serve.auth is set.');
  try {
    const file = await files.find(source, sha256);
    if (file === null) return text(404, 'No row of the copy names such a file.');
    const { status, headers: told, range } = fileAnswer(file, headers);
    const answer = { status, headers: told, body: '' };
    if (range === null || method === 'HEAD') return answer;
    return { ...answer, stream: await files.read(source, sha256, range) };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    if (error.code === 'file_missing') {
      return text(404, 'The file is not in its store: content-sync files verify says what is missing.');
    }
    return notNow(error);
  }
}

/** The copy or its store cannot be read, such as while a source is being opened. */
function notNow({ message, hint }: SyncError): PageAnswer {
  const { headers, ...answer } = text(503, `The file cannot be read now: ${message}${hint ? ` (${hint})` : ''}.`);
  return { ...answer, headers: { ...headers, 'retry-after': String(RETRY_AFTER_S) } };
}

function text(status: number, sentence: string): PageAnswer {
  return { status, headers: { 'content-type': 'text/plain; charset=utf-8' }, body: `${sentence}\n` };
}
