// Decodes and parses the body of a response, before the outcome table decides what the response means. Invalid text or
// JSON is an error, never a guess. A body that would need too much memory is refused: `[[],[],[],…` needs 50 times its size.
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
import type { MemoryReservation } from '../body/answer-memory.ts';
import type { WireAnswer } from '../exchange.ts';
import type { ReceivedResponse } from './outcome-table.ts';

/** Created once, because that takes longer than decoding a small page. With `fatal`, invalid bytes are an error. */
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Supported charsets and their decoders. */
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
  text: string;
}

/** Decodes a body as UTF-8 or the charset of Content-Type. Throws `SyncError` `bad_json` or `unsupported_encoding`. */
export function decodeText(bytes: Buffer, contentType: string): DecodedText {
  const decoder = decoderFor(bytes, contentType);
  try {
    const text = decoder.decode(bytes);
    return { text, bytes: decoder === utf8 ? withoutBom(bytes) : Buffer.from(text) };
  } catch (cause) {
    throw new SyncError('bad_json', `the body is not valid ${decoder.encoding}`, { recovery: 'retry', cause });
  }
}

function withoutBom(bytes: Buffer): Buffer {
  const hasBom = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
  return hasBom ? bytes.subarray(3) : bytes;
}

function decoderFor(bytes: Uint8Array, contentType: string): TextDecoder {
  const label = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(contentType)?.[1]?.toLowerCase() ?? 'utf-8';
  const charset = Object.hasOwn(CHARSETS, label) ? CHARSETS[label] : undefined;
  if (charset === undefined) {
    throw new SyncError('unsupported_encoding', 'the body is in a charset that is not supported', { recovery: 'stop' });
  }
  if (charset === 'utf-8') return utf8;
  const bigEndian = charset === 'utf-16' && bytes[0] === 0xfe && bytes[1] === 0xff;
  return new TextDecoder(bigEndian ? 'utf-16be' : charset, { fatal: true });
}

/** Only this much of an error body is read. */
const MAX_EXCERPT_BYTES = 65_536;
/** Characters that are quoted before and after a syntax error. */
const CONTEXT_LENGTH = 40;

/** The body of a response, before its outcome is decided. */
export interface AnswerReading {
  response: Omit<ReceivedResponse, 'limits'>;
  /** The body of a 2xx as UTF-8, empty otherwise. */
  bytes: Buffer;
  /** What is wrong with the body, as a sentence; empty if the error code says enough. */
  defect: string;
}

/** Limits of one body, and the memory reserved for it. */
interface BodyLimits {
  /** Max values on all levels. */
  values: number;
  /** Max characters of long numbers together. */
  digits: number;
  reservation: MemoryReservation;
}

/** Estimated memory of a body: for each byte (as bytes, text and value), and for each value. */
const MEMORY_PER_BYTE = 3;
const MEMORY_PER_VALUE = 300;

interface BodyContent {
  bytes: Buffer;
  json: JsonValue | undefined;
  /** Error code of a 2xx with an unusable body; null if it is usable. */
  content: string | null;
  defect: string;
  /** The text to quote from a body that is not JSON. */
  excerpt: string;
}

const NOTHING: BodyContent = { bytes: Buffer.alloc(0), json: undefined, content: null, defect: '', excerpt: '' };

/** Reads the body of a response. The body of an error response may be anything, so it is parsed only if it is JSON. */
export function readResponseBody(
  answer: WireAnswer,
  isRecord: (body: JsonValue) => boolean,
  limits: BodyLimits,
): AnswerReading {
  const { status, headers, failure: transport } = answer;
  const isSuccess = transport === null && status >= 200 && status < 300;
  const { bytes, defect, ...body } = isSuccess ? readContent(answer, limits) : readErrorBody(answer);
  const isOneRecord = body.json !== undefined && isRecord(body.json);
  return { response: { status, headers, transport, ...body, isRecord: isOneRecord }, bytes, defect };
}

