import { type RawBuilder, sql } from 'kysely';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import type { RejectRow } from '../../database/own-tables.ts';
import type { TableAccess } from '../../database/reading.ts';
import type { ReadColumn } from '../../database/snapshot-reader.ts';
import { ConfigError } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import type { Column, ResourceShape, TableShape } from '../../model/table.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { pathText } from '../../rows/columns/column-name.ts';
import { toTimestampText } from '../../rows/columns/timestamps.ts';
import { isExact, parseJson } from '../../rows/json/parse-json.ts';
import { recordKey } from '../../rows/records/record-key.ts';

/** Takes the place of what is erased within a text that stays. */
const ERASED = '***';
/** A shorter id occurs by chance: it is only removed in quotes. */
const LEAST_ID = 4;
/** The same of the values of a record. */
const LEAST_VALUE = 8;
const MOST_VALUES = 5_000;
/** A longer value is never quoted whole. */
const MOST_QUOTED = 80;

/** All texts and numbers in stored bodies, those that cannot be parsed left out. */
export function valuesIn(bodies: readonly string[]): Set<string> {
  const found = new Set<string>();
  const collect = (value: JsonValue): void => {
    if (found.size >= MOST_VALUES) return;
    if (typeof value === 'string') found.add(value);
    else if (typeof value === 'number') found.add(String(value));
    else if (isExact(value)) found.add(value.rawJSON);
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(collect);
  };
  for (const body of bodies) {
    try {
      collect(parseJson(body));
    } catch {
      // No JSON: it is erased as a whole, and nothing of it is looked for elsewhere.
    }
  }
  return found;
}

/** Returns what takes ids and values of erased records out of a text that is about something else. */
export function traceEraser(ids: readonly string[], values: ReadonlySet<string>): (text: string) => string {
  const long = [...values].filter((value) => value.length >= LEAST_VALUE).map((value) => value.slice(0, MOST_QUOTED));
  const words = [...ids.filter((id) => id.length >= LEAST_ID), ...long].toSorted((a, b) => b.length - a.length);
  const forms = new Set(words.flatMap(formsOf));
  const quoted = new Set(ids.filter((id) => id !== '' && id.length < LEAST_ID).flatMap(formsOf));
  return (text) => {
    let left = text;
    for (const form of forms) left = without(left, form, isWhole);
    for (const form of quoted) left = without(left, form, isQuoted);
    return left;
  };
}

type Surrounded = (before: string, after: string) => boolean;

