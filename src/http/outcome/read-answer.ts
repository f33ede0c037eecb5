/**
 * Decodes and parses the body of an answer, strictly and within limits, before the outcome table judges it
 * (`interpret`).
 */
import { constants, isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';
import type { Profile } from '../../config/profile/profile.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import {
  COMMA,
  isDigitOrPoint,
  LONG_DIGITS,
  OPEN_BRACE,
  OPEN_BRACKET,
  parseJson,
  QUOTE,
  stringEnd,
} from '../../rows/json/parse-json.ts';
import { fieldAt, isObject } from '../../rows/records/as-record.ts';
import type { AnswerHold } from '../body/answer-memory.ts';
import type { WireAnswer } from '../exchange.ts';
import type { Seen } from './outcome-table.ts';

/** Made once: creating a decoder costs more than decoding a small page. Fatal: bytes are never changed silently. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Of a longer body no string can be made, which is seen at once. */
const MAX_LAZY_BYTES = constants.MAX_STRING_LENGTH;

/** Charset labels that are taken, and what decodes them. ASCII is read as UTF-8, of which it is a part. */
const CHARSETS: Readonly<Record<string, string>> = {
  'us-ascii': 'utf-8',
  ascii: 'utf-8',
  'utf-8': 'utf-8',
  utf8: 'utf-8',
  'iso-8859-1': 'latin1',
  latin1: 'latin1',
  'windows-1252': 'latin1',
  'utf-16': 'utf-16',
  'utf-16le': 'utf-16le',
  'utf-16be': 'utf-16be',
};

/** A body as UTF-8 and as a string, neither with a byte order mark. */
interface DecodedText {
  bytes: Buffer;
  /** Made with its first use. */
  readonly text: string;
}

/**
 * The text of a body, strictly: invalid bytes are an error and a byte order mark is dropped. JSON is UTF-8 unless the
 * Content-Type names another charset. Throws `SyncError` `bad_text` or `unsupported_charset`.
 */
export function decodeText(bytes: Buffer, contentType: string): DecodedText {
  const decoder = decoderFor(bytes, contentType);
  try {
    if (decoder === utf8 && bytes.length <= MAX_LAZY_BYTES && isUtf8(bytes)) return lazyText(bytes);
    const text = decoder.decode(bytes);
    return { text, bytes: decoder === utf8 ? unmarked(bytes) : Buffer.from(text) };
  } catch (cause) {
    throw new SyncError('bad_text', `the body is not valid ${decoder.encoding}`, { recovery: 'retry', cause });
  }
}

function lazyText(marked: Buffer): DecodedText {
  const bytes = unmarked(marked);
  let text: string | null = null;
  return {
    bytes,
    get text() {
      return (text ??= bytes.toString());
    },
  };
}

function unmarked(bytes: Buffer): Buffer {
  const marked = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return marked ? bytes.subarray(3) : bytes;
}

function decoderFor(bytes: Uint8Array, contentType: string): TextDecoder {
  const label = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(contentType)?.[1]?.toLowerCase() ?? 'utf-8';
  const charset = Object.hasOwn(CHARSETS, label) ? CHARSETS[label] : undefined;
  if (charset === undefined) {
    throw new SyncError('unsupported_charset', 'the body is in a charset that is not supported', { recovery: 'stop' });
  }
  if (charset === 'utf-8') return utf8;
  const bigEndian = charset === 'utf-16' && bytes[0] === 0xfe && bytes[1] === 0xff;
  return new TextDecoder(bigEndian ? 'utf-16be' : charset, { fatal: true });
}

/** Bytes that are kept of the body of an error answer. */
const MAX_EXCERPT_BYTES = 65_536;
const CONTEXT_LENGTH = 40;

/** An answer's content, before it is judged. */
export interface AnswerReading {
  seen: Omit<Seen, 'limits'>;
  /** The body of a 2xx as UTF-8, empty otherwise. */
  bytes: Buffer;
  /** The defect of the body, as a sentence; empty if the code of the failure says it all. */
  defect: string;
}

/** How much one body may hold: values on all levels, and characters of long numbers. */
export interface BodyBounds {
  values: number;
  digits: number;
}

/** The same, and the account of the memory that it takes. */
interface Limits extends BodyBounds {
  hold: AnswerHold;
}

/** Bytes of memory that a body takes for each of its own (as bytes, as text, in its values), and for each value. */
const MEMORY_PER_BYTE = 3;
const MEMORY_PER_VALUE = 300;

interface BodyContent {
  bytes: Buffer;
  json: JsonValue | undefined;
  code: string | null;
  defect: string;
  /** The text to show of a body that is no JSON. */
  excerpt: string;
}

const NOTHING: BodyContent = { bytes: Buffer.alloc(0), json: undefined, code: null, defect: '', excerpt: '' };

/**
 * Decodes and parses an answer's body, strictly for a success and as far as it goes for an error. A body that would take too
 * much memory is not parsed. Never throws.
 */
