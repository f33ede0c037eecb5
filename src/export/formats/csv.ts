import type { ViewCell } from '../../warehouse/snapshot-reader.ts';
import { isoText, type ExportColumn, type Format } from './format.ts';

/** RFC 4180 with a header: NULL is nothing at all, an empty text is `""`. */
export const CSV: Format = {
  name: 'csv',
  compressions: ['none'],
  stored: ({ type }) => (type === 'timestamp' ? 'ISO 8601, Z' : 'text'),
  begin: (columns) => {
    let head = line(columns.map(({ name }) => field(name)));
    return {
      add: (rows) => {
        const text = head + rows.map((row) => line(row.map((cell, at) => fieldOf(cell, columns[at])))).join('');
        head = '';
        return Buffer.from(text);
      },
      end: () => Buffer.from(head),
    };
  },
};

function line(fields: readonly string[]): string {
  return `${fields.join(',')}\r\n`;
}

function fieldOf(cell: ViewCell, column: ExportColumn | undefined): string {
  if (cell === null) return '';
  return field(column?.type === 'timestamp' ? isoText(String(cell)) : String(cell));
}

function field(text: string): string {
  return text === '' || /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
