/**
 * Fills in environment variables and secret files in settings and profiles (`interpolate`): `${VAR}`, `${file:/path}`. Also
 * decides by its path which value is a secret and must not be shown, such as `sources.blog.auth.key` (`isSecretField`).
 */
import { readFileSync, statSync } from 'node:fs';
import { isAbsolute } from 'node:path';
import { errorCode, messageOf } from '../../model/errors.ts';
import { isSecretName } from '../../model/visible-text.ts';
import { PUBLIC_FIELDS } from '../profile/auth.ts';
import { type FieldPath, mapTexts, pathKey, type SettingsFinding, textsIn } from './yaml-file.ts';

/** The sources of `${…}`. */
export interface InterpolationContext {
  env: Readonly<Record<string, string | undefined>>;
  /** Reads a secret file without its trailing newline and BOM; throws an error with a message for the user. */
  readSecret(this: void, path: string): string;
  /** True if missing secrets are no fault, because the command does not use them. */
  secretsOptional?: boolean;
}

/** A value whose texts are filled in, and how they were filled. */
export interface Filled {
  value: unknown;
  /** Keys (see `pathKey`) of the filled-in fields, whose values are never shown. */
  paths: Set<string>;
  /** Contents of secret files. */
  secrets: string[];
  /** Keys of the fields that could not be filled in. */
  unset: Set<string>;
  findings: SettingsFinding[];
}

/** Values for missing secrets that are optional: a valid text, or a valid URL. */
const MISSING_SECRET = 'missing-secret-is-not-used';
const MISSING_ADDRESS = 'https://missing-secret.invalid/';

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
  return text.replace(PLACEHOLDER, (whole, inner: string | undefined, close: string | undefined) => {
    if (inner === undefined) return '${';
    filled.paths.add(pathKey(path));
    try {
      if (close !== '}') throw new Error('expected a } after ${');
      if (!inner.startsWith('file:')) return fromEnv(inner, path, context);
      const secret = context.readSecret(inner.slice(5));
      filled.secrets.push(secret);
      return secret;
    } catch (error) {
      filled.unset.add(pathKey(path));
      if (context.secretsOptional === true && mustBeMasked(path, true))
        return missingSecret(path, text.startsWith(whole));
      filled.findings.push({ path, part: 'value', message: messageOf(error) });
      return whole;
    }
  });
}

function missingSecret(path: FieldPath, isBeginning: boolean): string {
  const isAddress = path[2] === 'ping' || ['url', 'proxy', 'token_url'].includes(String(path.at(-1)));
  return isAddress && isBeginning ? MISSING_ADDRESS : MISSING_SECRET;
}

function fromEnv(inner: string, path: FieldPath, { env }: InterpolationContext): string {
  const [, name, preset] = VARIABLE.exec(inner) ?? [];
  if (name === undefined) throw new Error('expected ${VAR}, ${VAR:-default}, ${file:/path} or $${ for a literal ${');
  const value = env[name];
  if (value !== undefined && value !== '') return value;
  if (preset !== undefined) return preset;
  const state = value === undefined ? 'it is not set' : 'it is empty';
  const mayHoldSecret = mustBeMasked(path, true) || isWarehouseAddress(path);
  const instead = mayHoldSecret
    ? 'take ${file:/path} in its place, so that the secret stays out of this file'
    : `write a default: \${${name}:-default}`;
  throw new Error(
    `expected the environment variable ${name}, got nothing (${state}; set it where content-sync is started, or ${instead})`,
  );
}

const GROUP_AND_OTHERS_READ = 0o044;
/** Shorter parts of a secret are not masked, because they occur by chance. */
const MIN_SECRET_PART_LENGTH = 8;

/** True if the value at this path may be a credential. */
export function isSecretField(path: FieldPath): boolean {
  const last = path.at(-1);
  // `sources.<name>.auth.*` in the settings; `headers.*` in a profile.
  if (path.length >= 4 && path[2] === 'auth') return last !== 'type';
  if (path[2] === 'webhook' && path[3] === 'secrets') return last !== 'id' && last !== 'until';
  if (path.length === 4 && path[2] === 'http') return last === 'key_passphrase' || last === 'proxy';
  // Anyone who knows the address of a monitor can silence it.
  if (path[2] === 'ping') return true;
  // Anyone who knows the address can post alerts.
  if (path[0] === 'alerts' && path[2] === 'url') return true;
  if (path[0] === 'alerts' && path[2] === 'headers') return isSecretName(String(last));
  if (isHeader(path)) return true;
  return typeof last === 'string' && isSecretName(last);
}

