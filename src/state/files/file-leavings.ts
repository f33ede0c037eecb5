import type { CompiledQuery, Expression, ExpressionBuilder, Kysely, SqlBool } from 'kysely';
import type { OwnTables, TimestampText } from '../../warehouse/own-tables.ts';
import { inParts } from '../in-parts.ts';

const PER_STATEMENT = 500;

/** Those of which files are remembered. */
export async function resourcesWithFiles(own: Kysely<OwnTables>): Promise<string[]> {
  const rows = await own.selectFrom('_sync_files').select('resource').distinct().orderBy('resource').execute();
  return rows.map(({ resource }) => resource);
}

/** Rows of earlier contents of a resource that ended before a moment, and all of them. */
export async function countEarlier(
  own: Kysely<OwnTables>,
  resource: string,
  before: TimestampText,
): Promise<{ all: number; old: number }> {
  const earlier = own.selectFrom('_sync_files').where('resource', '=', resource).where('valid_to', 'is not', null);
  const count = earlier.select(({ fn }) => fn.countAll().as('n'));
  const { n: all } = await count.executeTakeFirstOrThrow();
  const { n: old } = await count.where('valid_to', '<', before).executeTakeFirstOrThrow();
  return { all: Number(all), old: Number(old) };
}

export function deleteEarlier(own: Kysely<OwnTables>, resource: string, before: TimestampText): CompiledQuery {
  return own.deleteFrom('_sync_files').where('resource', '=', resource).where('valid_to', '<', before).compile();
}

/** Contents that are remembered, and that no file names. */
export function unnamedObjects(own: Kysely<OwnTables>): Promise<{ store: string; sha256: string }[]> {
  return own.selectFrom('_sync_file_objects').select(['store', 'sha256']).where(isUnnamed).execute();
}

/** Forgets contents of a store that no file names. */
export function forgetObjects(own: Kysely<OwnTables>, store: string, hashes: readonly string[]): CompiledQuery[] {
  return inParts(hashes, PER_STATEMENT).map((part) =>
    own
      .deleteFrom('_sync_file_objects')
      .where('store', '=', store)
      .where('sha256', 'in', part)
      .where(isUnnamed)
      .compile(),
  );
}

/** Forgets contents of before a moment that no file names, whether they are still in their store or not. */
export function forgetUnnamed(own: Kysely<OwnTables>, store: string, before: TimestampText): CompiledQuery[] {
  const old = own.deleteFrom('_sync_file_objects').where('store', '=', store).where('stored_at', '<', before);
  return [old.where(isUnnamed).compile()];
}

function isUnnamed(where: ExpressionBuilder<OwnTables, '_sync_file_objects'>): Expression<SqlBool> {
  const naming = where
    .selectFrom('_sync_files')
    .select('_sync_files.resource')
    .whereRef('_sync_files.store', '=', '_sync_file_objects.store')
    .whereRef('_sync_files.sha256', '=', '_sync_file_objects.sha256');
  return where.not(where.exists(naming));
}
