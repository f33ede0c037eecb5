import { statSync } from 'node:fs';
import type { FieldPath } from './fault.ts';
import { pathKey } from './fault.ts';
import { mustBeMasked } from './secret-fields.ts';

/** In `auth`, and everybody may know them. */
const NO_SECRETS: ReadonlySet<unknown> = new Set(['client_id', 'scope', 'token_url']);
const GROUP_AND_OTHERS_READ = 0o044;

/** True where a secret stands in the file itself: not filled in from the environment or from a file of its own. */
export function holdsLiteralSecret(value: unknown, filled: ReadonlySet<string>, path: FieldPath = []): boolean {
  if (typeof value === 'string') return isSecret(value, path) && !filled.has(pathKey(path));
  if (typeof value !== 'object' || value === null) return false;
  const entries: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return entries.some(([key, part]) => holdsLiteralSecret(part, filled, [...path, key]));
}

function isSecret(text: string, path: FieldPath): boolean {
  // The address of a Postgres warehouse may hold its password.
  if (path.length === 1 && path[0] === 'warehouse') return /:\/\/[^/?#@]*:[^/?#@]+@|[?&]password=/.test(text);
  return mustBeMasked(path, true) && !NO_SECRETS.has(path.at(-1));
}

/** True where others than its owner may read the file. Windows has no such rights. */
export function isReadableByOthers(file: string): boolean {
  return process.platform !== 'win32' && (statSync(file).mode & GROUP_AND_OTHERS_READ) !== 0;
}
