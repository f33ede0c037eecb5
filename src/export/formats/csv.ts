// The export format CSV (RFC 4180): NULL is an empty field, and an empty text is `""`.
import type { ViewCell } from '../../database/snapshot-reader.ts';
import { type ExportFormat, formatIsoTime } from './export-format.ts';

export const CSV: ExportFormat = {
  name: 'csv',
  about: 'RFC 4180, with a header',
  compressions: ['none'],
  options: {
    bom: 'Begin each file with a byte order mark, so that Excel detects UTF-8',
    'escape-formulas': "Put ' before texts that begin with = + - @ or a control character, which spreadsheets may run",
  },
  needsDecimalSpan: false,
  chooseType: ({ type }) => (type === 'timestamp' ? 'ISO 8601, Z' : 'text'),
  begin: (columns, { options }) => {
    const escapesFormulas = options.includes('escape-formulas');
    const formatText = (text: string): string => quoteField(escapesFormulas && FORMULA.test(text) ? `'${text}` : text);
    const formatCell = (cell: ViewCell, at: number): string => {
      if (cell === null) return '';
      const type = columns[at]?.type;
      if (type === 'timestamp') return formatIsoTime(cell);
      return type === 'text' || type === 'json' ? formatText(String(cell)) : quoteField(String(cell));
    };
    const mark = options.includes('bom') ? '\uFEFF' : '';
    let header = mark + formatLine(columns.map(({ name }) => formatText(name)));
    return {
      add: (rows) => {
        const lines = rows.map((row) => formatLine(row.map(formatCell)));
        const bytes = Buffer.from(header + lines.join(''));
        header = '';
        return bytes;
      },
      // Without rows, the file has only the header.
      end: () => Buffer.from(header),
    };
  },
};

/** A text that a spreadsheet may run. Numbers are not checked, because they may begin with a minus. */
const FORMULA = /^[=+\-@\t\r\n]/;

function formatLine(fields: readonly string[]): string {
  return `${fields.join(',')}\r\n`;
}

function quoteField(text: string): string {
  return text === '' || /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
