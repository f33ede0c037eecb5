import { scrubOwn } from './scrub.ts';

/**
 * One line of JSON without the secrets, and still JSON: a secret of digits may have been a number, which `***` cannot
 * replace as it is.
 */
export function scrubJson(line: string, secrets: readonly string[]): string {
  const scrubbed = scrubOwn(line, secrets);
  return scrubbed === line || isJson(scrubbed) ? scrubbed : scrubValues(line, secrets);
}

function scrubValues(line: string, secrets: readonly string[]): string {
  const clean = (value: unknown): unknown => {
    if (Array.isArray(value)) return isBytesOfSecret(value, secrets) ? '***' : value.map(clean);
    if (typeof value === 'string' || typeof value === 'number') {
      const scrubbed = scrubOwn(String(value), secrets);
      return scrubbed === String(value) ? value : scrubbed;
    }
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, part]) => [scrubOwn(key, secrets), clean(part)]));
  };
  return isJson(line) ? JSON.stringify(clean(JSON.parse(line))) : JSON.stringify({ level: 'error', msg: '***' });
}

/** A buffer is serialised as the list of its bytes. */
function isBytesOfSecret(list: readonly unknown[], secrets: readonly string[]): boolean {
  const text = list.every((entry) => typeof entry === 'number') ? list.join(',') : '';
  return list.length > 1 && scrubOwn(text, secrets) !== text;
}

/** True for valid JSON. */
export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
