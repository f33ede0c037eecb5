// The export format NDJSON: one JSON object per line. JSON stays JSON, and long integers and decimals keep their digits.
import type { ViewCell } from '../../database/snapshot-reader.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { isJson } from '../../observe/scrub.ts';
import { type ExportFormat, formatIsoTime } from './export-format.ts';

export const NDJSON: ExportFormat = {
  name: 'ndjson',
  about: 'one JSON object per line',
  compressions: ['none'],
  options: {},
  needsDecimalSpan: false,
  chooseType: ({ type }) => STORED[type] ?? 'string',
  begin: (columns) => {
    const keys = columns.map(({ name }) => `${JSON.stringify(name)}:`);
    const formatRow = (row: readonly ViewCell[]): string => {
      const members = columns.map(({ type }, at) => `${keys[at]}${formatValue(row[at] ?? null, type)}`);
      return `{${members.join(',')}}\n`;
    };
    return { add: (rows) => Buffer.from(rows.map(formatRow).join('')), end: () => new Uint8Array() };
  },
};

/** How values are stored, for readers of the manifest. Columns of other types are JSON strings. */
const STORED: Partial<Record<ColumnType, string>> = {
  boolean: 'boolean',
  integer: 'number',
  double: 'number',
  numeric: 'number',
  timestamp: 'ISO 8601, Z',
  json: 'value',
};

function formatValue(cell: ViewCell, type: ColumnType): string {
  if (cell === null) return 'null';
  if (type === 'json') return formatJson(String(cell));
  if (type === 'timestamp') return JSON.stringify(formatIsoTime(cell));
  const text = String(cell);
  if (type === 'boolean' || type === 'integer') return text;
  // JSON has no form for infinities and NaN, so they become texts.
  const isNumber = (type === 'double' || type === 'numeric') && /^-?\d/.test(text);
  return isNumber ? text : JSON.stringify(text);
}

/** Keeps the JSON and its digits, on one line; a text that is not JSON becomes a JSON string. */
function formatJson(text: string): string {
  if (!isJson(text)) return JSON.stringify(text);
  // Line breaks inside of JSON strings are escaped, so these separate values.
  return text.replaceAll(/[\r\n]/g, ' ');
}
