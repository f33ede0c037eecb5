// Finds what a warehouse stores about a record that `forget` erases: rows that name its id (`countTraces`), and texts about
// something else that quote it, such as an error `invalid date in the record of ann@example.com` (`createTextEraser`).
import { type RawBuilder, sql } from 'kysely';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { TableAccess } from '../../database/reading.ts';
import type { JsonValue } from '../../model/json.ts';
import type { ResourceShape } from '../../model/table.ts';
import { isExact, parseJson } from '../../rows/json/parse-json.ts';
import { recordKey } from '../../rows/records/record-key.ts';

export const NO_TRACES = {
  rows: 0,
  /** Rows of child tables. */
  children: 0,
  versions: 0,
  rejects: 0,
  /** Deletes and delete candidates. */
  deletes: 0,
  /** Rows of its files; their contents are erased too, unless other records have them. */
  files: 0,
  deliveries: 0,
};

export type TraceCounts = typeof NO_TRACES;

/** The resource whose records are erased. */
export interface TracedResource {
  warehouse: TableAccess;
  resource: string;
  /** Null if it has no tables yet. */
  shape: ResourceShape | null;
  profile: ResourceProfile;
}

/** A table with a column of record ids. */
interface TraceTable {
  /** The count to which its rows are added. */
  what: keyof TraceCounts;
  table: string;
  column: string;
  /** True for a table of several resources. */
  isInternal: boolean;
}

/** Lists the tables with a column of record ids. `_sync_rejects` is not among them: its id may be only in the body. */
export function traceTables({ shape }: TracedResource): TraceTable[] {
  const copied = (shape?.tables ?? []).map(({ name, path, key: [column = ''] }): TraceTable => {
    return { what: path.length === 0 ? 'rows' : 'children', table: name, column, isInternal: false };
  });
  return [
    ...copied,
    { what: 'versions', table: '_sync_versions', column: 'id', isInternal: true },
    { what: 'deletes', table: '_sync_deletes', column: 'id', isInternal: true },
    { what: 'deletes', table: '_sync_suspects', column: 'record_id', isInternal: true },
    { what: 'files', table: '_sync_files', column: 'record_id', isInternal: true },
  ];
}

/** Returns `FROM ... WHERE ...` for the rows of a table whose id meets a condition. */
export function fromTraces(
  { warehouse, resource }: TracedResource,
  { table, column, isInternal }: TraceTable,
  condition: RawBuilder<unknown>,
): RawBuilder<unknown> {
  const isOfResource = isInternal ? sql`"resource" = ${resource} AND` : sql``;
  return sql`FROM ${warehouse.rows.named(table)} WHERE ${isOfResource} ${sql.id(column)} ${condition}`;
}

/** Counts the traces of these records by id; deliveries are in the inbox, and not counted. */
export async function countTraces(traced: TracedResource, ids: readonly string[]): Promise<Map<string, TraceCounts>> {
  const counts = new Map(ids.map((id) => [id, { ...NO_TRACES }]));
  const add = (what: keyof TraceCounts, id: string, n: number): void => {
    const count = counts.get(id);
    if (count !== undefined) count[what] += n;
  };
  for (const table of traceTables(traced)) {
    const id = sql.id(table.column);
    const found = sql<{ id: string; n: number }>`SELECT ${id} AS "id", count(*) AS "n"
      ${fromTraces(traced, table, sql`IN (${sql.join(ids)})`)} GROUP BY ${id}`;
    for (const row of (await found.execute(traced.warehouse.own)).rows) add(table.what, row.id, row.n);
  }
  for (const { id } of await readRejects(traced, ids)) add('rejects', id, 1);
  return counts;
}

