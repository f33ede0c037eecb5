import { z } from 'zod';
import { configJsonSchema } from './json-schemas.ts';
import { ERROR_EXPLANATIONS } from '../../src/cli/error-explanations.ts';
import { profileSchema } from '../../src/config/profile/profile.ts';
import { FAULTS } from '../sandbox/service/faults/fault-script.ts';
import { codeIn, tableRows } from './readme.ts';
import { type SchemaField, schemaFields } from './schema-fields.ts';

/** Fields of one table: those that begin with `under` and one of `fields`, unless a longer beginning claims them. */
interface FieldTable {
  fields: readonly string[];
  /** Left out in the table: the text above it names it. */
  under?: string;
}

const SETTINGS: Readonly<Record<string, FieldTable>> = {
  general: {
    fields: ['warehouse', 'sources', 'privacy_key', 'file_mode', 'control', 'log', 'memory', 'keep_runs', 'alerts'],
  },
  source: { under: 'sources.<name>.', fields: [''] },
  'source-auth': { under: 'sources.<name>.auth.', fields: [''] },
  'source-schedule': { under: 'sources.<name>.', fields: ['schedule', 'ping'] },
  'source-webhook': { under: 'sources.<name>.webhook.', fields: [''] },
  'source-deletes': { under: 'sources.<name>.deletes.', fields: [''] },
  'source-files': { under: 'sources.<name>.files.', fields: [''] },
  serve: { fields: ['serve', 'worker'] },
  alerts: { under: 'alerts.<name>.', fields: [''] },
};

const RESOURCE = 'resources.<name>.';

const PROFILE: Readonly<Record<string, FieldTable>> = {
  profile: { fields: ['extends', 'about', 'headers', 'identity', 'defaults', 'resources'] },
  version: { fields: ['version', 'version_prefix'] },
  auth: { fields: ['auth'] },
  request: { under: RESOURCE, fields: ['path', 'method', 'query', 'headers', 'body'] },
  page: { under: RESOURCE, fields: ['page'] },
  records: { under: RESOURCE, fields: ['records', 'key_field', 'id', 'unwrap', 'filter', 'partitions'] },
  tables: { under: RESOURCE, fields: ['history', 'contract', 'json', 'times', 'depth', 'max_columns', 'indexes'] },
  fields: { under: RESOURCE, fields: ['description', 'fields', 'source_text', 'state'] },
  relations: { fields: ['relations'] },
  changes: { under: RESOURCE, fields: ['updated', 'incremental', 'accept'] },
  windows: { under: RESOURCE, fields: ['windows'] },
  item: { under: RESOURCE, fields: ['item', 'item_query', 'item_record', 'gone', 'deleted', 'delete_feed'] },
  files: { under: RESOURCE, fields: ['files'] },
  events: { fields: ['webhooks'] },
  signature: { under: 'webhooks.', fields: ['signature'] },
  limits: { fields: ['http', 'outcomes', 'rate_limit'] },
};

/** Fields that are documented elsewhere: entries of a list that may stand alone, conditions, and fields of requests. */
const REPEATED: readonly string[] = [
  'auth[]',
  // Only shipped profiles have these: `config/profile.schema.json` describes them.
  'about.',
  'webhooks.signature.also[]',
  'rate_limit.body[].',
  'outcomes[].header.',
  'outcomes[].body.',
  ...['', 'delete_feed.', 'incremental.'].map((part) => `${RESOURCE}${part}filter[]`),
  ...['page.', 'path', 'method', 'query', 'headers', 'body'].map((part) => `${RESOURCE}delete_feed.${part}`),
  ...['deleted.', 'deleted[]', 'expired.', 'method', 'headers', 'body'].map((part) => `${RESOURCE}incremental.${part}`),
  ...['path', 'method', 'query', 'headers', 'body'].map((part) => `${RESOURCE}incremental.start.${part}`),
  ...['deleted[]', 'gone.', 'files[]', 'page.end.body.', 'windows.too_large.'].map((part) => RESOURCE + part),
];

/** The fields of a profile by their paths. */
export function profileFields(): Map<string, SchemaField> {
  // A schema that transforms its input has no examples of its own in zod: take those that are registered.
  const schema = z.toJSONSchema(profileSchema, {
    io: 'input',
    override({ zodSchema, jsonSchema }) {
      const { examples } = z.globalRegistry.get(zodSchema) ?? {};
      if (Array.isArray(examples)) jsonSchema.examples = examples;
    },
  });
  return new Map([...schemaFields(schema)].filter(([name]) => !REPEATED.some((start) => name.startsWith(start))));
}

/** Fields by the name of their table. Throws for a field that belongs to none. */
function assignFields(
  tables: Readonly<Record<string, FieldTable>>,
  fields: ReadonlyMap<string, SchemaField>,
): Map<string, [string, SchemaField][]> {
  const beginnings = Object.entries(tables)
    .flatMap(([table, { under = '', fields: own }]) => own.map((field) => ({ table, start: under + field })))
    .toSorted((a, b) => b.start.length - a.start.length);
  return Map.groupBy(fields, ([name]) => {
    const found = beginnings.find(({ start }) => isBelow(name, start));
    if (found === undefined) throw new Error(`${name} belongs to no table: add it to one in this file`);
    return found.table;
  });
}

function isBelow(field: string, start: string): boolean {
  const next = field.charAt(start.length);
  return field.startsWith(start) && (/^$|[.]$/.test(start) || next === '' || next === '.' || next === '[');
}

