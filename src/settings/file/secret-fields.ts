import { isSecretName } from '../../model/secret-name.ts';
import type { FieldPath } from './fault.ts';
import { pathKey } from './fault.ts';
import { shownAddress } from '../warehouse-address.ts';

const MAX_SHOWN = 60;

/** The value of a field for a message: its kind where it is no plain value, `***` where it may be a secret. */
export function showValue(value: unknown, path: FieldPath, filled: ReadonlySet<string>): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'nothing (null)';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'a map';
  if (isSecretField(path) || filled.has(pathKey(path))) return `a ${KINDS[typeof value] ?? 'value'} (***)`;
  if (typeof value !== 'string') return JSON.stringify(value);
  const show = path.length === 1 && path[0] === 'warehouse' ? shownAddress : withoutCredentials;
  return shorten(JSON.stringify(show(value)));
}

const KINDS: Readonly<Record<string, string>> = { string: 'text', number: 'number', boolean: 'true or false' };

/** Whether what stands at this path may be a credential, whatever it is called. */
function isSecretField(path: FieldPath): boolean {
  const last = path.at(-1);
  // `sources.<name>.auth.*` in the settings; `headers.*` in a profile.
  if (path.length === 4 && path[2] === 'auth') return last !== 'type';
  if (path[2] === 'webhook' && path[3] === 'secrets') return last !== 'id' && last !== 'until';
  // Who knows the address of a monitor can silence it.
  if (path[2] === 'ping') return true;
  if (isHeader(path)) return true;
  return typeof last === 'string' && isSecretName(last);
}

/** Whether what stands there is to be kept from every text that is written: more of what comes from outside the file. */
export function mustBeMasked(path: FieldPath, isFilled: boolean): boolean {
  if (isFilled) return isSecretField(path) || isQueryValue(path);
  return (isHeader(path) || isQueryValue(path)) && isSecretName(String(path.at(-1)));
}

function isHeader(path: FieldPath): boolean {
  return path.length === 2 && path[0] === 'headers';
}

/** `resources.<name>.query.*` in a profile. */
function isQueryValue(path: FieldPath): boolean {
  return path.length === 4 && path[2] === 'query';
}

/** A URL keeps its shape and loses what may be a credential: user name, password, query. */
function withoutCredentials(text: string): string {
  return text.replace(/\/\/[^/?#]*@/g, '//***@').replace(/[?#].*$/s, '?***');
}

function shorten(text: string): string {
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`;
}
