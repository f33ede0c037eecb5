import { SyncError, messageOf } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { keepsDigits } from './exact-number.ts';
import { hasInexactNumber } from './inexact-number.ts';
import { parseByHand } from './parse-by-hand.ts';
import { cutDeep } from './scan-json.ts';

/** A reviver recurses, so deeper levels are cut before it runs; a record that deep is set aside for its depth anyway. */
const REVIVER_DEPTH = 500;
/** For a reviver `JSON.parse` keeps the source of every value, some 300 bytes each: in longer texts that is too much. */
const REVIVER_LENGTH = 1_048_576;

/**
 * `JSON.parse`, but numbers whose digits a double does not give back (integers beyond 2^53, decimals with more digits than
 * tell it from others, 1e400) come back as `ExactNumber`. Where a key stands twice the last one wins; `__proto__` is an ordinary key; `-0` is the
 * double -0. Any depth is accepted: who walks the value minds the limit (`limits.ts`).
 *
 * Throws `SyncError('bad_json')`, to be retried: a broken body is most often a broken transfer.
 */
export function parseJson(text: string): JsonValue {
  try {
    const value = hasInexactNumber(text) ? parseExact(text) : JSON.parse(text);
    return mayHaveWrongKey(text, value) ? parseByHand(text, numberOf) : value;
  } catch (error) {
    throw new SyncError('bad_json', `the body is not valid JSON: ${printable(messageOf(error), text)}`, {
      recovery: 'retry',
      hint: 'If every attempt fails alike, the service or something before it answers with something else than JSON.',
      cause: error,
    });
  }
}

function parseExact(text: string): JsonValue {
  if (text.length > REVIVER_LENGTH) {
    // Only a text that it accepts may be read by hand.
    JSON.parse(text);
    return parseByHand(text, numberOf);
  }
  try {
    return JSON.parse(text, keepDigits);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return JSON.parse(cutDeep(text, REVIVER_DEPTH), keepDigits);
  }
}

function keepDigits(_key: string, value: JsonValue, { source }: { source?: string }): JsonValue {
  return typeof value === 'number' && source !== undefined ? numberOf(source) : value;
}

function numberOf(source: string): JsonValue {
  return keepsDigits(source) ? Number(source) : JSON.rawJSON(source);
}

/**
 * True where `JSON.parse` may have taken one key for another (nodejs/node#63785). V8 guesses a key by the objects that it
 * has made before, whoever made them, and compares its guess with as much of the key's source, escapes undecoded: with a
 * `\` seen behind the same keys, `"\n"` and `"\u0061"` are read as `\`. A wrong guess therefore holds a backslash itself, and
 * there is none without a backslash in the text. Does not recurse: any depth is fine.
 */
function mayHaveWrongKey(text: string, value: JsonValue): boolean {
  if (!text.includes('\\')) return false;
  const open: object[] = typeof value === 'object' && value !== null ? [value] : [];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const members: readonly unknown[] = Array.isArray(next) ? next : Object.values(next);
    if (!Array.isArray(next)) for (const key in next) if (key.includes('\\')) return true;
    for (const member of members) if (typeof member === 'object' && member !== null) open.push(member);
  }
  return false;
}

/** The parser's message as one line; it names the position, except at the end of the text. */
function printable(message: string, text: string): string {
  const line = message.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '·');
  return line.includes('position') ? line : `${line} (${text.length} characters)`;
}
