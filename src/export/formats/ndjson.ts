import type { ColumnType } from '../../model/vocabulary.ts';
import type { ViewCell } from '../../database/snapshot-reader.ts';
import { isoText, type Format } from './format.ts';

/** One JSON object a line: JSON stays JSON, long integers and decimals stand by their digits. */
export const NDJSON: Format = {
  name: 'ndjson',
  compressions: ['none'],
  options: [],
  stored: ({ type }) => STORED[type] ?? 'string',
  begin: (columns) => {
    const heads = columns.map(({ name, type }) => ({
      head: `${JSON.stringify(name)}:`,
      textOf: TEXTS[type] ?? quoted,
    }));
    const line = (row: readonly ViewCell[]): string =>
      `{${heads.map(({ head, textOf }, at) => head + valueOf(row[at] ?? null, textOf)).join(',')}}\n`;
    return { add: (rows) => Buffer.from(rows.map(line).join('')), end: () => new Uint8Array() };
  },
};

const STORED: Partial<Record<ColumnType, string>> = {
  boolean: 'boolean',
  integer: 'number',
  double: 'number',
  numeric: 'number',
  json: 'value',
  timestamp: 'ISO 8601, Z',
};

type TextOf = (cell: Exclude<ViewCell, null>) => string;

const TEXTS: Partial<Record<ColumnType, TextOf>> = {
  boolean: String,
  integer: String,
  double: digits,
  numeric: digits,
  timestamp: (cell) => JSON.stringify(isoText(String(cell))),
  json: jsonText,
};

function valueOf(cell: ViewCell, textOf: TextOf): string {
  return cell === null ? 'null' : textOf(cell);
}

function quoted(cell: Exclude<ViewCell, null>): string {
  return JSON.stringify(String(cell));
}

/** JSON has no words for numbers without digits. */
function digits(cell: Exclude<ViewCell, null>): string {
  const text = String(cell);
  return /^-?\d/.test(text) ? text : JSON.stringify(text);
}

/** As it stands, with its digits, on one line; a text if it is no JSON. */
function jsonText(cell: Exclude<ViewCell, null>): string {
  const text = String(cell);
  try {
    JSON.parse(text);
  } catch {
    return JSON.stringify(text);
  }
  // Within a value they would be escaped: these stand between two.
  return text.replaceAll(/[\r\n]/g, ' ');
}
