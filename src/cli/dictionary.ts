import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Command, Option } from 'commander';
import { ConfigError, messageOf } from '../model/errors.ts';
import { formatColumnChange } from '../model/schema-change.ts';
import { visibleText } from '../model/visible-text.ts';
import { countText, NONE } from '../observe/figures.ts';
import { scrubOwn } from '../observe/scrub.ts';
import type { RowCounts } from '../serve/dictionary/read-dictionary.ts';
import {
  countDictionary,
  type Dictionary,
  type DictionaryRelation,
  type DictionaryTable,
  readDictionary,
} from '../serve/dictionary/read-dictionary.ts';
import { scrubTexts } from '../serve/status/snapshot.ts';
import { openWarehouseToRead, shownPlace } from '../warehouse/databases.ts';
import { renderDictionaryPage } from '../web/page/dictionary-page.ts';
import type { CliContext } from './command/context.ts';
import { type ChosenSource, forEachSource, type SourceOptions, withSourceOptions } from './command/sources.ts';
import { whileOpen } from './command/with-app.ts';

type Options = SourceOptions & { html?: true; md?: true; json?: true; out?: string };

/** What is known of one source. */
interface Described {
  dictionary: Dictionary;
  counts: RowCounts;
}

type Format = (described: readonly Described[], context: CliContext) => string;

const FORMATS: Readonly<Record<'html' | 'md' | 'json', Format>> = {
  html: (described, { version, clock }) => renderDictionaryPage(described, { version, at: clock.now() }),
  md: (described) => described.map(({ dictionary, counts }) => markdownOf(dictionary, counts)).join('\n'),
  json: (described) =>
    described.map(({ dictionary, counts }) => `${JSON.stringify(withRows(dictionary, counts))}\n`).join(''),
};

/** `content-sync dictionary`: what the warehouse holds, for people and programs; asks only the warehouse. */
export function dictionaryCommand(context: CliContext): Command {
  return withSourceOptions(new Command('dictionary'))
    .addOption(
      new Option('--md', 'as Markdown, with a diagram for Mermaid; the usual form').conflicts(['html', 'json']),
    )
    .addOption(new Option('--html', 'as one HTML page that needs nothing else').conflicts(['md', 'json']))
    .addOption(new Option('--json', 'as one JSON object per source').conflicts(['md', 'html']))
    .option('-o, --out <file>', 'write it to a file instead of stdout')
    .action(async (options: Options) => {
      const described: Described[] = [];
      await forEachSource(context, options, [], async (chosen) => {
        described.push(await describe(chosen, context));
      });
      if (described.length === 0) return;
      const format = options.html === true ? 'html' : options.json === true ? 'json' : 'md';
      await give(context, FORMATS[format](described, context), options.out);
    });
}

async function describe({ source }: ChosenSource, { clock, secrets }: CliContext): Promise<Described> {
  return whileOpen(await openWarehouseToRead(source.warehouse, clock), async (warehouse) => {
    const { name, warehouse: address, resources, profile } = source;
    const about = { source: name, warehouse: shownPlace(address), resources, profile, at: clock.now() };
    const dictionary = await readDictionary(about, warehouse);
    const counts = await countDictionary(dictionary, warehouse);
    return scrubTexts({ dictionary, counts }, (text) => scrubOwn(text, secrets));
  });
}

/** The same with each table's rows beside it, and times that programs read. */
function withRows(dictionary: Dictionary, counts: RowCounts): object {
  const tables = dictionary.tables.map((table) => ({ ...table, rows: counts[table.name] ?? null }));
  return Object(JSON.parse(JSON.stringify({ ...dictionary, tables }, timesAsText)));
}

function timesAsText(key: string, value: unknown): unknown {
  return /(?:_at|_seen)$/.test(key) && typeof value === 'number' ? new Date(value).toISOString() : value;
}

async function give({ stdout, cwd }: CliContext, text: string, out: string | undefined): Promise<void> {
  if (out === undefined) {
    stdout.write(text);
    return;
  }
  const file = path.resolve(cwd, out);
  try {
    await writeFile(file, text);
  } catch (error) {
    throw new ConfigError('usage', `${file} cannot be written: ${messageOf(error)}`, {
      hint: 'name a file in a folder that is there and that this user may write to',
      cause: error,
    });
  }
}

/** A dictionary for people as Markdown (GitHub's), with its diagram for Mermaid. Every text of the service is escaped. */
function markdownOf(dictionary: Dictionary, counts: RowCounts): string {
  const { source, warehouse, read_at, tables } = dictionary;
  const parts = [
    `# ${escaped(source)}: tables and columns`,
    `${escaped(warehouse)}, read ${timeText(read_at)} UTC. All times are UTC.`,
    freshness(dictionary),
    overview(tables, counts),
    diagram(dictionary),
    ...tables.map((table) => section(table, counts)),
    schemaLog(dictionary),
  ];
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}

const MARKS = /[\\`*_[\]<>|~#&!$]/g;

/** A text as it is, also in a cell of a table: no markup, no link, no entity. */
function escaped(text: string): string {
  return visibleText(text)
    .replace(MARKS, String.raw`\$&`)
    .replaceAll('://', String.raw`:\//`)
    .replace(/\bwww\./gi, (word) => `${word.slice(0, -1)}\\.`)
    .replace(/@/g, String.raw`\@`);
}

