import PQueue from 'p-queue';
import { readItem, type ItemReading } from '../../extract/read-item.ts';
import { DeferredError, SyncError } from '../../model/errors.ts';
import type { SourceRecord } from '../../model/json.ts';
import { timestampMs } from '../../model/timestamp-text.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { forgetSuspects, holdOpen, readSuspects } from '../../state/suspects.ts';
import type { SuspectRow } from '../../warehouse/own-tables.ts';
import { softDeleteWatched, watching } from './soft-delete-gone.ts';
import { settleByWalks } from './confirm-by-walks.ts';
import type { DeleteContext } from '../resource-context.ts';
import type { Gone } from './corroborate.ts';
import { checkItemReading } from '../item/check-reading.ts';
import type { PageLoader, PageOutcome } from '../../load/page-loader.ts';

/** What settling suspects needs. */
export interface SettleContext extends DeleteContext {
  /** A loader that believes that a record is back. */
  loader: () => Promise<PageLoader>;
  /** Told of every record that proved to be there. */
  loaded: (outcome: PageOutcome) => void;
}

/** What came of suspects. */
export interface Settled {
  deleted: number;
  /** What kept some from being looked at; they stay as they are. */
  trouble: SyncError | null;
}

/** Items that one run reads at most: what is left waits for the next one. */
const READS_PER_RUN = 2_000;
/** What is read before anything is decided: small, so that a reading is not old by then. */
const READS_PER_STEP = 20;
const READS_AT_ONCE = 4;
/** So many that fail one after the other say that the next would fail as well. */
const FAILURES = 3;

/** One suspect and what the service said of it. */
interface Look {
  suspect: SuspectRow;
  answer: ItemReading | { error: SyncError };
}

/**
 * Reads suspects alone: those that are gone become deleted rows, those that are there are loaded like any other record.
 * What cannot be read stays as it is. Where records cannot be read alone, whole walks decide. Throws `DeferredError`,
 * the signal's reason and what the warehouse throws, with everything until then in place.
 */
export async function settleSuspects(
  context: SettleContext,
  states: readonly ('open' | 'released')[],
): Promise<Settled> {
  const { warehouse, owned, profile, credential } = context;
  const known = (await readCheckpoint(warehouse.own, owned.resource))?.full_credential ?? credential;
  const allowed = states.filter((state) => state === 'released' || known === credential);
  if (profile.item === null) return { deleted: await settleByWalks(context, allowed), trouble: null };
  const suspects = await readSuspects(warehouse.own, owned.resource, allowed, READS_PER_RUN);
  const settled: Settled = { deleted: 0, trouble: null };
  for (let at = 0; at < suspects.length; at += READS_PER_STEP) {
    const step = await settleStep(context, suspects.slice(at, at + READS_PER_STEP));
    settled.deleted += step.deleted;
    settled.trouble ??= step.trouble;
    if (step.isHopeless) return settled;
  }
  return settled;
}

async function settleStep(
  context: SettleContext,
  suspects: readonly SuspectRow[],
): Promise<Settled & { isHopeless: boolean }> {
  const keys = suspects.map(keyOf);
  return watching(context.owned, keys, async (watch) => {
    const { looks, ends } = await lookAt(context, suspects);
    const troubles = looks.flatMap(({ answer }) => ('error' in answer ? [answer.error] : []));
    for (const look of looks) await keepAlive(context, look);
    const settled = { deleted: 0, trouble: troubles[0] ?? null };
    let doubt: string | null = null;
    for (const { chosen, ...belief } of sortedLooks(looks)) {
      const outcome = await softDeleteWatched(context, chosen.flatMap(goneIn), { reason: 'missing', ...belief, watch });
      for (const listed of outcome.listed) await load(context, listed.key, listed);
      settled.deleted += outcome.deleted.length;
      doubt ??= outcome.doubt;
    }
    if (doubt !== null) await holdRest(context, doubt);
    if (ends.length > 0) throw ends[0];
    return { ...settled, isHopeless: doubt !== null || troubles.length >= FAILURES };
  });
}

/** By what is known of them besides. Those that are listed in an older state are listed, and so are not gone. */
function sortedLooks(looks: readonly Look[]) {
  const suspected = looks.filter(({ suspect }) => suspect.reason !== 'older');
  const open = suspected.filter(({ suspect }) => suspect.state !== 'released');
  const released = suspected.filter(({ suspect }) => suspect.state === 'released');
  return [
    { chosen: released, witness: 'walked', isReleased: true },
    { chosen: open.filter(({ suspect }) => suspect.sweeps > 0), witness: 'walked', isReleased: false },
    { chosen: open.filter(({ suspect }) => suspect.sweeps === 0), witness: 'untold', isReleased: false },
  ] as const;
}

/** What was read, and what ended the reading; both, because what was read before that counts. */
async function lookAt(context: SettleContext, suspects: readonly SuspectRow[]) {
  const queue = new PQueue({ concurrency: READS_AT_ONCE });
  const looks: Look[] = [];
  const ends: unknown[] = [];
  const look = async (suspect: SuspectRow): Promise<void> => {
    if (ends.length > 0) return;
    try {
      looks.push({ suspect, answer: await readBelieved(context, suspect.record_id) });
    } catch (error) {
      if (isPassing(error)) looks.push({ suspect, answer: { error } });
      else ends.push(error);
    }
  };
  await queue.addAll(suspects.map((suspect) => () => look(suspect)));
  return { looks, ends };
}

/** Throws `item_unproved` where the record is there and may be another one than the listing would show. */
async function readBelieved(context: SettleContext, key: string): Promise<ItemReading> {
  const { proof } = context;
  const reading = await readItem(context.item, key, 'bulk');
  if (!reading.isThere) return reading;
  proof.at = Math.max(proof.at, reading.requestedAt);
  const doubt = await checkItemReading(context, key, reading.record, 'bulk');
  if (doubt === null) return reading;
  throw new SyncError('item_unproved', doubt.detail, {
    recovery: 'stop',
    hint: 'content-sync check compares records read alone with the listed ones',
  });
}

/** An error that only concerns this reading. */
function isPassing(error: unknown): error is SyncError {
  return error instanceof SyncError && !(error instanceof DeferredError) && error.code !== 'interrupted';
}

async function keepAlive(context: SettleContext, { suspect, answer }: Look): Promise<void> {
  if (!('error' in answer) && answer.isThere) await load(context, suspect.record_id, answer);
}

async function load(
  context: SettleContext,
  key: string,
  { record, requestedAt }: { record: SourceRecord; requestedAt: number },
): Promise<void> {
  const { warehouse, owned } = context;
  const loader = await context.loader();
  const page = { records: [record], requestedAt };
  context.loaded(await loader.load(page, () => forgetSuspects(warehouse.own, owned.resource, [key])));
}

function goneIn({ suspect, answer }: Look): Gone[] {
  if ('isThere' in answer) {
    return answer.isThere ? [] : [{ key: suspect.record_id, confirmedAt: answer.requestedAt }];
  }
  // It has no path of its own and can never be read: then a person's word is all there is.
  const isWord = suspect.state === 'released' && answer.error.recovery === 'skip';
  return isWord ? [{ key: suspect.record_id, confirmedAt: timestampMs(suspect.evidence_at) }] : [];
}

/** The path of single records leads nowhere: whatever else waits would be misread. */
async function holdRest({ warehouse, owned }: SettleContext, detail: string): Promise<void> {
  await warehouse.apply([holdOpen(warehouse.own, owned.resource, detail)], owned.lease());
}

function keyOf({ record_id }: SuspectRow): string {
  return record_id;
}
