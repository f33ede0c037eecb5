import type { StoredToken } from '../../coordination.ts';
import type { ExecuteSql } from '../connection/session.ts';

/** Of a row `stored`; milliseconds by the database's clock. */
const TOKEN = `stored.sealed, stored.version,
  coalesce(extract(epoch FROM stored.expires_at - clock_timestamp()) * 1000, 0)::float8 AS "expiresIn"`;

/**
 * The row is written also where it stays as it is: only so does a statement that waited for another one see what that
 * one left.
 */
const CLAIM = `INSERT INTO content_sync.tokens AS stored (name, version, asker, asked_until)
  VALUES ($1, 0, $3, clock_timestamp() + $4 * interval '1 millisecond')
  ON CONFLICT (name) DO UPDATE SET
    asker = ${claimed('excluded.asker', 'stored.asker')},
    asked_until = ${claimed('excluded.asked_until', 'stored.asked_until')}
  RETURNING ${TOKEN}, stored.version = $2 AND stored.asker = $3 AS "isMine"`;

function claimed(mine: string, theirs: string): string {
  return `CASE WHEN stored.version = $2
    AND (stored.asker IS NULL OR stored.asker = excluded.asker OR stored.asked_until <= clock_timestamp())
    THEN ${mine} ELSE ${theirs} END`;
}

/**
 * Versions follow the clock, so that one which the database has forgotten, as a replica that takes over too early does,
 * does not come again for another token.
 */
const SWAP = `UPDATE content_sync.tokens AS stored
  SET version = greatest(version + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint), sealed = $3,
    expires_at = clock_timestamp() + $4 * interval '1 millisecond', asker = NULL, asked_until = NULL
  WHERE name = $1 AND version = $2`;

const FREE = 'UPDATE content_sync.tokens SET asker = NULL, asked_until = NULL WHERE name = $1 AND asker = $2';

/** The token that stands there, and whether this asker is the one who gets the next. */
export async function claimToken(
  ask: ExecuteSql,
  name: string,
  version: number,
  { owner, forMs }: { owner: string; forMs: number },
): Promise<StoredToken & { isMine: boolean }> {
  const { rows } = await ask<StoredToken & { isMine: boolean }>(CLAIM, [name, version, owner, forMs]);
  const [row] = rows;
  if (row === undefined) throw new Error('a claim without an answer');
  return row;
}

/** Stores the next token where nobody else has since `version`; false where somebody has. */
export async function swapToken(
  ask: ExecuteSql,
  name: string,
  version: number,
  { sealed, expiresIn }: { sealed: string; expiresIn: number },
): Promise<boolean> {
  const { rowCount } = await ask(SWAP, [name, version, sealed, expiresIn]);
  return rowCount === 1;
}

/** Lets others ask, where this one could get none. */
export async function freeToken(ask: ExecuteSql, name: string, owner: string): Promise<void> {
  await ask(FREE, [name, owner]);
}