function readErrorBody({ bytes }: WireAnswer): BodyContent {
  const excerpt = bytes.toString('utf8', 0, MAX_EXCERPT_BYTES);
  try {
    return { ...NOTHING, json: parseJson(excerpt), excerpt };
  } catch {
    return { ...NOTHING, excerpt };
  }
}

function readContent({ bytes, headers }: WireAnswer, limits: BodyLimits): BodyContent {
  let decoded: DecodedText = { text: '', bytes };
  try {
    limits.reservation.resize(bytes.length * MEMORY_PER_BYTE);
    decoded = decodeText(bytes, String(headers['content-type'] ?? ''));
    const otherContent = isContainer(decoded.bytes) ? null : findOtherContent(decoded.text);
    if (otherContent !== null) return otherContent;
    refuseTooLarge(decoded.bytes, limits);
    const json = parseJson(decoded.text);
    return json === null ? { ...NOTHING, json, content: 'empty_body' } : { ...NOTHING, bytes: decoded.bytes, json };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return {
      ...NOTHING,
      // Only the message of the parser quotes the body.
      bytes: error.code === 'bad_json' ? decoded.bytes : NOTHING.bytes,
      content: error.code,
      defect: error.message + quoteAround(decoded.text, error.message),
    };
  }
}

function isContainer(bytes: Buffer): boolean {
  return bytes[0] === OPEN_BRACE || bytes[0] === OPEN_BRACKET;
}

/** Returns the reading of an empty body or of a web page; null for any other text. */
function findOtherContent(text: string): BodyContent | null {
  const start = text.search(/\S/);
  if (start === -1) return { ...NOTHING, content: 'empty_body' };
  return text[start] === '<'
    ? { ...NOTHING, content: 'not_the_api', excerpt: text.slice(start, start + MAX_EXCERPT_BYTES) }
    : null;
}

/** Reserves the memory of the parsed body. Throws `SyncError` (`body_too_large`), and what `reservation` throws. */
function refuseTooLarge(bytes: Buffer, limits: BodyLimits): void {
  const { values, digits } = jsonSize(bytes);
  if (values > limits.values) throw tooLarge(`the body holds more than ${limits.values} values`);
  if (digits > limits.digits) {
    throw tooLarge(`the long numbers of the body have more than ${limits.digits} digits together`);
  }
  limits.reservation.resize(bytes.length * MEMORY_PER_BYTE + values * MEMORY_PER_VALUE);
}

function tooLarge(message: string): SyncError {
  return new SyncError('body_too_large', message, { recovery: 'stop' });
}

/** Quotes the text around the position in a parser's message; empty if it has none. */
function quoteAround(text: string, message: string): string {
  const position = /position (\d+)/.exec(message)?.[1];
  if (position === undefined) return '';
  const at = Number(position);
  return `, near ${JSON.stringify(text.slice(Math.max(0, at - CONTEXT_LENGTH), at + CONTEXT_LENGTH))}`;
}

/** Creates the test whether a body is one record: it has an `id`, and no list at the `records` path of any resource. */
export function createRecordTest(profile: Profile): (body: JsonValue) => boolean {
  const resources = Object.values(profile.resources);
  const lists = new Set(resources.map((resource) => resource.records).filter((path) => path !== ''));
  const keys = new Set(resources.flatMap((resource) => resource.id));
  return (body) =>
    [...keys].some((key) => fieldAt(body, key) !== undefined) &&
    ![...lists].some((path) => isFilled(fieldAt(body, path)));
}

function isFilled(value: JsonValue | undefined): boolean {
  return Array.isArray(value) ? value.length > 0 : isObject(value) && Object.keys(value).length > 0;
}

/**
 * Counts the values of a JSON text and the characters of its numbers of 16 digits or more, before it is parsed: a parsed
 * value may take 50 times the memory of its text. Does not validate or recurse.
 */
function jsonSize(bytes: Uint8Array): { values: number; digits: number } {
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
