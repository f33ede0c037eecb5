import type { PageCommit, WrittenRecord } from '../warehouse.ts';
import type { RowCopy } from './copy-batch.ts';
import { CopyLines, copyCell } from './copy-text.ts';
import type { Session } from './session.ts';

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
export async function endVersions(session: Session, page: PageCommit, isRepeated: boolean): Promise<void> {
  const { resource, history, requestedAt, records } = page;
  if (history === 'none') return;
  const replaced = records.filter(({ version }) => version > 1);
  if (isRepeated) await session.execute(DROP_SAME, [resource, keysOf(records), versionsOf(records)]);
  if (replaced.length === 0) return;
  const before = versionsOf(replaced).map((version) => version - 1);
  if (history === 'all') await session.execute(CLOSE, [resource, requestedAt, keysOf(replaced), before]);
  else await session.execute(DROP, [resource, keysOf(replaced)]);
}

/** Remembers the source of every written record. */
export function copyOfVersions({ resource, history, requestedAt, records }: PageCommit): RowCopy[] {
  if (history === 'none' || records.length === 0) return [];
  const lines = new CopyLines();
  const ofAll = copyCell(resource);
  for (const { key, version, hash, bytes } of records) {
    lines.addText(`${ofAll}\t${copyCell(key)}\t${version}\t${requestedAt}\tupsert\t${hash}\t`);
    lines.addCell(bytes);
    lines.addText('\n');
  }
  return [{ statement: COPY, data: lines.data() }];
}

function keysOf(records: readonly WrittenRecord[]): string[] {
  return records.map(({ key }) => key);
}

function versionsOf(records: readonly WrittenRecord[]): number[] {
  return records.map(({ version }) => version);
}
