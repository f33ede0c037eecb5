import { sql, type Kysely } from 'kysely';
import type { TableShape } from '../../model/table.ts';
import { readShapes } from '../../state/column-catalog.ts';
import { newestPictures, type ShownPicture } from '../../state/files/shown-files.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';
import { momentOf } from './stored.ts';

/** A picture that a record shows now. */
export interface PictureDetails extends Pick<ShownPicture, 'resource' | 'record_id' | 'sha256' | 'bytes'> {
  /** Pixels; null if they are not known. */
  width: number | null;
  height: number | null;
  /** What the record itself says of it, for who does not see it; null if it says nothing. */
  alt: string | null;
  /** Since when the record shows it, as far as the copy saw. */
  seen_at: number | null;
}

const PICTURES = 24;
/** Columns by which records describe their pictures, the best first. */
const DESCRIBING = ['alt', 'alt_text', 'title', 'caption', 'description', 'name', 'file_name', 'filename'];
const MOST_LETTERS = 200;

/** Those that came last of all these resources together, the newest first. */
export async function readPictures(
  own: Kysely<OwnTables>,
  resources: readonly string[],
  scrub: (text: string) => string,
): Promise<PictureDetails[]> {
  const all: ShownPicture[] = [];
  for (const resource of resources) all.push(...(await newestPictures(own, resource, PICTURES)));
  const newest = all.toSorted((a, b) => (a.valid_from < b.valid_from ? 1 : -1)).slice(0, PICTURES);
  if (newest.length === 0) return [];
  const texts = await describe(own, newest);
  return newest.map(({ resource, record_id, sha256, bytes, width, height, valid_from }) => {
    const alt = texts.get(placeOf({ resource, record_id })) ?? null;
    const said = alt === null ? null : scrub(alt.slice(0, MOST_LETTERS));
    return { resource, record_id, sha256, bytes, width, height, alt: said, seen_at: momentOf(valid_from) };
  });
}

function placeOf({ resource, record_id }: Pick<ShownPicture, 'resource' | 'record_id'>): string {
  return `${resource} ${record_id}`;
}

/** What the rows of the records say, by `placeOf`. */
async function describe(own: Kysely<OwnTables>, pictures: readonly ShownPicture[]): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  const shapes = new Map((await readShapes(own)).map(({ resource, tables }) => [resource, tables[0]]));
  for (const [resource, shown] of Map.groupBy(pictures, (picture) => picture.resource)) {
    const table = shapes.get(resource);
    if (table === undefined) continue;
    const ids = [...new Set(shown.map(({ record_id }) => record_id))];
    for (const { id, alt } of await describedRows(own, table, ids)) {
      if (alt !== null && alt !== '') texts.set(placeOf({ resource, record_id: id }), alt);
    }
  }
  return texts;
}

interface Described {
  id: string;
  alt: string | null;
}

async function describedRows(own: Kysely<OwnTables>, table: TableShape, ids: readonly string[]): Promise<Described[]> {
  const [key] = table.key;
  const columns = DESCRIBING.flatMap((name) => table.columns.find((column) => column.name === name) ?? []);
  const texts = columns.filter(({ type }) => type === 'text').map(({ name }) => sql`NULLIF(${sql.id(name)}, '')`);
  if (key === undefined || texts.length === 0) return [];
  // One alone is no argument list in SQLite.
  const alt = sql<string | null>`COALESCE(${sql.join([...texts, sql`NULL`])})`;
  // By the query builder, which knows the schema.
  const copied = own.withTables<Record<string, Record<string, string | null>>>();
  return copied
    .selectFrom(copied.dynamic.table(table.name).as('rows'))
    .select([sql<string>`${sql.id(key)}`.as('id'), alt.as('alt')])
    .where(sql<string>`${sql.id(key)}`, 'in', ids)
    .execute();
}
