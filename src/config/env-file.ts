/** Reads `.env` of the working directory into the environment (`withEnvFile`). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { ConfigError } from '../model/errors.ts';

/** The file of the folder in which content-sync is started that holds variables for it. */
export const ENV_FILE = '.env';

/** One assignment, which may span lines if its value is in quotes: up to the value, a quoted value, any other value. */
const ASSIGNMENT = /^([^\S\n]*(?:export[^\S\n]+)?[\w.-]+[^\S\n]*=)(?:[^\S\n]*(?:'[^']*'|"[^"]*"|`[^`]*`)|(.*))/gm;

/**
 * The environment together with the variables in `.env` of the folder `cwd`, as `node --env-file` reads it, except that
 * a `#` begins a comment only after a space; a variable that is set outside stays. Throws `ConfigError`
 * (`env_file_unreadable`) for a file that is there and cannot be read.
 */
export function withEnvFile(env: NodeJS.ProcessEnv, cwd: string): NodeJS.ProcessEnv {
  const text = textOf(join(cwd, ENV_FILE));
  return text === null ? env : { ...parseEnv(quoteHashes(text)), ...env };
}

/** Windows editors write a byte order mark; Node ends an unquoted value at any `#`, so a value that holds one is quoted. */
function quoteHashes(text: string): string {
  return text.replace(/^\uFEFF/, '').replace(ASSIGNMENT, (whole: string, before: string, plain?: string) => {
    if (plain?.includes('#') !== true) return whole;
    const value = plain.replace(/\s#.*/, '').trim();
    return `${before}${value.includes("'") ? `\`${value}\`` : `'${value}'`}`;
  });
}

function textOf(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
    // A folder named `.env` is a Python environment.
    if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes(code)) return null;
    throw new ConfigError('env_file_unreadable', `${ENV_FILE} is there and cannot be read (${code})`, {
      hint: 'let the user that runs content-sync read it, or take it away',
      cause: error,
    });
  }
}