export function interpret(answer: WireAnswer, isRecord: (body: JsonValue) => boolean, limits: Limits): AnswerReading {
  const success = answer.failure === null && answer.status >= 200 && answer.status < 300;
  const content = success
    ? readContent(answer, limits)
    : errorContent(answer.bytes.toString('utf8', 0, MAX_EXCERPT_BYTES));
  const { json } = content;
  return {
    seen: {
      status: answer.status,
      headers: answer.headers,
      transport: answer.failure,
      content: content.code,
      json,
      excerpt: content.excerpt,
      isRecord: json !== undefined && isRecord(json),
    },
    bytes: content.bytes,
    defect: content.defect,
  };
}

function readContent({ bytes, headers }: WireAnswer, limits: Limits): BodyContent {
  let decoded: DecodedText = { text: '', bytes };
  try {
    limits.hold.resize(bytes.length * MEMORY_PER_BYTE);
    decoded = decodeText(bytes, String(headers['content-type'] ?? ''));
    const other = isContainer(decoded.bytes) ? null : otherThanJson(decoded.text);
    if (other !== null) return other;
    admit(decoded.bytes, limits);
    const json = parseJson(decoded.bytes.toString());
    return json === null ? { ...NOTHING, json, code: 'empty_body' } : { ...NOTHING, bytes: decoded.bytes, json };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return {
      ...NOTHING,
      // Only a parser quotes what came.
      bytes: error.code === 'bad_json' ? decoded.bytes : NOTHING.bytes,
      code: error.code,
      defect: error.message + around(decoded.text, error.message),
    };
  }
}

function isContainer(bytes: Buffer): boolean {
  return bytes[0] === OPEN_BRACE || bytes[0] === OPEN_BRACKET;
}

/** The content of a body that holds nothing, or a page for people; null for any other. */
function otherThanJson(text: string): BodyContent | null {
  const start = text.search(/\S/);
  if (start === -1) return { ...NOTHING, code: 'empty_body' };
  return text[start] === '<'
    ? { ...NOTHING, code: 'not_the_api', excerpt: text.slice(start, start + MAX_EXCERPT_BYTES) }
    : null;
}

/** Throws `SyncError`: `too_many_values`, `too_many_digits`, and what the account throws. */
function admit(bytes: Buffer, limits: Limits): void {
  const { values, digits } = jsonSize(bytes);
  if (values > limits.values) throw beyond('too_many_values', `the body holds more than ${limits.values} values`);
  if (digits > limits.digits) {
    throw beyond('too_many_digits', `the long numbers of the body have more than ${limits.digits} digits together`);
  }
  limits.hold.resize(bytes.length * MEMORY_PER_BYTE + values * MEMORY_PER_VALUE);
}

function beyond(code: string, message: string): SyncError {
  return new SyncError(code, message, { recovery: 'stop' });
}

function errorContent(excerpt: string): BodyContent {
  return { ...NOTHING, json: looseJson(excerpt), excerpt };
}

/** The text around the position that a parser's message names; empty if it names none. */
function around(text: string, message: string): string {
  const position = /position (\d+)/.exec(message)?.[1];
  if (position === undefined) return '';
  const at = Number(position);
  return `, near ${JSON.stringify(text.slice(Math.max(0, at - CONTEXT_LENGTH), at + CONTEXT_LENGTH))}`;
}

function looseJson(text: string): JsonValue | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** Says whether a body is a record itself and no page of them, by the places and keys that the profile's resources name. */
export function recordFinder(profile: Profile): (body: JsonValue) => boolean {
  const resources = Object.values(profile.resources);
  const places = [...new Set(resources.map((resource) => resource.records))].filter((place) => place !== '');
  const keys = [...new Set(resources.flatMap((resource) => [resource.id].flat()))];
  return (body) =>
    keys.some((key) => fieldAt(body, key) !== undefined) && !places.some((place) => isFilled(fieldAt(body, place)));
}

function isFilled(value: JsonValue | undefined): boolean {
  return Array.isArray(value) ? value.length > 0 : isObject(value) && Object.keys(value).length > 0;
}

/** Values of a text on all levels, and the characters of its numbers of sixteen digits and more. */
interface JsonSize {
  values: number;
  digits: number;
}

/**
 * Measures a JSON text by its bytes before it is parsed: a parsed value takes up to a hundred bytes for two of the
 * text's. Nothing is validated and nothing recurses.
 */
function jsonSize(bytes: Uint8Array): JsonSize {
  let [values, digits] = [1, 0];
  let at = 0;
  while (at < bytes.length) {
    const code = bytes[at] ?? 0;
    if (code === QUOTE) {
      at = stringEnd(bytes, at);
      continue;
    }
    // Each value follows a comma, or is the first in an array or object.
    if (code === COMMA || code === OPEN_BRACKET || code === OPEN_BRACE) values += 1;
    else if (isDigitOrPoint(code)) {
      const start = at;
      while (isDigitOrPoint(bytes[at + 1] ?? 0)) at += 1;
      if (at + 1 - start >= LONG_DIGITS) digits += at + 1 - start;
    }
    at += 1;
  }
  return { values, digits };
}
