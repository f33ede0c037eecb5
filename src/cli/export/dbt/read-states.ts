import { sql } from 'kysely';
import type { Dictionary } from '../../../serve/dictionary/read-dictionary.ts';
import type { Profile } from '../../../source/profile.ts';
import type { WarehouseReader } from '../../../warehouse/reading.ts';
import type { DbtSource } from './described-source.ts';
import { withoutJinja } from './names.ts';

/** A field with more values is no state. */
const MAX_STATES = 20;

/** The states of publishing that the profile names or that records have, by `view.column`. */
export async function readStates(
  { tables }: Dictionary,
  { resources }: Profile,
  { own, named }: Pick<WarehouseReader, 'own' | 'named'>,
): Promise<DbtSource['states']> {
  const found: [string, string[]][] = [];
  for (const { name, kind, resource, table, columns } of tables) {
    const state = resources[resource ?? '']?.state;
    if (kind !== 'live' || table !== resource || state == null) continue;
    const column = columns.find(({ source, type }) => source === state.field && type === 'text');
    if (column === undefined) continue;
    const value = sql.id(column.name);
    const { rows } = await sql<{ value: string }>`
      SELECT DISTINCT ${value} AS "value" FROM ${named(name)} WHERE ${value} IS NOT NULL LIMIT ${MAX_STATES + 1}
    `.execute(own);
    const values = [...new Set([...state.published.map(String), ...rows.map((row) => row.value)])].toSorted();
    const isState = rows.length <= MAX_STATES && values.every((each) => withoutJinja(each) === each);
    if (isState) found.push([`${name}.${column.name}`, values]);
  }
  return Object.fromEntries(found);
}
