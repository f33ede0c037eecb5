// Decides which fields of settings and profiles hold secrets, by their paths: `sources.blog.auth.key` is masked in logs and
// messages, `sources.blog.base_url` is shown.
import { isSecretName } from '../../model/visible-text.ts';
import { PUBLIC_FIELDS } from '../profile/auth.ts';
import { type FieldPath, pathKey, textsIn } from './yaml-file.ts';

/** True if the value at this path may be a credential. `sources.<name>.auth.key` has the path `sources`, name, `auth`, `key`. */
export function isSecretField(path: FieldPath): boolean {
  const last = path.at(-1);
  if (path.length >= 4 && path[2] === 'auth') return last !== 'type';
  if (path[2] === 'webhook' && path[3] === 'secrets') return last !== 'id' && last !== 'until';
  if (path.length === 4 && path[2] === 'http') return last === 'key_passphrase' || last === 'proxy';
  // Anyone who knows these addresses can silence a monitor, or post alerts.
  if (path[2] === 'ping' || (path[0] === 'alerts' && path[2] === 'url')) return true;
  if (path[0] === 'alerts' && path[2] === 'headers') return isSecretName(String(last));
  if (isHeader(path)) return true;
  return typeof last === 'string' && isSecretName(last);
}

/** True for the setting `warehouse`, because a Postgres address may contain its password. */
export function isWarehouseAddress(path: FieldPath): boolean {
  return path.length === 1 && path[0] === 'warehouse';
}

/**
 * True if the text at this path must be masked in all output. Of the texts that were not filled in (`${VAR}`), only headers
 * and query values are, and only if their names say that they are secret.
 */
export function mustBeMasked(path: FieldPath, isFilled: boolean): boolean {
  if (isFilled) return isSecretField(path) || isQueryValue(path);
  return (isHeader(path) || isQueryValue(path)) && isSecretName(String(path.at(-1)));
}

function isHeader(path: FieldPath): boolean {
  return (path.length === 2 && path[0] === 'headers') || partOfRequest(path) === 'headers';
}

/** True for `resources.<name>.query.*` in a profile, and for the values in `body`. */
function isQueryValue(path: FieldPath): boolean {
  return ['query', 'body'].includes(partOfRequest(path));
}

/** Fields of a resource that have `query`, `headers` and `body` of their own. */
const REQUEST_FIELDS: ReadonlySet<unknown> = new Set(['incremental', 'start', 'delete_feed']);

/** Returns which part of a request (`query`, `headers`, `body`) contains the path; empty if none does. */
function partOfRequest(path: FieldPath): string {
  let below = path[0] === 'resources' ? path.slice(2) : path[0] === 'defaults' ? path.slice(1) : [];
  while (REQUEST_FIELDS.has(below[0])) below = below.slice(1);
  return below.length > 1 ? String(below[0]) : '';
}

/** Returns the texts of a file that must be masked; `filled` are its filled-in fields (see `pathKey`). */
export function secretsIn(value: unknown, filled: ReadonlySet<string>): string[] {
  return [...textsIn(value)].filter(([path]) => mustBeMasked(path, filled.has(pathKey(path)))).map(([, text]) => text);
}

/** True if the file contains a secret that is written out, so that everyone who reads the file sees it. */
export function holdsLiteralSecret(value: unknown, filled: ReadonlySet<string>): boolean {
  return textsIn(value).some(([path, text]) => isLiteralSecret(text, path) && !filled.has(pathKey(path)));
}

function isLiteralSecret(text: string, path: FieldPath): boolean {
  if (path.length === 4 && path[2] === 'http' && path[3] === 'proxy') return /:\/\/[^/?#@]*:[^/?#@]+@/.test(text);
  if (isWarehouseAddress(path)) return /:\/\/[^/?#@]*:[^/?#@]+@|[?&]password=/.test(text);
  return mustBeMasked(path, true) && !PUBLIC_FIELDS.has(path.at(-1));
}

/** Shorter parts of a secret are not masked, because they occur by chance. */
const MIN_SECRET_PART_LENGTH = 8;

/** Returns the secrets, and those parts of them that reveal as much, such as the password of `user:password`. */
export function withSecretParts(secrets: readonly string[]): string[] {
  const parts = secrets.flatMap(secretParts).filter((part) => part.length >= MIN_SECRET_PART_LENGTH);
  return [...new Set([...secrets, ...parts])];
}

function secretParts(secret: string): string[] {
  // The path of a monitor's URL, without its placeholder.
  if (/^https?:\/\//.test(secret)) return secret.replace(/^https?:\/\/[^/?#]+/, '').split('{resource}');
  // A key without its prefix, or the password of `user:password`.
  const part = /^(?:wh(?:sec|pk)_|[^:]+:)([^]+)$/.exec(secret)?.[1];
  return part === undefined ? [] : [part];
}
