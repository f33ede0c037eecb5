import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { ConfigError } from '../model/errors.ts';

/** The file of the folder in which content-sync is started that holds variables for it. */
export const ENV_FILE = '.env';

/**
 * The environment together with the variables in `.env` of the folder `cwd`, as `node --env-file` reads it; a variable
 * that is set outside stays. Throws `ConfigError` (`env_file_unreadable`) for a file that is there and cannot be read.
 */
export function withEnvFile(env: NodeJS.ProcessEnv, cwd: string): NodeJS.ProcessEnv {
  const text = textOf(join(cwd, ENV_FILE));
  return text === null ? env : { ...parseEnv(text), ...env };
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
    // A folder of that name is somebody's Python environment.
    if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes(code)) return null;
    throw new ConfigError('env_file_unreadable', `${ENV_FILE} is there and cannot be read (${code})`, {
      hint: 'let the user that runs content-sync read it, or take it away',
      cause: error,
    });
  }
}
