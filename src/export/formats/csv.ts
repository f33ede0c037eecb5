import type { ColumnType } from '../../model/vocabulary.ts';
import { isoText, type Format } from './format.ts';

/** RFC 4180 with a header: NULL is nothing at all, an empty text is `""`. */
export const CSV: Format = {
  name: 'csv',
  compressions: ['none'],
  options: ['bom', 'escape-formulas'],
  stored: ({ type }) => (type === 'timestamp' ? 'ISO 8601, Z' : 'text'),
  begin: (columns, { options }) => {
    const escapes = options.includes('escape-formulas');
    const text = (cell: string): string => field(escapes && FORMULA.test(cell) ? `'${cell}` : cell);
    let head = `${options.includes('bom') ? '\uFEFF' : ''}${line(columns.map(({ name }) => text(name)))}`;
    const fields = columns.map(({ type }) => (TEXTS.has(type) ? text : (FIELDS[type] ?? field)));
    return {
      add: (rows) => {
        const lines = rows.map((row) =>
          line(row.map((cell, at) => (cell === null ? '' : (fields[at]?.(String(cell)) ?? '')))),
        );
        const bytes = Buffer.from(head + lines.join(''));
        head = '';
        return bytes;
      },
      end: () => Buffer.from(head),
    };
  },
};

/** What a spreadsheet may take for a formula. Numbers are none, though they may begin with a minus. */
const FORMULA = /^[=+\-@\t\r\n]/;
const TEXTS: ReadonlySet<ColumnType> = new Set(['text', 'json']);
const FIELDS: Partial<Record<ColumnType, (cell: string) => string>> = { timestamp: isoText };

function line(fields: readonly string[]): string {
  return `${fields.join(',')}\r\n`;
}

function field(text: string): string {
  return text === '' || /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