/** Reads the rejected records with these ids. If `record_id` of such a row is null, the id is read from the body. */
export async function readRejects(
  { warehouse, resource, profile }: TracedResource,
  ids: readonly string[],
): Promise<{ id: string; hash: string; reason: string; body: string }[]> {
  const all = warehouse.own.selectFrom('_sync_rejects').where('resource', '=', resource);
  const rejects = all.where((is) => is.or([is('record_id', 'is', null), is('record_id', 'in', ids)]));
  const rows = await rejects.select(['hash', 'reason', 'body', 'record_id']).execute();
  const wanted = new Set(ids);
  return rows.flatMap(({ record_id, ...row }) => {
    const id = record_id ?? findId(row.body, profile);
    return id === null || !wanted.has(id) ? [] : [{ ...row, id }];
  });
}

function findId(body: string, { id }: ResourceProfile): string | null {
  try {
    const found = recordKey(parseJson(body), id);
    return 'key' in found ? found.key : null;
  } catch {
    return null;
  }
}

/** Replaces an erased id or value in a text that stays. */
export const ERASED = '***';
/** A shorter id occurs by chance: it is only erased in quotes. */
const MIN_ID_CHARS = 4;
/** A shorter value of a record occurs by chance. */
const MIN_VALUE_CHARS = 8;
/**
 * Each value is searched in each stored message, so their number is limited. If the records of one step have more, quotes of
 * the values beyond stay in the messages; rows, versions and rejects are erased in any case.
 */
const MAX_VALUES = 5_000;
/** Messages quote at most this many characters of a value. */
const MAX_QUOTED_CHARS = 80;

/** All texts and numbers in stored bodies; a body that is not JSON has none. */
export function collectValues(bodies: readonly string[]): Set<string> {
  const found = new Set<string>();
  const collect = (value: JsonValue): void => {
    if (found.size >= MAX_VALUES) return;
    if (typeof value === 'string') found.add(value);
    else if (typeof value === 'number') found.add(String(value));
    else if (isExact(value)) found.add(value.rawJSON);
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(collect);
  };
  for (const body of bodies) {
    try {
      collect(parseJson(body));
    } catch {
      // Such a body is erased, but its values cannot be searched in other texts.
    }
  }
  return found;
}

/** Returns a function that erases ids and values of records from a text about something else. */
export function createTextEraser(ids: readonly string[], values: ReadonlySet<string>): (text: string) => string {
  const longIds = ids.filter(({ length }) => length >= MIN_ID_CHARS);
  const longValues = [...values].filter(({ length }) => length >= MIN_VALUE_CHARS);
  const words = [...longIds, ...longValues.map((value) => value.slice(0, MAX_QUOTED_CHARS))];
  const wordForms = new Set(words.toSorted((a, b) => b.length - a.length).flatMap(writtenForms));
  const shortIds = ids.filter(({ length }) => length > 0 && length < MIN_ID_CHARS);
  const shortForms = new Set(shortIds.flatMap(writtenForms));
  return (text) => {
    let rest = text;
    for (const form of wordForms) rest = eraseForm(rest, form, isWholeWord);
    for (const form of shortForms) rest = eraseForm(rest, form, isQuoted);
    return rest;
  };
}

/** Decides from the characters before and after a found text whether it is erased. */
type IsErased = (before: string, after: string) => boolean;

const isWholeWord: IsErased = (before, after) => !/[\p{L}\p{N}_]$/u.test(before) && !/^[\p{L}\p{N}_]/u.test(after);
/** True for a text in quotes, or a part of a URL. */
const isQuoted: IsErased = (before, after) => /["'/=]$/.test(before) && /^(["'?&\\]|$)/.test(after);

function eraseForm(text: string, form: string, isErased: IsErased): string {
  let rest = text;
  for (let at = rest.indexOf(form); at !== -1; at = rest.indexOf(form, at)) {
    const end = at + form.length;
    const isFound = isErased(rest.slice(Math.max(0, at - 2), at), rest.slice(end, end + 2));
    if (isFound) rest = `${rest.slice(0, at)}${ERASED}${rest.slice(end)}`;
    at += isFound ? ERASED.length : 1;
  }
  return rest;
}

/** Returns the text as it is, as in JSON, and as in a URL. */
function writtenForms(text: string): string[] {
  return [text, JSON.stringify(text).slice(1, -1), encodeURIComponent(text.toWellFormed())];
}