/** True for the setting `warehouse`, because a Postgres address may contain its password. */
export function isWarehouseAddress(path: FieldPath): boolean {
  return path.length === 1 && path[0] === 'warehouse';
}

/** True if the text at this path must be masked everywhere; more texts are, if they were filled in. */
function mustBeMasked(path: FieldPath, isFilled: boolean): boolean {
  if (isFilled) return isSecretField(path) || isQueryValue(path);
  return (isHeader(path) || isQueryValue(path)) && isSecretName(String(path.at(-1)));
}

function isHeader(path: FieldPath): boolean {
  return (path.length === 2 && path[0] === 'headers') || partOfRequest(path) === 'headers';
}

/** `resources.<name>.query.*` in a profile, and the values in `body`. */
function isQueryValue(path: FieldPath): boolean {
  return ['query', 'body'].includes(partOfRequest(path));
}

/** Parts of a resource that describe separate requests. */
const WITH_REQUESTS: ReadonlySet<unknown> = new Set(['incremental', 'start', 'delete_feed']);

/** Returns the map of a request (`query`, `headers`, `body`) that the path is in; empty if in none. */
function partOfRequest(path: FieldPath): string {
  let below = path[0] === 'resources' ? path.slice(2) : path[0] === 'defaults' ? path.slice(1) : [];
  while (WITH_REQUESTS.has(below[0])) below = below.slice(1);
  return below.length > 1 ? String(below[0]) : '';
}

/** Returns the texts of a file that must be masked; `filled` are its filled-in fields (see `pathKey`). */
export function secretsIn(value: unknown, filled: ReadonlySet<string>): string[] {
  return [...textsIn(value)].filter(([path]) => mustBeMasked(path, filled.has(pathKey(path)))).map(([, text]) => text);
}

/** True if the file contains a secret that is not filled in. */
export function holdsLiteralSecret(value: unknown, filled: ReadonlySet<string>): boolean {
  return textsIn(value).some(([path, text]) => isLiteralSecret(text, path) && !filled.has(pathKey(path)));
}

function isLiteralSecret(text: string, path: FieldPath): boolean {
  if (path.length === 4 && path[2] === 'http' && path[3] === 'proxy') return /:\/\/[^/?#@]*:[^/?#@]+@/.test(text);
  if (isWarehouseAddress(path)) return /:\/\/[^/?#@]*:[^/?#@]+@|[?&]password=/.test(text);
  return mustBeMasked(path, true) && !PUBLIC_FIELDS.has(path.at(-1));
}

/** True if others than its owner may read the file. Windows has no such rights. */
export function isReadableByOthers(file: string): boolean {
  return process.platform !== 'win32' && (statSync(file).mode & GROUP_AND_OTHERS_READ) !== 0;
}

/** Returns the secrets, and their parts that may appear alone and reveal as much. */
export function withSecretParts(secrets: readonly string[]): string[] {
  const parts = secrets.flatMap(secretParts).filter((part) => part.length >= MIN_SECRET_PART_LENGTH);
  return [...new Set([...secrets, ...parts])];
}

function secretParts(secret: string): string[] {
  // A monitor URL without its host and placeholder.
  if (/^https?:\/\//.test(secret)) return secret.replace(/^https?:\/\/[^/?#]+/, '').split('{resource}');
  // A key without its prefix, or the password of `user:password`.
  const part = /^(?:wh(?:sec|pk)_|[^:]+:)([^]+)$/.exec(secret)?.[1];
  return part === undefined ? [] : [part];
}

const MAX_SECRET_BYTES = 65_536;

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is none',
  EACCES: 'it may not be read',
  EPERM: 'it may not be read',
  EISDIR: 'it is a directory',
  ENOTDIR: 'there is none',
  ELOOP: 'its links go in a circle',
};

/**
 * Reads a secret from a file as container platforms mount them, without a byte order mark and trailing newlines.
 * @throws Error with a message for the user if the path is not absolute, or the file is missing, unreadable, empty or
 *   no text.
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
    throw new Error(`expected a readable file ${path}, got none (${REASONS[code] ?? code})`, { cause: error });
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
