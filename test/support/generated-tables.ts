import { z } from 'zod';
import { configJsonSchema } from '../../src/cli/config.ts';
import { ERROR_EXPLANATIONS } from '../../src/cli/explain.ts';
import { profileSchema } from '../../src/config/profile/profile.ts';
import { FAULTS } from '../sandbox/service/faults/fault-script.ts';
import { codeIn, sectionOf, tableRows } from './readme.ts';
import { type SchemaField, schemaFields } from './schema-fields.ts';

/** Subjects of the profile by their headings in `config/README.md`: a field belongs to the longest of these beginnings. */
const SUBJECTS: Readonly<Record<string, readonly string[]>> = {
  'The whole profile': ['extends', 'about', 'headers', 'identity', 'defaults', 'resources'],
  Versions: ['version', 'version_prefix'],
  Authentication: ['auth', 'oauth'],
  Requests: ['path', 'method', 'query', 'headers', 'body'].map(ofResource),
  Pages: [ofResource('page')],
  Records: ['records', 'key_field', 'id', 'unwrap', 'filter', 'parts', 'partitions'].map(ofResource),
  Tables: ['history', 'contract', 'json', 'times', 'depth', 'max_columns', 'indexes'].map(ofResource),
  'Fields and relations': [...['description', 'fields', 'source_text', 'state'].map(ofResource), 'relations'],
  Changes: ['updated', 'incremental', 'accept'].map(ofResource),
  Reports: [ofResource('windows')],
  'Single records and tombstones': ['item', 'item_query', 'item_record', 'gone', 'deleted', 'delete_feed'].map(
    ofResource,
  ),
  Events: ['webhooks'],
  Signatures: ['webhooks.signature'],
  'Limits and outcomes': ['http', 'outcomes', 'rate_limit'],
};

/** Fields that are the same as others, which have a line: those of a list of what may stand alone, and the like. */
const REPEATED: readonly string[] = [
  'auth[]',
  'about.collections.where[]',
  'about.collections.also[].where',
  ofResource('filter[]'),
  ofResource('deleted[]'),
  ofResource('delete_feed.page.'),
  ofResource('delete_feed.filter[]'),
  ofResource('incremental.deleted.'),
  ofResource('incremental.deleted[]'),
  ofResource('incremental.filter[]'),
  ofResource('windows.too_large.'),
  ...['path', 'method', 'query', 'headers', 'body'].map((field) => ofResource(`incremental.start.${field}`)),
];

function ofResource(field: string): string {
  return `resources.<name>.${field}`;
}

/** The fields of a profile by their paths. */
export function profileFields(): Map<string, SchemaField> {
  // What becomes something else has lost its examples: they are those of the result to zod.
  const schema = z.toJSONSchema(profileSchema, {
    io: 'input',
    override({ zodSchema, jsonSchema }) {
      const { examples } = z.globalRegistry.get(zodSchema) ?? {};
      if (Array.isArray(examples)) jsonSchema.examples = examples;
    },
  });
  const fields = [...schemaFields(schema)].filter(
    ([name]) => !REPEATED.some((beginning) => name.startsWith(beginning)),
  );
  return new Map(fields);
}

/** The heading under which a field of the profile stands. Throws if there is none. */
function subjectOf(field: string): string {
  const found = Object.entries(SUBJECTS)
    .flatMap(([heading, beginnings]) => beginnings.map((beginning) => ({ heading, beginning })))
    .filter(
      ({ beginning }) =>
        field === beginning || (/^[.[]/.test(field.slice(beginning.length)) && field.startsWith(beginning)),
    )
    .toSorted((a, b) => b.beginning.length - a.beginning.length);
  if (found[0] === undefined) throw new Error(`${field} is of no subject: add it to one of SUBJECTS`);
  return found[0].heading;
}

/** READMEs with tables that are written from the code: each takes the text and returns it up to date. */
export const GENERATED: Readonly<Record<string, (text: string) => string>> = {
  'config/README.md': (text) => {
    const before = [...text.matchAll(new RegExp(GENERATED_TABLE, 'gm'))].flatMap(([table]) => tableRows(table));
    const ofConfig = (): string[][] => settingsRows(before, schemaFields(configJsonSchema()), []);
    const fields = profileFields();
    return Object.keys(SUBJECTS).reduce(
      (written, heading) =>
        withTable(written, heading, () => {
          const own = [...fields].filter(([field]) => subjectOf(field) === heading);
          return settingsRows(before, new Map(own), ['example']);
        }),
      withTable(text, 'The config file', ofConfig),
    );
  },
  'config/errors.md': errorsPage,
  'test/sandbox/README.md': (text) => withTable(text, 'Faults', faultRows),
};

function errorsPage(): string {
  const sections = Object.entries(ERROR_EXPLANATIONS).map(([subject, explanations]) => {
    const lines = explanations.map(({ codes, cause, fix }) => {
      const named = codes.split(' ').map((code) => `\`${code}\``);
      return `- ${named.join(', ')}: ${cause} **Fix:** ${fix}\n`;
    });
    return `## ${subject}\n\n${lines.join('')}`;
  });
  return `# Error codes

Find the cause and the fix of an error by the code in its message. \`content-sync explain <code>\` prints the same. Codes are stable: scripts may match on them. Rejected records have a reason instead, in \`_sync_rejects\`.

${sections.join('\n')}`;
}

/** Told from other tables by their head. */
const GENERATED_TABLE = /^\| *(?:setting|field|fault) .*\n(?:\|.*\n)+/m;

/** The text with the first such table below a heading written anew from its rows as they are. */
function withTable(text: string, heading: string, rowsFrom: (before: string[][]) => string[][]): string {
  const section = sectionOf(text, heading);
  const [table = ''] = GENERATED_TABLE.exec(section) ?? [];
  const head = (table.split('\n', 1)[0] ?? '').slice(1, -1).split('|');
  const written = aligned([head.map((cell) => cell.trim()), ...rowsFrom(tableRows(table))]);
  return text.replace(section, () => section.replace(table, () => written));
}

/**
 * Fields, defaults and examples are those of the schema. So is the meaning in a table with examples, if the schema has
 * one; any other stays as it is written. Throws for a new field without a description.
 */
function settingsRows(
  before: string[][],
  fields: ReadonlyMap<string, SchemaField>,
  further: readonly 'example'[],
): string[][] {
  const meanings = new Map(before.map(([field = '', , meaning = '']) => [codeIn(field)[0], meaning]));
  return Array.from(fields, ([name, { preset, description, ...more }]) => {
    const [own, written] = [description.replaceAll('|', '\\|'), meanings.get(name) ?? ''];
    const meaning = (further.length > 0 ? own : written) || written || own;
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
