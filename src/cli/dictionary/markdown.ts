import { formatColumnChange } from '../../model/schema-change.ts';
import { visibleText } from '../../model/visible-text.ts';
import { countText, NONE } from '../../observe/figures.ts';
import type { Dictionary, DictionaryTable, RowCounts } from '../../serve/dictionary/read-dictionary.ts';
import { erDiagram } from './er-diagram.ts';

/** A dictionary for people as Markdown (GitHub's), with its diagram for Mermaid. Every text of the service is escaped. */
export function markdownOf(dictionary: Dictionary, counts: RowCounts): string {
  const { source, warehouse, read_at, tables } = dictionary;
  const parts = [
    `# ${escaped(source)}: tables and columns`,
    `${escaped(warehouse)}, read ${timeText(read_at)} UTC. All times are UTC.`,
    freshness(dictionary),
    overview(tables, counts),
    diagram(dictionary),
    examples(dictionary),
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

function examples({ examples: queries }: Dictionary): string {
  if (queries.length === 0) return '';
  const blocks = queries.map(({ title, sql }) => `${escaped(title)}:\n\n${fenced('sql', sql)}`);
  return `## Queries to begin with\n\n${blocks.join('\n\n')}`;
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
