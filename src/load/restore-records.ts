import { inParts } from '../database/state/in-parts.ts';
import { resolveRejects } from '../database/state/rejects.ts';
import { restoreDeletes } from '../database/state/stored-rows.ts';
import { forgetDeleteCandidates } from '../database/state/suspects.ts';
import { latestVersions } from '../database/state/versions.ts';
import type { SourceRecord } from '../model/json.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { dropForgotten } from './drop-forgotten.ts';
import { coverRows } from './grow-calendar.ts';
import { keyRecords } from './key-records.ts';
import type { LoadContext } from './load-context.ts';
import { shapedFor, sourceTexts } from './page-loader.ts';
import { keyOf, pageRows, shapeOf } from './prepare-page.ts';

const RECORDS_PER_STEP = 100;

/**
 * Writes records as new versions, whatever their rows say: for damaged rows, which a comparison of hashes would take
 * for unchanged. Child rows are replaced. Returns the keys that were written; rejected records are not among them.
 */
export async function restoreRecords(
  context: LoadContext,
  records: readonly SourceRecord[],
  requestedAt: number,
): Promise<string[]> {
  const written: string[] = [];
  for (const part of inParts(records, RECORDS_PER_STEP)) {
    written.push(...(await context.owned.takeTurn(() => restorePart(context, part, timestampText(requestedAt)))));
    context.signal.throwIfAborted();
  }
  return written;
}

async function restorePart(context: LoadContext, records: readonly SourceRecord[], at: string): Promise<string[]> {
  const { warehouse, owned, profile } = context;
  const { resource } = owned;
  const { keyed } = keyRecords(dropForgotten(records, profile, owned.forgotten).records, profile);
  const [table] = shapeOf(owned).tables;
  if (table === undefined || keyed.length === 0) return [];
  const rows = await warehouse.rows.stored(table, keyed.map(keyOf), []);
  const kept = await latestVersions(warehouse.own, resource, keyed.map(keyOf));
  for (const record of keyed) {
    record.version = Math.max(rows.get(record.key)?.version ?? 0, kept.get(record.key) ?? 0) + 1;
  }
  const shaped = await shapedFor(context, keyed);
  const aside = new Set(shaped.rejects.map(({ index }) => index));
  const fresh = keyed.filter((_, index) => !aside.has(index));
  const keys = fresh.map(keyOf);
  const back = keys.filter((key) => (rows.get(key)?.deletedAt ?? null) !== null);
  await coverRows(context, shaped.rows);
  await warehouse.commit({
    rows: pageRows(context, shaped.rows, fresh, at),
    lease: owned.lease(),
    statements: [
      ...resolveRejects(warehouse.own, resource, keys, at),
      ...restoreDeletes(warehouse.own, resource, back, at),
      ...forgetDeleteCandidates(warehouse.own, resource, keys),
      ...sourceTexts(context, fresh),
    ],
  });
  return keys;
}
