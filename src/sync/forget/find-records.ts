import { sql, type RawBuilder } from 'kysely';
import { ConfigError } from '../../model/errors.ts';
import type { Column, ResourceShape, TableShape } from '../../model/table.ts';
import type { ColumnType } from '../../model/vocabulary.ts';
import { pathText } from '../../shape/columns/source-path.ts';
import { toTimestampText } from '../../shape/columns/timestamps.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';

/** A field by its path in the record or its column, and the value that it is to have, as text. */
export interface FieldValue {
  field: string;
  value: string;
}

/** Where a field stands. */
interface Place {
  table: TableShape;
  column: Pick<Column, 'name' | 'type'>;
}

/**
 * The ids of the records of which all fields have these values, deleted rows included. A value is compared as text with
 * the typed one. Throws `ConfigError('usage')` for a field that no table has.
 */
export async function findRecords(
  { own, named }: Pick<Warehouse, 'own' | 'named'>,
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
      const isMet = sql`CAST(${sql.id(column.name)} AS text) IN (${sql.join(formsOf(value, column.type))})`;
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
function placesOf({ tables }: ResourceShape, field: string): Place[] {
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

function formsOf(value: string, type: ColumnType): readonly string[] {
  return [value, ...(FORMS[type]?.(value) ?? [])];
}

function unknownField({ resource, tables: [root] }: ResourceShape, field: string): ConfigError {
  const known = [root?.key[0] ?? '', ...(root?.columns ?? []).map(({ path }) => pathText(path))];
  return new ConfigError('usage', `--where: ${resource} has no field "${field}"`, {
    hint: `it has ${known.join(', ')}; fields of lists are named as in authors.handle`,
  });
}
