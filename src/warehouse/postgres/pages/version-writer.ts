import type { PageRows, WrittenRecord } from '../../warehouse.ts';
import type { Step } from '../connection/batch.ts';
import { CopyLines } from './copy-text.ts';

const COPY = `COPY "_sync_versions" ("resource", "id", "version", "valid_from", "op", "hash", "body") FROM STDIN`;
const CLOSE = `UPDATE "_sync_versions" AS v SET "valid_to" = $2 FROM unnest($3::text[], $4::bigint[]) AS old("id", "version")
  WHERE v."resource" = $1 AND v."id" = old."id" AND v."version" = old."version"`;
const DROP = `DELETE FROM "_sync_versions" WHERE "resource" = $1 AND "id" = ANY($2)`;
const DROP_SAME = `DELETE FROM "_sync_versions" AS v USING unnest($2::text[], $3::bigint[]) AS same("id", "version")
  WHERE v."resource" = $1 AND v."id" = same."id" AND v."version" = same."version"`;

/**
 * Closes or drops the versions before those of the written records, as the history policy says; with `isRepeated` also
 * those that are there although they were thought to be new.
 */
export function endVersions(page: PageRows, isRepeated: boolean): Step[] {
  const { resource, history, requestedAt, records } = page;
  if (history === 'none') return [];
  const replaced = records.filter(({ version }) => version > 1);
  const keys = keysOf(replaced);
  const before = versionsOf(replaced).map((version) => version - 1);
  const end =
    history === 'all'
      ? { text: CLOSE, values: [resource, requestedAt, keys, before] }
      : { text: DROP, values: [resource, keys] };
  return [
    ...(isRepeated ? [{ text: DROP_SAME, values: [resource, keysOf(records), versionsOf(records)] }] : []),
    ...(replaced.length === 0 ? [] : [end]),
  ];
}

/** Remembers the source of every written record. */
export function copyOfVersions({ resource, history, requestedAt, records }: PageRows): Step[] {
  if (history === 'none' || records.length === 0) return [];
  const lines = new CopyLines(bytesOf(records));
  for (const { key, version, hash, bytes } of records) {
    for (const cell of [resource, key, version, requestedAt, 'upsert', hash]) lines.add(cell);
    lines.addBytes(bytes);
    lines.endLine();
  }
  return [{ text: COPY, data: lines.data() }];
}

/** What a record takes besides its source, about. */
const BESIDE_BYTES = 128;

/** What the records take in a COPY, about, whole or as a row. */
export function bytesOf(records: readonly WrittenRecord[]): number {
  return records.reduce((sum, { bytes }) => sum + bytes.length + BESIDE_BYTES, 0);
}

function keysOf(records: readonly WrittenRecord[]): string[] {
  return records.map(({ key }) => key);
}

function versionsOf(records: readonly WrittenRecord[]): number[] {
  return records.map(({ version }) => version);
}
