import type { CompiledQuery } from 'kysely';
import { readItem } from '../../extract/read-item.ts';
import type { PageFacts, PageLoader, PageOutcome } from '../../load/page-loader.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonValue, SourceRecord } from '../../model/json.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { canonicalHash } from '../../shape/records/fingerprint.ts';
import { isObject } from '../../shape/records/field-at.ts';
import { parseJson } from '../../shape/json/parse-json.ts';
import { tombstoneOf } from '../../shape/tombstone.ts';
import { currentBodies } from '../../state/versions.ts';
import { saveFeed } from '../../state/checkpoints.ts';
import { inParts } from '../../state/in-parts.ts';
import { saveFigures } from '../../state/runs.ts';
import { forgetFed, suspectStated, suspectOlder } from '../../state/suspects.ts';
import type { FeedRow } from '../../warehouse/own-tables.ts';
import { suspectLost } from '../deletes/page-suspects.ts';
import { checkItemReading } from '../item/check-reading.ts';
import { keyIn } from '../../checks/listing-walk.ts';
import { loadRecord } from '../item/load-record.ts';
import { countPage, countRecords, withPage, type RunContext } from '../run-progress.ts';
import type { FeedChanges } from './feed-entries.ts';

const READS_AT_ONCE = 4;

/** One answer of the feed, ready to be written. */
interface FedPage {
  changes: FeedChanges;
  requestedAt: number;
  /** Where the feed stands after it. */
  place: FeedRow;
}

/**
 * Writes what one answer of the feed says, and that it was read, in one transaction; records that it only names are read
 * alone before that. What it says is deleted becomes a suspect, to be decided at the end of the run. Throws what reading
 * and loading throw; then the answer is asked for again.
 */
export async function loadChanges(context: RunContext, loader: PageLoader, page: FedPage): Promise<void> {
  const { changes, requestedAt } = page;
  const { whole, partial } = await wholeAmong(context, changes.records);
  for (const part of inParts([...changes.named, ...partial], READS_AT_ONCE)) {
    await Promise.all(part.map((key) => loadNamed(context, key)));
  }
  const gone = await liveAmong(context, changes.gone);
  const { progress } = context;
  const outcome = await loader.load({ records: whole, requestedAt }, async (facts, counted) => {
    await progress.columns.addPage(context, facts, timestampText(requestedAt));
    return statementsOf(context, page, { ...facts, stated: [...facts.stated, ...gone] }, counted);
  });
  countPage(progress, outcome);
  context.signal.throwIfAborted();
}

/**
 * A feed may bring only the fields that have changed. A record without fields that its stored state has is read alone,
 * where that is possible: it may as well have lost them.
 */
async function wholeAmong(
  { warehouse, owned, profile }: RunContext,
  records: readonly SourceRecord[],
): Promise<{ whole: SourceRecord[]; partial: string[] }> {
  const keyed = records.map((record) => ({ record, key: keyIn(record.value, profile) }));
  const keys = keyed.flatMap(({ key }) => (key === null ? [] : [key]));
  const bodies =
    profile.item === null ? new Map<string, string>() : await currentBodies(warehouse.own, owned.resource, keys);
  const lacks = (value: JsonValue, key: string | null): boolean => {
    const body = bodies.get(key ?? '');
    const stored = body === undefined ? null : parseJson(body);
    return isObject(stored) && isObject(value) && Object.keys(stored).some((name) => !Object.hasOwn(value, name));
  };
  const whole: SourceRecord[] = [];
  const partial: string[] = [];
  for (const { record, key } of keyed) {
    if (key !== null && tombstoneOf(record.value, profile) === null && lacks(record.value, key)) partial.push(key);
    else whole.push(record);
  }
  return { whole, partial };
}

function statementsOf(
  { warehouse: { own }, owned: { resource }, run, progress }: RunContext,
  { place, requestedAt }: FedPage,
  { keys, older, stated, lost }: PageFacts,
  counted: PageOutcome,
): CompiledQuery[] {
  const asked = timestampText(requestedAt);
  const doubted = new Set([...older, ...stated].map(({ key }) => key));
  const states = older.map(({ key, value }) => ({ record_id: key, hash: canonicalHash(value), sweeps: 0 }));
  return [
    ...forgetFed(
      own,
      resource,
      keys.filter((key) => !doubted.has(key)),
    ),
    ...suspectOlder(own, resource, states, asked),
    ...suspectStated(own, { resource, reason: 'stated', evidence_at: asked }, stated),
    ...suspectLost(own, resource, lost, asked),
    saveFeed(own, place),
    saveFigures(own, run, withPage(progress.figures, counted, progress.meter)),
  ];
}

/** Of a record that has no live row nothing is written. */
async function liveAmong({ warehouse, owned }: RunContext, gone: FeedChanges['gone']): Promise<FeedChanges['gone']> {
  const table = owned.shape?.tables[0];
  if (table === undefined || gone.length === 0) return [];
  const keys = gone.map(({ key }) => key);
  const rows = await warehouse.stored(table, keys, []);
  return gone.filter(({ key }) => rows.get(key)?.deletedAt === null);
}

async function loadNamed(context: RunContext, key: string): Promise<void> {
  const { warehouse, owned, proof, progress } = context;
  const reading = await readItem(context, key, 'incremental');
  if (!reading.isThere) {
    const [named] = await liveAmong(context, [{ key, at: reading.stated?.at ?? null }]);
    if (named === undefined) return;
    const reason = reading.stated === undefined ? 'told' : 'stated';
    const place = { resource: owned.resource, reason, evidence_at: timestampText(reading.requestedAt) } as const;
    await warehouse.apply(suspectStated(warehouse.own, place, [named]), owned.lease());
    return;
  }
  proof.at = Math.max(proof.at, reading.requestedAt);
  const doubt = await checkItemReading(context, key, reading.record, 'incremental');
  if (doubt !== null) {
    throw new SyncError('item_unproved', doubt.detail, {
      recovery: 'stop',
      hint: 'content-sync check compares records read alone with the listed ones',
    });
  }
  countRecords(progress, await loadRecord(context, key, reading, { acceptsOlder: true }));
}
