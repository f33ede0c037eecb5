import { readItem } from '../../extract/read-item.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import { storedValue } from '../../shape/records/as-record.ts';
import { comparedPart } from '../../shape/mask-fields.ts';
import { canonicalHash } from '../../shape/records/fingerprint.ts';
import { recordDifferences } from '../../shape/records/record-difference.ts';
import { inParts } from '../../state/in-parts.ts';
import { currentBodies } from '../../state/versions.ts';
import type { SnapshotReader } from '../../warehouse/snapshot-reader.ts';
import { checkItemReading } from '../item/check-reading.ts';
import type { Difference } from './certificate.ts';
import { expectedCells } from './expected-rows.ts';
import { changedSince, dated, listedAgain, storedRows } from './read-listing.ts';
import { cellsByField, differingFields } from './spelled-rows.ts';
import { storedRecord } from './stored-records.ts';
import type { VerifyContext } from './verify-context.ts';

/** What seems to be wrong with a record. `drawn`: nothing, it was only chosen to be looked at. */
export type Suspicion = 'missing' | 'extra' | 'other' | 'drawn';

/** A record as the service has it now: null if it has none; undefined if it cannot be read. */
type Reading = SourceRecord | null | undefined;

/** What a look at one record has shown. */
export type Judgement = 'equal' | 'since' | 'aside' | 'unjudged' | Difference;

/** Records read again at most; more than that are no accident, and are told as they were found. */
const MOST_READ = 500;
/** Records read before the copy is looked at: few, so that both are of one moment. */
const READS_PER_STEP = 20;

/**
 * Looks again at records that seem to differ: reads each alone, or all of them in the listing where they cannot be, and
 * then the copy as it is by now. Adds what is left to the findings. `extraAtStart`: see `ListedResource`.
 */
export async function judgeSuspects(
  context: VerifyContext,
  suspects: ReadonlyMap<string, Suspicion>,
  extraAtStart: number | null,
): Promise<void> {
  const { findings } = context;
  const all = [...suspects].map(([key, suspicion]) => ({ key, suspicion }));
  const gone: Difference[] = [];
  for await (const { key, suspicion, judgement } of judged(context, all.slice(0, MOST_READ))) {
    if (judgement === 'since') findings.changedSince(key);
    else if (judgement === 'aside') findings.setAside += 1;
    else if (judgement === 'unjudged') {
      if (suspicion === 'drawn') findings.notJudged += 1;
      else if (suspicion !== 'extra') findings.add({ kind: suspicion, id: key, detail: 'by its listing' });
    } else if (judgement !== 'equal' && judgement.kind === 'extra') gone.push(judgement);
    else if (judgement !== 'equal') findings.add(judgement);
  }
  // With as many rows as records at the beginning, and each record with its row, those that are gone went meanwhile.
  for (const difference of gone) {
    if (extraAtStart !== null && extraAtStart <= 0) findings.changedSince(difference.id ?? '');
    else findings.add(difference);
  }
  for (const { key, suspicion } of all.slice(MOST_READ)) {
    if (suspicion !== 'drawn') findings.add({ kind: suspicion, id: key, detail: 'not read again: there are too many' });
  }
}

interface Suspect {
  key: string;
  suspicion: Suspicion;
}

/** Reads them at the service, unless they were read already, and compares each with the copy. */
export async function* judged(
  context: VerifyContext,
  suspects: readonly Suspect[],
  read: ReadonlyMap<string, SourceRecord> | null = null,
): AsyncGenerator<Suspect & { judgement: Judgement }> {
  const { profile, signal } = context;
  const isAlone = read === null && profile.item !== null;
  const whole = isAlone ? null : (read ?? (await listedAgain(context, new Set(suspects.map(({ key }) => key)))));
  for (const part of inParts(suspects, READS_PER_STEP)) {
    const readings = new Map<string, Reading>();
    for (const { key } of part) {
      signal.throwIfAborted();
      readings.set(key, whole === null ? await readAlone(context, key) : (whole.get(key) ?? null));
    }
    const snapshot = await context.warehouse.snapshot();
    try {
      for (const suspect of part) {
        const judgement = await judge(context, snapshot, suspect, readings.get(suspect.key));
        yield { ...suspect, judgement };
      }
    } finally {
      await snapshot.close();
    }
  }
}

async function readAlone(context: VerifyContext, key: string): Promise<Reading> {
  try {
    const reading = await readItem(context, key, 'bulk');
    return reading.isThere ? reading.record : null;
  } catch (error) {
    const isAlone = error instanceof SyncError && (error.recovery === 'skip' || error.code.startsWith('item_'));
    if (!isAlone) throw error;
    return undefined;
  }
}

async function judge(
  context: VerifyContext,
  snapshot: SnapshotReader,
  { key, suspicion }: Suspect,
  reading: Reading,
): Promise<Judgement> {
  const { shape, profile } = context;
  if (reading === undefined) return 'unjudged';
  const found = await storedRecord(snapshot, shape, key);
  const isLive = found !== null && !found.record.isDeleted;
  if (reading === null) {
    if (!isLive) return 'equal';
    // It was listed a moment ago.
    return suspicion === 'missing' || suspicion === 'other' ? 'since' : { kind: 'extra', id: key };
  }
  const value = comparedPart(profile.fields)(reading.value);
  const cells = expectedCells(shape, profile, { key, value, bytes: reading.bytes });
  if (cells === null) return 'aside';
  const row = (await storedRows(context, [{ key }])).get(key);
  if (!isLive) return changedSince(context, dated(reading, context), row) ? 'since' : { kind: 'missing', id: key };
  const fields = differingFields(cells, cellsByField(shape, found.rows));
  const body = await storedBody(context, snapshot, key);
  const isSameBody = (body === undefined ? found.record.hash : canonicalHash(body)) === canonicalHash(value);
  if (fields.length === 0 && isSameBody) return 'equal';
  if (changedSince(context, dated(reading, context), row)) return 'since';
  const doubt = profile.item === null ? null : await checkItemReading(context, key, reading, 'bulk');
  if (doubt !== null) return 'unjudged';
  if (fields.length > 0) return { kind: 'other', id: key, fields };
  const paths = body === undefined ? [] : recordDifferences(body, value).map(({ path }) => path);
  return { kind: 'body', id: key, ...(paths.length === 0 ? {} : { fields: paths }) };
}

/** Undefined where none is kept: the row's fingerprint stands for it. */
async function storedBody({ profile, shape }: VerifyContext, { own }: SnapshotReader, key: string) {
  if (profile.history === 'none') return undefined;
  const body = (await currentBodies(own, shape.resource, [key])).get(key);
  return body === undefined ? null : comparedPart(profile.fields)(storedValue(body, profile));
}