/** Not a part of a longer word. */
const isWhole: Surrounded = (before, after) => !/[\p{L}\p{N}_]$/u.test(before) && !/^[\p{L}\p{N}_]/u.test(after);
/** In quotes, or a part of an address. */
const isQuoted: Surrounded = (before, after) => /["'/=]$/.test(before) && /^(["'?&\\]|$)/.test(after);

function without(text: string, form: string, isMeant: Surrounded): string {
  let left = text;
  for (let at = left.indexOf(form); at !== -1; at = left.indexOf(form, at)) {
    const end = at + form.length;
    const isFound = isMeant(left.slice(Math.max(0, at - 2), at), left.slice(end, end + 2));
    if (isFound) left = `${left.slice(0, at)}${ERASED}${left.slice(end)}`;
    at += isFound ? ERASED.length : 1;
  }
  return left;
}

/** The text itself, in a JSON text, and in an address. */
function formsOf(text: string): string[] {
  const wellFormed = text.toWellFormed();
  return [...new Set([text, JSON.stringify(text).slice(1, -1), encodeURIComponent(wellFormed)])];
}

/** How much of a record is stored, or was erased. */
export interface TraceCounts {
  rows: number;
  /** Rows of child tables. */
  children: number;
  versions: number;
  rejects: number;
  /** Deletes that are remembered or suspected. */
  deletes: number;
  /** What is remembered of its files; their contents go too, unless other records show them. */
  files: number;
  deliveries: number;
}

export const NO_TRACES: TraceCounts = {
  rows: 0,
  children: 0,
  versions: 0,
  rejects: 0,
  deletes: 0,
  files: 0,
  deliveries: 0,
};

/** Where records of a resource are looked for. */
interface TracePlace {
  warehouse: TableAccess;
  resource: string;
  /** Null if it has no tables yet. */
  shape: ResourceShape | null;
  profile: ResourceProfile;
}

/** A rejected record, and the id in its body. */
export type KeyedReject = Pick<RejectRow, 'hash' | 'reason' | 'body'> & { id: string };

/** A table that holds ids of records, and what its rows count as. */
interface IdPlace {
  what: keyof TraceCounts;
  table: string;
  column: string;
  /** True for an own table, which holds several resources. */
  isOurs: boolean;
}

/** Every table that names records by their ids, except `_sync_rejects`, whose id may be in the body only. */
export function idPlaces({ shape }: TracePlace): IdPlace[] {
  const copied = (shape?.tables ?? []).map(({ name, path, key: [column = ''] }): IdPlace => {
    return { what: path.length === 0 ? 'rows' : 'children', table: name, column, isOurs: false };
  });
  return [
    ...copied,
    { what: 'versions', table: '_sync_versions', column: 'id', isOurs: true },
    { what: 'deletes', table: '_sync_deletes', column: 'id', isOurs: true },
    { what: 'deletes', table: '_sync_suspects', column: 'record_id', isOurs: true },
    { what: 'files', table: '_sync_files', column: 'record_id', isOurs: true },
  ];
}

/** The rows of a place whose id meets a condition, as `FROM ... WHERE ...`. */
export function rowsAt(
  {
    warehouse: {
      rows: { named },
    },
    resource,
  }: TracePlace,
  { table, column, isOurs }: IdPlace,
  condition: RawBuilder<unknown>,
): RawBuilder<unknown> {
  const isOf = isOurs ? sql`"resource" = ${resource} AND` : sql``;
  return sql`FROM ${named(table)} WHERE ${isOf} ${sql.id(column)} ${condition}`;
}

/** By id, of those in `ids`; deliveries are in another place, and not counted. */
export async function countTraces(place: TracePlace, ids: readonly string[]): Promise<Map<string, TraceCounts>> {
  const counts = new Map(ids.map((id) => [id, { ...NO_TRACES }]));
  const add = (what: keyof TraceCounts, id: string, n: number): void => {
    const count = counts.get(id);
    if (count !== undefined) count[what] += n;
  };
  for (const each of idPlaces(place)) {
    const id = sql.id(each.column);
    const found = sql<{ id: string; n: number }>`SELECT ${id} AS "id", count(*) AS "n"
      ${rowsAt(place, each, sql`IN (${sql.join(ids)})`)} GROUP BY ${id}`;
    for (const row of (await found.execute(place.warehouse.own)).rows) add(each.what, row.id, row.n);
  }
  for (const { id } of await rejectsOf(place, new Set(ids))) add('rejects', id, 1);
  return counts;
}

/** Rejected records with one of the ids, in the row or in the body. */
export async function rejectsOf(
  { warehouse: { own }, resource, profile }: TracePlace,
  ids: ReadonlySet<string>,
): Promise<KeyedReject[]> {
  const all = own.selectFrom('_sync_rejects').select(['hash', 'reason', 'body', 'record_id']);
  const rows = await all
    .where('resource', '=', resource)
    .where((is) => is.or([is('record_id', 'is', null), is('record_id', 'in', [...ids])]))
    .execute();
  return rows.flatMap(({ record_id, ...row }) => {
    const id = record_id ?? idIn(row.body, profile);
    return id !== null && ids.has(id) ? [{ ...row, id }] : [];
  });
}

/** The id in a body; null without one. */
function idIn(body: string, { id }: TracePlace['profile']): string | null {
  try {
    const found = recordKey(parseJson(body), id);
    return 'key' in found ? found.key : null;
  } catch {
    return null;
  }
}

const IDS_PER_STEP = 5_000;

/** The ids of all records of which a resource has a row, a version, a note or a reject; some more than once. */
export async function* knownIds(place: TracePlace): AsyncIterable<string> {
  const { warehouse, resource, profile } = place;
  for (const each of idPlaces(place).filter(({ what }) => what !== 'children')) {
    const id = sql.id(each.column);
    for (let last: string | null = ''; last !== null;) {
      const { rows }: { rows: { id: string }[] } = await sql<{ id: string }>`SELECT DISTINCT ${id} AS "id"
        ${rowsAt(place, each, sql`> ${last}`)} ORDER BY ${id} LIMIT ${sql.lit(IDS_PER_STEP)}`.execute(warehouse.own);
      for (const row of rows) yield row.id;
      last = rows.at(-1)?.id ?? null;
    }
  }
  const rejects = warehouse.own.selectFrom('_sync_rejects').select(['record_id', 'body']);
  for (const { record_id, body } of await rejects.where('resource', '=', resource).execute()) {
    const id = record_id ?? idIn(body, profile);
    if (id !== null) yield id;
  }
}

/** A field by its path in the record or its column, and the value that it is to have, as text. */
export interface FieldValue {
  field: string;
  value: string;
}

/** The location of a field. */
interface FieldColumn {
  table: TableShape;
  column: ReadColumn;
}

/**
 * The ids of the records of which all fields have these values, deleted rows included. A value is compared as text with
 * the typed one. Throws `ConfigError('usage')` for a field that no table has.
 */
export async function findRecords(
  { own, rows: { named } }: TableAccess,
  shape: ResourceShape,
  wanted: readonly FieldValue[],
): Promise<string[]> {
  const [root] = shape.tables;
  if (root === undefined) return [];
  const key = sql.id(root.key[0] ?? '');
  const conditions = wanted.map(({ field, value }) => {
    const found = placesOf(shape, field);
    if (found.length === 0) throw unknownField(shape, field);
    const one = found.map(({ table, column }) => {
      const isMet = sql`CAST(${sql.id(column.name)} AS text) IN (${sql.join(valueForms(value, column.type))})`;
      if (table === root) return isMet;
      return sql`${key} IN (SELECT ${sql.id(table.key[0] ?? '')} FROM ${named(table.name)} WHERE ${isMet})`;
    });
    return sql`(${sql.join(one, sql` OR `)})`;
  });
  const all: RawBuilder<unknown> = sql.join(conditions, sql` AND `);
  const { rows } = await sql<{ id: string }>`SELECT ${key} AS "id" FROM ${named(root.name)} WHERE ${all}
    ORDER BY ${key}`.execute(own);
  return rows.map(({ id }) => id);
}

/** Columns of a field's path or of that name: a list has its values in a table of its own. */
function placesOf({ tables }: ResourceShape, field: string): FieldColumn[] {
  return tables.flatMap((table) => {
    const own = table.columns;
    const columns = own.filter((column) => namesOf(table, column).includes(field));
    const [key] = table.key;
    const isKey = table.path.length === 0 && key === field;
    return [...columns, ...(isKey ? [{ name: field, type: 'text' as const }] : [])].map((column) => ({
      table,
      column,
    }));
  });
}

function namesOf(table: TableShape, { name, path }: Column): string[] {
  return [table.path.length === 0 ? name : `${table.name}.${name}`, pathText(path)];
}

/** A value as the databases write it as a text. */
const FORMS: Partial<Readonly<Record<ColumnType, (value: string) => readonly string[]>>> = {
  boolean: (value) => (/^(true|1)$/i.test(value) ? ['true', '1'] : /^(false|0)$/i.test(value) ? ['false', '0'] : []),
  double: (value) => [value, `${value}.0`],
  timestamp: (value) => {
    const text = toTimestampText(value, null) ?? value;
    const short = text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
    return [text, text.slice(0, 23), `${text}+00`, `${short}+00`];
  },
  json: (value) => [value, JSON.stringify(value)],
};

function valueForms(value: string, type: ColumnType): readonly string[] {
  return [value, ...(FORMS[type]?.(value) ?? [])];
}

function unknownField({ resource, tables: [root] }: ResourceShape, field: string): ConfigError {
  const known = [root?.key[0] ?? '', ...(root?.columns ?? []).map(({ path }) => pathText(path))];
  return new ConfigError('usage', `--where: ${resource} has no field "${field}"`, {
    hint: `it has ${known.join(', ')}; fields of lists are named as in authors.handle`,
  });
}
