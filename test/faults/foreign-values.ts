import { createAnswerMemory } from '../../src/http/body/answer-memory.ts';
import { decodeText } from '../../src/http/body/decode-text.ts';
import { interpret } from '../../src/http/outcome/interpret.ts';
import { columnName, tableName } from '../../src/shape/columns/column-name.ts';
import { canonicalHash } from '../../src/shape/records/fingerprint.ts';
import { jsonText } from '../../src/shape/json/json-text.ts';
import { parseByHand, parseJson } from '../../src/shape/json/parse-json.ts';
import { cutDeep, skipSpace, stringEnd, valueEnd } from '../../src/shape/json/scan-json.ts';
import { pathPart, pathText, sourceKey } from '../../src/shape/columns/source-path.ts';
import { parseInstant } from '../../src/shape/columns/timestamps.ts';
import { typeOf } from '../../src/shape/columns/type-lattice.ts';
import { canonicalDecimal, canonicalJson } from '../../src/warehouse/copy/value-kinds.ts';
import { attempt, type TextWork } from '../support/linear-time.ts';

const NO_NAMES: ReadonlySet<string> = new Set();
const WIRE = { failure: null, receivedAt: 0, sentAt: 0, latencyMs: 1, elapsedMs: 1, stale: false };

const IN_JSON = [
  ['', ''],
  ['"', '"'],
  ['{"a":"', '"}'],
  ['[', ']'],
  ['[1', ']'],
  ['[0.', '1]'],
  ['{"', '":"\\\\"}'],
] as const;

/** Everything that touches what a text says, as JSON, a name, a number or a time. */
export const VALUE_WORKS: readonly TextWork[] = [
  {
    name: 'a timestamp',
    work: (text) => [parseInstant(text), parseInstant(`2026-01-01T00:00:00.${text}`), typeOf(text)],
  },
  {
    name: 'a body as text',
    work: bodyText,
    frames: [
      ['', ''],
      ['text/html; charset=', ''],
      ['a/b;', ' charset'],
    ],
  },
  { name: 'an answer', work: answers, frames: IN_JSON },
  {
    name: 'JSON',
    work: (text) =>
      attempt(() => {
        const value = parseJson(text);
        return [jsonText(value), canonicalHash(value)];
      }),
    frames: IN_JSON,
  },
  {
    name: 'JSON by hand',
    work: (text) => attempt(() => JSON.parse(text) && parseByHand(text, Number)),
    frames: IN_JSON,
  },
  { name: 'the ends of JSON values', work: scanned, frames: IN_JSON },
  {
    name: 'names of columns and tables',
    work: (text) => [columnName([text, 'a'], NO_NAMES), tableName('a', [text], NO_NAMES)],
  },
  {
    name: 'paths of fields',
    work: (text) => [pathPart(text), sourceKey(text), pathText([text, '[]', text])],
    frames: [
      ['', ''],
      ['', '[]'],
      ['\\', '[overflow]'],
    ],
  },
  {
    name: 'decimals',
    work: (text) => [canonicalDecimal(text), canonicalJson(text)],
    frames: [
      ['', ''],
      ['1', '1'],
      ['0.', '1'],
      ['[1', '1]'],
      ['1e', ''],
    ],
  },
];

function bodyText(text: string): unknown {
  const bytes = Buffer.from(text);
  return [attempt(() => decodeText(bytes, 'text/plain')), attempt(() => decodeText(bytes, text))];
}

const LIMITS = { values: 2_000_000, digits: 1_000_000, hold: createAnswerMemory(1_073_741_824).open() };

function answers(text: string): unknown {
  const bytes = Buffer.from(text);
  const answer = { ...WIRE, bytes, headers: { 'content-type': text } };
  return [200, 400].map((status) => interpret({ ...answer, status }, () => false, LIMITS));
}

function scanned(text: string): unknown {
  const bytes = Buffer.from(text);
  return [skipSpace(bytes, 0), stringEnd(bytes, 0), valueEnd(bytes, 0), cutDeep(text, 10)];
}
