// The export formats CSV and NDJSON.
import type { ViewCell } from '../../database/snapshot-reader.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import type { ExportFormat } from './format.ts';

type Formatter = (cell: Exclude<ViewCell, null>) => string;

/** CSV by RFC 4180 with a header: NULL is an empty field, an empty text is `""`. */
export const CSV: ExportFormat = {
  name: 'csv',
  compressions: ['none'],
  options: ['bom', 'escape-formulas'],
  stored: ({ type }) => (type === 'timestamp' ? 'ISO 8601, Z' : 'text'),
  begin: (columns, { options }) => {
    const escapes = options.includes('escape-formulas');
    const formatText: Formatter = (cell) => quoteField(escapes && FORMULA.test(String(cell)) ? `'${cell}` : cell);
    const header = formatLine(columns.map(({ name }) => formatText(name)));
    let pending = `${options.includes('bom') ? '\uFEFF' : ''}${header}`;
    const formatters = columns.map(({ type }): Formatter => {
      if (type === 'timestamp') return formatIsoTime;
      return type === 'text' || type === 'json' ? formatText : quoteField;
    });
    return {
      add: (rows) => {
        const lines = rows.map((row) =>
          formatLine(formatters.map((format, at) => formatCell(row[at] ?? null, format, ''))),
        );
        const bytes = Buffer.from(pending + lines.join(''));
        pending = '';
        return bytes;
      },
      end: () => Buffer.from(pending),
    };
  },
};

/** A text that a spreadsheet may run. Numbers are not checked: they may begin with a minus. */
const FORMULA = /^[=+\-@\t\r\n]/;

function formatLine(fields: readonly string[]): string {
  return `${fields.join(',')}\r\n`;
}

function quoteField(cell: Exclude<ViewCell, null>): string {
  const text = String(cell);
  return text === '' || /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function formatCell(cell: ViewCell, format: Formatter, none: string): string {
  return cell === null ? none : format(cell);
}

/** Formats `2024-01-01 08:49:39.676` as `2024-01-01T08:49:39.676Z`. */
function formatIsoTime(cell: Exclude<ViewCell, null>): string {
  return `${String(cell).replace(' ', 'T')}Z`;
}

/** One JSON object per line. JSON values stay JSON, and long integers and decimals keep their digits. */
export const NDJSON: ExportFormat = {
  name: 'ndjson',
  compressions: ['none'],
  options: [],
  stored: ({ type }) => JSON_FORMS[type]?.stored ?? 'string',
  begin: (columns) => {
    const members = columns.map(({ name, type }) => ({
      key: `${JSON.stringify(name)}:`,
      format: JSON_FORMS[type]?.format ?? ((cell) => JSON.stringify(String(cell))),
    }));
    const line = (row: readonly ViewCell[]): string =>
      `{${members.map(({ key, format }, at) => key + formatCell(row[at] ?? null, format, 'null')).join(',')}}\n`;
    return { add: (rows) => Buffer.from(rows.map(line).join('')), end: () => new Uint8Array() };
  },
};

/** Columns of other types are JSON strings. */
const JSON_FORMS: Partial<Record<ColumnType, { stored: string; format: Formatter }>> = {
  boolean: { stored: 'boolean', format: String },
  integer: { stored: 'number', format: String },
  double: { stored: 'number', format: formatNumber },
  numeric: { stored: 'number', format: formatNumber },
  timestamp: { stored: 'ISO 8601, Z', format: (cell) => JSON.stringify(formatIsoTime(cell)) },
  json: { stored: 'value', format: formatJsonValue },
};

/** JSON has no form for infinities and NaN, so they become texts. */
function formatNumber(cell: Exclude<ViewCell, null>): string {
  const text = String(cell);
  return /^-?\d/.test(text) ? text : JSON.stringify(text);
}

/** Keeps the JSON and its digits, on one line; a text that is not JSON becomes a JSON string. */
function formatJsonValue(cell: Exclude<ViewCell, null>): string {
  const text = String(cell);
  try {
    JSON.parse(text);
  } catch {
    return JSON.stringify(text);
  }
  // Inside a JSON string line breaks are escaped, so these separate values.
  return text.replaceAll(/[\r\n]/g, ' ');
}
