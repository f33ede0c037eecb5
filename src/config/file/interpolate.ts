import { messageOf } from '../../model/errors.ts';
import { type SettingsFinding, pathKey, type FieldPath } from './fault.ts';
import { isWarehouseAddress, mustBeMasked } from './secret-fields.ts';

/** The sources of `${…}`. */
export interface Surroundings {
  env: Readonly<Record<string, string | undefined>>;
  /** The text of a secret file without its trailing newline and BOM; throws an error fit for a person. */
  readSecret(this: void, path: string): string;
  /** True if a secret that is missing is no fault, because the command does not use it. */
  secretsOptional?: boolean;
}

/** A value whose texts are filled in, and how they were filled. */
export interface Filled {
  value: unknown;
  /** Keys (see `pathKey`) of the fields that are not literally in the file: never shown to anyone. */
  paths: Set<string>;
  /** Contents of secret files. */
  secrets: string[];
  /** Keys of the fields that could not be filled in. */
  unset: Set<string>;
  findings: SettingsFinding[];
}

/** In place of a secret that could not be read: a valid text, and a valid address where one is expected. */
const MISSING_SECRET = 'missing-secret-is-not-used';
const MISSING_ADDRESS = 'https://missing-secret.invalid/';

const PLACEHOLDER = /\$\$\{|\$\{([^}]*)(\}?)/g;
const VARIABLE = /^([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?$/s;

/**
 * Fills in `${VAR}`, `${VAR:-default}` and `${file:/run/secrets/x}` in texts (never in keys); `$${` stands for `${`.
 * Reports an unset or empty variable without a default, and a secret file that is missing or empty, unless the field is
 * a secret and those are optional.
 */
export function interpolate(value: unknown, surroundings: Surroundings): Filled {
  const filled: Filled = { value: undefined, paths: new Set(), secrets: [], unset: new Set(), findings: [] };
  const fill = (part: unknown, path: FieldPath): unknown => {
    if (typeof part === 'string') return fillText(part, path, surroundings, filled);
    if (Array.isArray(part)) return part.map((entry, at) => fill(entry, [...path, at]));
    if (typeof part !== 'object' || part === null) return part;
    return Object.fromEntries(Object.entries(part).map(([key, entry]) => [key, fill(entry, [...path, key])]));
  };
  filled.value = fill(value, []);
  return filled;
}

/** The value with its texts escaped, so that `interpolate` gives them back as they are. For what a service supplies. */
export function escapePlaceholders(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll('${', () => '$${');
  if (Array.isArray(value)) return value.map(escapePlaceholders);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, escapePlaceholders(entry)]));
}

function fillText(text: string, path: FieldPath, surroundings: Surroundings, filled: Filled): string {
  if (!text.includes('${')) return text;
  return text.replace(PLACEHOLDER, (whole, inner: string | undefined, close: string | undefined) => {
    if (inner === undefined) return '${';
    filled.paths.add(pathKey(path));
    try {
      if (close !== '}') throw new Error('expected a } after ${');
      return inner.startsWith('file:')
        ? fromFile(inner.slice(5), surroundings, filled)
        : fromEnv(inner, path, surroundings);
    } catch (error) {
      filled.unset.add(pathKey(path));
      if (surroundings.secretsOptional === true && mustBeMasked(path, true))
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

function fromEnv(inner: string, path: FieldPath, { env }: Surroundings): string {
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

function fromFile(path: string, { readSecret }: Surroundings, filled: Filled): string {
  const secret = readSecret(path);
  filled.secrets.push(secret);
  return secret;
}
