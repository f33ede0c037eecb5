import type { ControlPost, StoredControl, StoredControlAnswer } from '../../coordination.ts';
import type { ExecuteSql } from '../../database.ts';
import { COMMON_SCHEMA } from '../connection/commit-marks.ts';

const TABLE = `${COMMON_SCHEMA}.controls`;

/** What processes are told to do by way of the database. */
export function controlPost(ask: ExecuteSql): ControlPost {
  return {
    isLed: async (source) => (await ask(LED, [source])).rows.length > 0,
    putControl: async ({ id, source, request, by }) => {
      await ask(FORGET);
      await ask(PUT, [id, source, request, by]);
    },
    recentControls: async (sources) => (await ask<StoredControl>(RECENT, [sources])).rows,
    takeControl: async (id, owner) => (await ask(TAKE, [id, owner])).rowCount === 1,
    tellControl: async (id, { answer, report, isEnded }) => void (await ask(TELL, [id, answer, report, isEnded])),
    readControl: async (id) => (await ask<StoredControlAnswer>(READ, [id])).rows[0] ?? null,
  };
}

const LED = `SELECT 1 AS led FROM ${COMMON_SCHEMA}.leads WHERE source = $1 AND until > now()`;
const FORGET = `DELETE FROM ${TABLE} WHERE asked_at < now() - interval '1 day'`;
/** Sent twice if the connection is lost before the answer. */
const PUT = `INSERT INTO ${TABLE} (id, source, request, asked_by, asked_at) VALUES ($1::uuid, $2, $3::jsonb, $4, now())
  ON CONFLICT (id) DO NOTHING`;
const RECENT = `SELECT id::text AS id, source, request::text AS request, asked_by AS by FROM ${TABLE}
  WHERE asked_at > now() - interval '1 minute' AND source = ANY($1) ORDER BY asked_at`;
const TAKE = `UPDATE ${TABLE} SET taken_by = $2, heard_at = now()
  WHERE id = $1::uuid AND (taken_by IS NULL OR taken_by = $2)`;
const TELL = `UPDATE ${TABLE} SET heard_at = now(), answer = coalesce($2::jsonb, answer),
    report = coalesce($3::jsonb, report), ended_at = CASE WHEN $4::boolean THEN now() ELSE ended_at END
  WHERE id = $1::uuid`;
const READ = `SELECT answer::text AS answer, report::text AS report, ended_at IS NOT NULL AS "isEnded",
    coalesce(heard_at > now() - interval '30 s', false) AS "isHeard"
  FROM ${TABLE} WHERE id = $1::uuid`;
