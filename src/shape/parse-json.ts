import { SyncError, messageOf } from '../model/errors.ts';
import type { JsonValue } from '../model/json.ts';
import { fitsDouble } from './exact-number.ts';
import { hasInexactNumber } from './inexact-number.ts';
import { cutDeep } from './scan-json.ts';

/** A reviver recurses, so deeper levels are cut before it runs; a record that deep is set aside for its depth anyway. */
const REVIVER_DEPTH = 500;

/**
 * `JSON.parse`, but numbers that a double would change (integers beyond 2^53, decimals that do not round-trip, 1e400)
 * come back as `ExactNumber`. Where a key stands twice the last one wins; `__proto__` is an ordinary key; `-0` is the
 * double -0. Any depth is accepted: who walks the value minds the limit (`limits.ts`).
 *
 * Throws `SyncError('bad_json')`, to be retried: a broken body is most often a broken transfer.
 */
export function parseJson(text: string): JsonValue {
  try {
    return hasInexactNumber(text) ? parseExact(text) : JSON.parse(text);
  } catch (error) {
    throw new SyncError('bad_json', `the body is not valid JSON: ${printable(messageOf(error), text)}`, {
      recovery: 'retry',
      hint: 'If every attempt fails alike, the service or something before it answers with something else than JSON.',
      cause: error,
    });
  }
}

function parseExact(text: string): JsonValue {
  try {
    return JSON.parse(text, keepDigits);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return JSON.parse(cutDeep(text, REVIVER_DEPTH), keepDigits);
  }
}

function keepDigits(_key: string, value: JsonValue, { source }: { source?: string }): JsonValue {
  return typeof value === 'number' && source !== undefined && !fitsDouble(source) ? JSON.rawJSON(source) : value;
}

/** The parser's message as one line; it names the position, except at the end of the text. */
function printable(message: string, text: string): string {
  const line = message.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '·');
  return line.includes('position') ? line : `${line} (${text.length} characters)`;
}
