import { sql, type RawBuilder } from 'kysely';

/** Splits a list into parts of at most `size`: every database limits the values that one statement may bind. */
export function inParts<T>(list: readonly T[], size: number): T[][] {
  const parts: T[][] = [];
  for (let at = 0; at < list.length; at += size) parts.push(list.slice(at, at + size));
  return parts;
}

/** For an upsert: each of these columns gets the value of the row that could not be inserted. */
export function newest<Name extends string>(columns: readonly Name[]): Record<Name, RawBuilder<never>> {
  const values = columns.map((name) => [name, sql<never>`excluded.${sql.id(name)}`] as const);
  // oxlint-disable-next-line no-unsafe-type-assertion
  return Object.fromEntries(values) as Record<Name, RawBuilder<never>>;
}