const MARKED = /<!-- table: ([\w-]+) -->\n\n([\s\S]*?)<!-- end -->/g;

/** What pages can hold between `<!-- table: name -->` and `<!-- end -->`, by name. */
const TABLES: ReadonlyMap<string, (before: string) => string> = new Map([
  ['errors', errorList],
  ['faults', faultList],
  ...fieldTables('settings', SETTINGS, schemaFields(configJsonSchema())),
  ...fieldTables('profile', PROFILE, profileFields()),
]);

export const TABLE_NAMES: readonly string[] = [...TABLES.keys()];

/** The text of a page with its generated tables brought up to date. */
export function updateTables(page: string): string {
  return page.replaceAll(MARKED, (_, name: string, before: string) => {
    const written = TABLES.get(name)?.(before) ?? `no table is called ${name}\n`;
    return `<!-- table: ${name} -->\n\n${written}\n<!-- end -->`;
  });
}

function fieldTables(
  kind: 'settings' | 'profile',
  tables: Readonly<Record<string, FieldTable>>,
  fields: ReadonlyMap<string, SchemaField>,
): [string, (before: string) => string][] {
  return Array.from(assignFields(tables, fields), ([name, own]) => [
    `${kind}-${name}`,
    (before) => fieldTable(own, tables[name]?.under ?? '', before, kind === 'profile'),
  ]);
}

function errorList(): string {
  const sections = Object.entries(ERROR_EXPLANATIONS).map(([subject, explanations]) => {
    const lines = explanations.map(({ codes, cause, fix }) => {
      const named = codes.split(' ').map((code) => `\`${code}\``);
      return `- ${named.join(', ')}: ${cause} **Fix:** ${fix}\n`;
    });
    return `### ${subject}\n\n${lines.join('')}`;
  });
  return sections.join('\n');
}

const MAX_CELL = 160;

/** What `schemaFields` has for a field without a default, or without an example. */
const NONE = '–';

/**
 * A table of fields, and below it what does not fit into a cell. A description of the schema wins; a field without one
 * keeps the meaning that its row has in the page.
 */
function fieldTable(
  fields: readonly [string, SchemaField][],
  under: string,
  before: string,
  hasExamples: boolean,
): string {
  const meanings = new Map(tableRows(before).map(([field = '', meaning = '']) => [codeIn(field)[0], meaning]));
  const notes: string[] = [];
  const rows = fields.map(([path, { preset, description, example }]) => {
    const name = path.slice(under.length);
    const meaning = described(description).replaceAll('|', '\\|');
    const written = meanings.get(name) ?? '';
    if (meaning === '' && (written === '' || written.length > MAX_CELL))
      throw new Error(
        `${path} needs a description in its schema, or a meaning of at most ${MAX_CELL} letters in the table`,
      );
    const [cell, rest] = splitText(meaning || written);
    if (rest !== '') notes.push(`- \`${name}\`: ${rest.charAt(0).toUpperCase()}${rest.slice(1)}.\n`);
    const value = hasExamples ? valueCell(preset, example) : preset;
    return [`\`${name}\``, cell, value === NONE ? '' : value];
  });
  const head = ['field', 'meaning', hasExamples ? 'default, or example' : 'default'];
  return formatTable([head, ...rows]) + (notes.length > 0 ? `\n${notes.join('')}` : '');
}

/** '' if the schema only says which kinds have the field. */
function described(description: string): string {
  return /^(?:`\w+`(?:, )?)+: $/.test(description) ? '' : description;
}

/** The default; an example for a field without one. */
function valueCell(preset: string, example: string): string {
  const isEmpty = [NONE, '`{}`', '`[]`'].includes(preset);
  if (example === NONE || example.length > MAX_CELL || !(isEmpty || preset.startsWith('required'))) return preset;
  return isEmpty ? `e.g. ${example}` : `${preset}, e.g. ${example}`;
}

/** What fits into a cell, up to the end of a sentence or of a part of one, and the rest. */
function splitText(text: string): [string, string] {
  if (text.length <= MAX_CELL) return [text, ''];
  const part = text.slice(0, MAX_CELL);
  const sentence = Math.max(...['. ', '; ', ': '].map((mark) => part.lastIndexOf(mark)));
  const at = sentence > 0 ? sentence : part.lastIndexOf(', ');
  return [text.slice(0, at), text.slice(at + 2)];
}

function faultList(): string {
  const lines = Object.entries(FAULTS).map(([name, { about, defaults }]) => {
    const parameters = Object.keys(defaults).map((parameter) => `\`${parameter}\``);
    return `- \`${name}\`${parameters.length > 0 ? ` (${parameters.join(', ')})` : ''}: ${about}\n`;
  });
  return lines.join('');
}

const PRINT_WIDTH = 120;

/** A Markdown table as the formatter writes it: aligned if it fits the width, else without padding. */
function formatTable([head = [], ...rows]: string[][]): string {
  const widths = head.map((_, at) => Math.max(3, ...[head, ...rows].map((row) => row[at]?.length ?? 0)));
  const isWide = widths.reduce((sum, width) => sum + width + 3, 1) > PRINT_WIDTH;
  const line = (cells: string[]): string =>
    `| ${cells.map((cell, at) => (isWide ? cell : cell.padEnd(widths[at] ?? 0))).join(' | ')} |\n`;
  const rule = widths.map((width) => '-'.repeat(isWide ? 3 : width));
  return [head, rule, ...rows].map(line).join('');
}
