/** Reads `.env` of the working directory into the environment (`withEnvFile`). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseEnv } from 'node:util';
import { ConfigError, errorCode } from '../model/errors.ts';

/** The file with environment variables in the working directory. */
export const ENV_FILE = '.env';

/** One assignment, which may span lines if its value is in quotes: up to the value, a quoted value, any other value. */
const ASSIGNMENT = /^([^\S\n]*(?:export[^\S\n]+)?[\w.-]+[^\S\n]*=)(?:[^\S\n]*(?:'[^']*'|"[^"]*"|`[^`]*`)|(.*))/gm;

/**
 * Adds the variables of `.env` in `cwd` to the environment, whose own variables win. Parses like `node --env-file`, except
 * that `#` begins a comment only after a space. Throws `ConfigError` (`settings_invalid`).
 */
export function withEnvFile(env: NodeJS.ProcessEnv, cwd: string): NodeJS.ProcessEnv {
  const text = readIfExists(join(cwd, ENV_FILE));
  return text === null ? env : { ...parseEnv(quoteHashes(text)), ...env };
}

/** Quotes values with `#`, at which Node would end them, and removes the byte order mark of Windows editors. */
function quoteHashes(text: string): string {
  return text.replace(/^\uFEFF/, '').replace(ASSIGNMENT, (whole: string, before: string, plain?: string) => {
    if (plain?.includes('#') !== true) return whole;
    const value = plain.replace(/\s#.*/, '').trim();
    return `${before}${value.includes("'") ? `\`${value}\`` : `'${value}'`}`;
  });
}

function readIfExists(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const code = errorCode(error) || 'unknown';
    // A folder named `.env` is a Python environment.
    if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes(code)) return null;
    throw new ConfigError('settings_invalid', `${ENV_FILE} is there and cannot be read (${code})`, {
      hint: 'let the user that runs content-sync read it, or take it away',
      cause: error,
    });
  }
}
