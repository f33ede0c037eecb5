import type { JsonValue } from '../model/json.ts';
import { SyncError } from '../model/errors.ts';
import { parseJson } from '../shape/parse-json.ts';
import { decodeText, type DecodedText } from './decode-text.ts';
import type { WireAnswer } from './exchange.ts';
import type { Seen } from './outcome-row.ts';

/** What is kept of the body of an error answer, in bytes. */
const EXCERPT = 65_536;
const AROUND = 40;

/** What an answer says, before anybody judges it. */
export interface Reading {
  seen: Seen;
  /** The body of a 2xx as UTF-8, empty otherwise. */
  bytes: Buffer;
  /** What is wrong with the body, as a sentence; empty where the code of the failure says it all. */
  defect: string;
}

interface Content {
  bytes: Buffer;
  json: JsonValue | undefined;
  code: string | null;
  defect: string;
  /** What to show of a body that is no JSON. */
  excerpt: string;
}

const NOTHING: Content = { bytes: Buffer.alloc(0), json: undefined, code: null, defect: '', excerpt: '' };

/** Decodes and parses an answer's body, strictly for a success and as far as it goes for an error. Never throws. */
export function interpret(answer: WireAnswer, hasRecords: (body: JsonValue) => boolean): Reading {
  const success = answer.failure === null && answer.status >= 200 && answer.status < 300;
  const content = success ? readContent(answer) : errorContent(answer.bytes.toString('utf8', 0, EXCERPT));
  const { json } = content;
  return {
    seen: {
      status: answer.status,
      headers: answer.headers,
      receivedAt: answer.receivedAt,
      transport: answer.failure,
      content: content.code,
      json,
      excerpt: content.excerpt,
      hasRecords: json !== undefined && hasRecords(json),
    },
    bytes: content.bytes,
    defect: content.defect,
  };
}

function readContent({ bytes, headers }: WireAnswer): Content {
  let decoded: DecodedText = { text: '', bytes };
  try {
    decoded = decodeText(bytes, String(headers['content-type'] ?? ''));
    const { text } = decoded;
    const start = text.search(/\S/);
    if (start === -1) return { ...NOTHING, code: 'empty_body' };
    if (text[start] === '<') return { ...NOTHING, code: 'not_the_api', excerpt: text.slice(start, start + EXCERPT) };
    const json = parseJson(text);
    return json === null ? { ...NOTHING, code: 'empty_body' } : { ...NOTHING, bytes: decoded.bytes, json };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    return {
      ...NOTHING,
      bytes: decoded.bytes,
      code: error.code,
      defect: error.message + around(decoded.text, error.message),
    };
  }
}

function errorContent(excerpt: string): Content {
  return { ...NOTHING, json: looseJson(excerpt), excerpt };
}

/** The text around the position that a parser's message names, where it does. */
function around(text: string, message: string): string {
  const position = /position (\d+)/.exec(message)?.[1];
  if (position === undefined) return '';
  const at = Number(position);
  return `, near ${JSON.stringify(text.slice(Math.max(0, at - AROUND), at + AROUND))}`;
}

function looseJson(text: string): JsonValue | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}
