import { SOURCE_NAME } from '../../settings/settings.ts';

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
