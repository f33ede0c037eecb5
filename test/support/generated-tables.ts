import { z } from 'zod';
import { FAULTS } from '../../src/sandbox/faults/fault-script.ts';
import { configJsonSchema } from '../../src/settings/json-schema.ts';
import { profileSchema } from '../../src/source/profile.ts';
import { codeIn, sectionOf, tableRows } from './readme.ts';
import { schemaFields } from './schema-fields.ts';

/** READMEs with tables that are written from the code: each takes the text and returns it up to date. */
export const GENERATED: Readonly<Record<string, (text: string) => string>> = {
  'config/README.md': (text) => {
    const withConfig = withTable(text, 'The config file', (rows) => settingsRows(rows, configJsonSchema()));
    const profile = z.toJSONSchema(profileSchema, { io: 'input' });
    return withTable(withConfig, 'The profile', (rows) => settingsRows(rows, profile, ['example']));
  },
  'src/sandbox/README.md': (text) => withTable(text, 'Faults', faultRows),
};

/** The text with the first table below a heading written anew from its rows as they are. */
function withTable(text: string, heading: string, rowsFrom: (before: string[][]) => string[][]): string {
  const [table = ''] = /^(?:\|.*\n)+/m.exec(sectionOf(text, heading)) ?? [];
  const head = (table.split('\n', 1)[0] ?? '').slice(1, -1).split('|');
  return text.replace(table, () => aligned([head.map((cell) => cell.trim()), ...rowsFrom(tableRows(table))]));
}

/**
 * Fields, defaults and examples are those of the schema; the meaning of a field stays as it is written, and that of a new one is
 * the schema's description. Throws if a new field has none.
 */
function settingsRows(before: string[][], schema: object, further: readonly 'example'[] = []): string[][] {
  const meanings = new Map(before.map(([field = '', , meaning = '']) => [codeIn(field)[0], meaning]));
  return Array.from(schemaFields(schema), ([name, { preset, description, ...more }]) => {
    const meaning = meanings.get(name) ?? description;
    if (meaning === '') throw new Error(`${name} has no meaning: describe it in its schema, or in the table`);
    return [`\`${name}\``, preset, meaning, ...further.map((column) => more[column])];
  });
}

function faultRows(): string[][] {
  return Object.entries(FAULTS).map(([name, { about, defaults }]) => {
    const parameters = Object.keys(defaults).map((parameter) => `\`${parameter}\``);
    return [`\`${name}\``, about, parameters.join(', ')];
  });
}

/** A Markdown table as the formatter writes it. */
function aligned([head = [], ...rows]: string[][]): string {
  const widths = head.map((_, at) => Math.max(...[head, ...rows].map((row) => row[at]?.length ?? 0)));
  const line = (cells: string[]): string =>
    `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |\n`;
  const rule = widths.map((width) => '-'.repeat(width));
  return [head, rule, ...rows].map(line).join('');
}
