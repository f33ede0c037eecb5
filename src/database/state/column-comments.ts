import type { Column, ResourceShape, SourcePath, TableShape } from '../../model/table.ts';
import { fieldPathText } from '../../model/body-path.ts';
import { visibleText } from '../../model/visible-text.ts';
import { OVERFLOW, pathText } from '../../rows/columns/source-path.ts';

/** What a profile says of a resource and of its fields, for people who choose tables and columns. */
export interface SaidOfFields {
  id: string | readonly string[];
  description?: string | undefined;
  fields: Readonly<Record<string, { description?: string | undefined; unit?: string | undefined }>>;
}

export const NOTHING_SAID: SaidOfFields = { id: [], fields: {} };

/** The comment of a table, or of a column of it. `base` is the part of it that is the same whatever a profile says. */
export interface Comment {
  table: string;
  /** Null for that of the table itself. */
  column: string | null;
  base: string;
  comment: string;
}

/** The comments of all tables and columns of a resource. */
export function commentsOf({ resource, tables }: ResourceShape, said: SaidOfFields): Comment[] {
  return tables.flatMap((table): Comment[] => {
    const { name, path, key, columns } = table;
    const base = tableBase(resource, table);
    const text = path.length === 0 ? said.description : saidOf(path, said);
    return [
      { table: name, column: null, base, comment: visibleText(joined(text, base)) },
      ...key.map((column, at) => ({
        table: name,
        column,
        base: keyBase(resource, at),
        comment: keyComment(resource, at, said),
      })),
      ...columns.map((column) => ({
        table: name,
        column: column.name,
        base: visibleText(columnBase(resource, path, column)),
        comment: columnComment(resource, path, column, said),
      })),
    ];
  });
}

function tableBase(resource: string, { path }: TableShape): string {
  if (path.length === 0) return `The ${resource} records of the service, one a row.`;
  return `Lists within the ${resource} records of the service, one element a row.`;
}

/** Of the key column at this place. */
export function keyComment(resource: string, at: number, said: SaidOfFields = NOTHING_SAID): string {
  const { id } = said;
  const text = at === 0 && typeof id === 'string' ? saidAt(fieldPathText(id), said) : undefined;
  return visibleText(joined(text, keyBase(resource, at)));
}

function keyBase(resource: string, at: number): string {
  return at === 0 ? `The key of the ${resource} record.` : 'Place in the list, from 0.';
}

/** Shown to people who choose columns: what the profile says of it, and the way from the record to the value. */
export function columnComment(
  resource: string,
  tablePath: SourcePath,
  column: Column,
  said: SaidOfFields = NOTHING_SAID,
): string {
  return visibleText(joined(saidOf(column.path, said), columnBase(resource, tablePath, column)));
}

function columnBase(resource: string, tablePath: SourcePath, { path }: Column): string {
  const within = path.slice(tablePath.length);
  const list = tablePath.length === 0 ? '' : `each element of ${pathText(tablePath)} of `;
  if (within.length === 0) return `${capital(list)}the ${resource} record.`;
  if (within[0] === OVERFLOW) return `Fields of ${list}the ${resource} record for which there is no column left.`;
  return `Field ${pathText(within)} of ${list}the ${resource} record.`;
}

function saidOf(path: SourcePath, said: SaidOfFields): string | undefined {
  return path.at(-1) === OVERFLOW ? undefined : saidAt(pathText(path), said);
}

function saidAt(field: string, { fields }: SaidOfFields): string | undefined {
  const { description, unit } = (Object.hasOwn(fields, field) ? fields[field] : undefined) ?? {};
  const parts = [description, unit === undefined ? undefined : `Unit: ${unit}`].flatMap((part) => part ?? []);
  return parts.length === 0 ? undefined : parts.map(asSentence).join(' ');
}

function joined(said: string | undefined, base: string): string {
  return said === undefined ? base : `${asSentence(said)} ${base}`;
}

function asSentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function capital(text: string): string {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}
