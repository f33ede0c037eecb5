// Fills in environment variables (`${VAR}`) and secret files (`${file:/path}`) in the texts of settings and profiles.
import { readFileSync, statSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { errorCode, messageOf } from '../../model/errors.ts';
import { isWarehouseAddress, mustBeMasked } from './secret-fields.ts';
import { type FieldPath, mapTexts, pathKey, type SettingsFinding } from './yaml-file.ts';

/** The sources of `${…}`. */
export interface InterpolationContext {
  env: Readonly<Record<string, string | undefined>>;
  /** Reads a secret file without its trailing newline and BOM; throws an error with a message for the user. */
  readSecret(this: void, path: string): string;
  /** True if missing secrets are no fault, because the command does not use them. */
  secretsOptional?: boolean;
}

/** A value whose texts are filled in, and what was found. */
export interface Filled {
  value: unknown;
  /** Keys (see `pathKey`) of the filled-in fields: their values are never shown. */
  paths: Set<string>;
  /** Contents of secret files. */
  secrets: string[];
  /** Keys of the fields that could not be filled in. */
  unset: Set<string>;
  findings: SettingsFinding[];
}

/** Valid values in place of optional secrets that are missing. */
const MISSING_SECRET = 'missing-secret-is-not-used';
const MISSING_ADDRESS = 'https://missing-secret.invalid/';

/** Matches `$${`, or `${` with its content and its `}`, which may be missing. */
const PLACEHOLDER = /\$\$\{|\$\{([^}]*)(\}?)/g;
const VARIABLE = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;

/**
 * Fills in `${VAR}`, `${VAR:-default}` and `${file:/run/secrets/x}` in texts (never in keys); `$${` is a literal `${`.
 * Reports an unset or empty variable without a default, and a secret file that is missing or empty, unless the field is
 * a secret and those are optional.
 */
export function interpolate(value: unknown, context: InterpolationContext): Filled {
  const filled: Filled = { value: undefined, paths: new Set(), secrets: [], unset: new Set(), findings: [] };
  filled.value = mapTexts(value, (text, path) => fillText(text, path, context, filled));
  return filled;
}

/** Escapes the texts of a value from the service, so that `interpolate` returns them unchanged. */
export function escapePlaceholders(value: unknown): unknown {
  return mapTexts(value, (text) => text.replaceAll('${', () => '$${'));
}

function fillText(text: string, path: FieldPath, context: InterpolationContext, filled: Filled): string {
  if (!text.includes('${')) return text;
  return text.replace(PLACEHOLDER, (placeholder, content: string | undefined, close: string | undefined) => {
    if (content === undefined) return '${';
    filled.paths.add(pathKey(path));
    try {
      if (close !== '}') throw new Error('expected a } after ${');
      if (!content.startsWith('file:')) return readVariable(content, path, context);
      const secret = context.readSecret(content.slice(5));
      filled.secrets.push(secret);
      return secret;
    } catch (error) {
      filled.unset.add(pathKey(path));
      if (context.secretsOptional === true && mustBeMasked(path, true))
        return missingSecret(path, text.startsWith(placeholder));
      filled.findings.push({ path, part: 'value', message: messageOf(error) });
      return placeholder;
    }
  });
}

function missingSecret(path: FieldPath, isBeginning: boolean): string {
  const isAddress = path[2] === 'ping' || ['url', 'proxy', 'token_url'].includes(String(path.at(-1)));
  return isAddress && isBeginning ? MISSING_ADDRESS : MISSING_SECRET;
}

function readVariable(content: string, path: FieldPath, { env }: InterpolationContext): string {
  const [, name, defaultValue] = VARIABLE.exec(content) ?? [];
  if (name === undefined) throw new Error('expected ${VAR}, ${VAR:-default}, ${file:/path} or $${ for a literal ${');
  const value = env[name];
  if (value !== undefined && value !== '') return value;
  if (defaultValue !== undefined) return defaultValue;
  const state = value === undefined ? 'it is not set' : 'it is empty';
  const mayHoldSecret = mustBeMasked(path, true) || isWarehouseAddress(path);
  const instead = mayHoldSecret
    ? 'write ${file:/path} instead, so that the secret stays out of this file'
    : `write a default: \${${name}:-default}`;
  throw new Error(
    `expected the environment variable ${name}, got nothing (${state}; set it where content-sync is started, or ${instead})`,
  );
}

const GROUP_AND_OTHERS_READ = 0o044;

/** True if other users than its owner may read the file. Windows has no such permissions. */
export function isReadableByOthers(file: string): boolean {
  return process.platform !== 'win32' && (statSync(file).mode & GROUP_AND_OTHERS_READ) !== 0;
}

const MAX_SECRET_BYTES = 65_536;

const ERROR_REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is none',
  EACCES: 'it may not be read',
  EPERM: 'it may not be read',
  EISDIR: 'it is a directory',
  ENOTDIR: 'there is none',
  ELOOP: 'its links go in a circle',
};

/**
 * Reads a secret from a file, as container platforms mount them. Drops a byte order mark and trailing newlines. Throws
 * an error with a message for the user if the path is not absolute, or the file is missing, unreadable, empty or no text.
 */
export function readSecretFile(path: string): string {
  if (!isAbsolute(path)) throw new Error(`expected an absolute path after file:, got ${JSON.stringify(path)}`);
  const bytes = readBytes(path);
  if (bytes.length > MAX_SECRET_BYTES) throw new Error(`expected a secret of at most 64 KiB in the file ${path}`);
  const secret = decode(bytes, path).replace(/[\r\n]+$/, '');
  if (secret === '') throw new Error(`expected a secret in the file ${path}, got nothing (it is empty)`);
  return secret;
}

function readBytes(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    const code = errorCode(error) || 'unknown';
    throw new Error(`expected a readable file ${path}, got none (${ERROR_REASONS[code] ?? code})`, { cause: error });
  }
}

function decode(bytes: Buffer, path: string): string {
  try {
    // `TextDecoder` drops the byte order mark.
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new Error(`expected UTF-8 text in the file ${path}`, { cause: error });
  }
}
