import { compareAlone, recordIn } from '../../checks/item.ts';
import { keyIn } from '../../checks/listing-walk.ts';
import type { OlderPolicy } from '../../load/difference.ts';
import { openPageLoader, type PageOutcome } from '../../load/page-loader.ts';
import { SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { Lane } from '../../model/vocabulary.ts';
import { updatedTime } from '../../rows/columns/updated-time.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import { sameJson } from '../../rows/records/fingerprint.ts';
import {
  addFieldKinds,
  differenceText,
  type FieldKinds,
  fieldKindsOf,
  unprovedField,
} from '../../rows/records/record-difference.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { forgetSuspects } from '../../database/state/suspects.ts';
import { currentBodies } from '../../database/state/versions.ts';
import type { ResourceContext } from '../resource-context.ts';
import { changedSince } from './ask-listing.ts';

/** Listed records that are read alone before a field counts as unproved. */
const CONTROLS = 3;
/** A path that was found to lead to other records is not tried again before. */
const FAULT_LASTS_MS = 600_000;

/** Why a reading is not accepted as the listed record. */
interface Doubt {
  detail: string;
}

/**
 * Returns null if a record that was read alone is what the listing would show, so that it may become a row. It is if it
 * equals the stored record, or if all of its fields, and those that the stored record has besides, were found to be the
 * same in the listing and alone. Otherwise the listing is asked: for this very record if there is a filter, else for
 * some that are then read alone. With `accept: [item]` every reading is accepted. Throws what reading throws.
 */
export async function checkItemReading(
  context: ResourceContext,
  key: string,
  record: SourceRecord,
  lane: Lane,
): Promise<Doubt | null> {
  const doubt = await doubtOf(context, key, record, lane);
  return context.profile.accept.includes('item') ? null : doubt;
}

/** Throws `item_unproved` if a record that was read alone may differ from what the listing would show. */
export async function refuseDoubtful(
  context: ResourceContext,
  key: string,
  { record, requestedAt }: FoundRecord,
  lane: Lane,
): Promise<void> {
  context.proof.at = Math.max(context.proof.at, requestedAt);
  const doubt = await checkItemReading(context, key, record, lane);
  if (doubt === null) return;
  throw new SyncError('item_unproved', doubt.detail, {
    recovery: 'stop',
    hint: 'content-sync check compares records read alone with the listed ones',
  });
}

async function doubtOf(context: ResourceContext, key: string, record: SourceRecord, lane: Lane): Promise<Doubt | null> {
  const { proof, clock, warehouse, owned } = context;
  const body = (await currentBodies(warehouse.own, owned.resource, [key])).get(key);
  const stored = body === undefined ? null : storedValue(body, context.profile);
  if (stored !== null && sameJson(stored, record.value)) {
    addFieldKinds(proof.fields, fieldKindsOf(record.value));
    return null;
  }
  const reading = fieldKindsOf(record.value);
  const known = stored === null ? null : fieldKindsOf(stored);
  const knownVerdict = (): Doubt | null | undefined => {
    const { fault, fields } = proof;
    if (fault !== null) return clock.now() - fault.at < FAULT_LASTS_MS ? fault : undefined;
    return unprovedField(fields, reading, known) === null ? null : undefined;
  };
  const soon = knownVerdict();
  if (soon !== undefined) return soon;
  return oneByOne(context, async () => knownVerdict() ?? prove(context, { key, record, reading, known }, lane));
}

/** Runs comparisons one after the other, whether or not the one before has failed. */
function oneByOne<T>({ proof }: ResourceContext, work: () => Promise<T>): Promise<T> {
  const next = proof.comparing.then(work, work);
  proof.comparing = next.catch(() => undefined);
  return next;
}

interface Question {
  key: string;
  record: SourceRecord;
  reading: FieldKinds;
  known: FieldKinds | null;
}

async function prove(context: ResourceContext, question: Question, lane: Lane): Promise<Doubt | null> {
  const { proof, profile, clock } = context;
  const { key, record, reading, known } = question;
  const { records, extraQuery } = await changedSince(
    context,
    { key, updated: updatedTime(record.value, profile)?.text ?? null },
    lane,
  );
  const own = recordIn(records, profile, key);
  for (const each of [...(own === undefined ? [] : [own]), ...controlsIn(records, profile, key)]) {
    const listed = { key: keyIn(each.value, profile) ?? '', listed: each.value };
    const found = await compareAlone(context, { lane, extraQuery }, listed, each === own ? record.value : undefined);
    if (found.is === 'other' || found.is === 'more') {
      const isMore = found.is === 'more';
      const what = isMore ? 'has further fields' : 'is not the listed one';
      const detail = `record ${listed.key} read alone ${what}: ${differenceText(found.differences)}`;
      proof.fault = { detail, isMore, at: clock.now() };
      return { detail };
    }
    if (found.is !== 'same') continue;
    proof.fault = null;
    addFieldKinds(proof.fields, fieldKindsOf(found.value));
    const isThisVeryReading = each === own && sameJson(found.value, record.value);
    if (isThisVeryReading || unprovedField(proof.fields, reading, known) === null) return null;
  }
  const field = unprovedField(proof.fields, reading, known);
  return {
    detail: `no listed record has shown that ${field ?? 'it'} is the same when it is read alone`,
  };
}

function controlsIn(records: readonly SourceRecord[], profile: ResourceProfile, key: string): SourceRecord[] {
  const others = records.filter(({ value }) => ![null, key].includes(keyIn(value, profile)));
  const chosen = [others.at(0), others.at(-1), others.at(others.length >> 1)].filter((each) => each !== undefined);
  return [...new Set(chosen)].slice(0, CONTROLS);
}

/** A record of the service, and when it was asked for (local epoch milliseconds). */
export interface FoundRecord {
  record: SourceRecord;
  requestedAt: number;
}

/** Loads one record like any other, and forgets that it was suspected to be gone. Throws what loading throws. */
export async function loadRecord(
  context: ResourceContext,
  key: string,
  { record, requestedAt }: FoundRecord,
  policy: OlderPolicy,
): Promise<PageOutcome> {
  const { warehouse, owned } = context;
  // Opened anew each time, because a walk may have changed the tables meanwhile; that costs one small query.
  const loader = await openPageLoader(context, policy);
  return loader.load({ records: [record], requestedAt }, () => forgetSuspects(warehouse.own, owned.resource, [key]));
}