/** A name or type; what cannot stand in a code span of a table stands as a text. */
function code(text: string): string {
  const shown = visibleText(text);
  return shown === '' || shown.trim() !== shown || /[`|\\]/.test(shown) ? escaped(shown) : `\`${shown}\``;
}

function rowsOf(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows];
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
}

function timeText(at: number | null): string {
  return at === null ? NONE : new Date(at).toISOString().slice(0, 19).replace('T', ' ');
}

function freshness({ freshness: resources }: Dictionary): string {
  if (resources.length === 0) return '';
  const rows = resources.map(({ resource, last_success_at, last_full_at }) => [
    code(resource),
    timeText(last_success_at),
    timeText(last_full_at),
  ]);
  return `## Freshness\n\n${rowsOf(['Resource', 'Last success', 'Last full walk'], rows)}`;
}

function overview(tables: readonly DictionaryTable[], counts: RowCounts): string {
  if (tables.length === 0) return 'Nothing has been copied yet.';
  const rows = tables.map(({ name, kind, description, columns }) => [
    code(name),
    kind,
    name in counts ? countText(counts[name] ?? 0) : NONE,
    String(columns.length),
    escaped(description),
  ]);
  return `## Tables and views\n\n${rowsOf(['Name', 'Kind', 'Rows', 'Columns', 'What it holds'], rows)}`;
}

function diagram(dictionary: Dictionary): string {
  if (dictionary.relations.length === 0) return '';
  return `## Relations\n\n${fenced('mermaid', erDiagram(dictionary))}`;
}

/** A block that its own text cannot end. */
function fenced(language: string, text: string): string {
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = '`'.repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

function section({ name, description, columns }: DictionaryTable, counts: RowCounts): string {
  const count = name in counts ? ` ${countText(counts[name] ?? 0)} rows.` : '';
  const rows = columns.map((column) => [
    `${column.isKey ? `**${code(column.name)}** (key)` : code(column.name)}${column.isPersonal ? ' (personal)' : ''}`,
    code(column.declared),
    column.source === null ? NONE : code(column.source),
    column.references === null ? NONE : code(column.references),
    column.first_seen === null ? NONE : timeText(column.first_seen).slice(0, 10),
    escaped(column.description ?? NONE),
  ]);
  const head = ['Column', 'Type', 'Source', 'References', 'Since', 'Description'];
  return `## ${escaped(name)}\n\n${escaped(description)}${count}\n\n${rowsOf(head, rows)}`;
}

function schemaLog({ schema_log: changes }: Dictionary): string {
  if (changes.length === 0) return '';
  const rows = changes.map(({ changed_at, table, column, ...change }) => [
    timeText(changed_at),
    code(`${table}.${column}`),
    escaped(formatColumnChange(change)),
  ]);
  return `## Schema log\n\n${rowsOf(['When', 'Column', 'Change'], rows)}`;
}

/** One entity per copied table that a relation names, with its keys and references, as an `erDiagram` of Mermaid. */
function erDiagram({ tables, relations }: Pick<Dictionary, 'tables' | 'relations'>): string {
  const related = new Set(relations.flatMap(({ from, to }) => [from.table, to.table]));
  const entities = tables.filter(({ kind, name }) => kind === 'table' && related.has(name));
  const ids = new Map(entities.map(({ name }, at) => [name, `t${at}`]));
  const lines = relations.map((relation) => lineOf(relation, ids));
  return ['erDiagram', ...entities.map((entity) => entityOf(entity, ids)), ...lines].join('\n');
}

/** Mermaid's words for how many rows stand at each end. */
const ENDS: Readonly<Record<DictionaryRelation['kind'], string>> = {
  child: '}o--||',
  key: '|o--o|',
  reference: '}o--o|',
};

function lineOf({ from, to, kind }: DictionaryRelation, ids: ReadonlyMap<string, string>): string {
  return `  ${ids.get(from.table)} ${ENDS[kind]} ${ids.get(to.table)} : "${text(from.column)}"`;
}

function entityOf({ name, columns }: DictionaryTable, ids: ReadonlyMap<string, string>): string {
  const shown = columns.filter(({ isKey, references }) => isKey || references !== null);
  const attributes = shown.map((column) => {
    const marks = [column.isKey ? 'PK' : '', column.references === null ? '' : 'FK'].filter((mark) => mark !== '');
    return `    ${column.type} ${word(column.name)} ${marks.join(', ')}`;
  });
  return [`  ${ids.get(name)}["${text(name)}"] {`, ...attributes, '  }'].join('\n');
}

/** Mermaid knows no escapes in its texts; only letters, digits and a few marks are safe. */
function text(name: string): string {
  return name.replace(/[^\p{L}\p{M}\p{N}_. -]/gu, '_');
}

function word(name: string): string {
  const safe = name.replace(/\W/g, '_');
  return /^[A-Za-z]/.test(safe) ? safe : `c_${safe}`;
}
