import type { Kysely } from 'kysely';
import { ConfigError, DeferredError } from '../../model/errors.ts';
import type { ResourceShape } from '../../model/table.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { readShapes } from '../../state/column-catalog.ts';
import type { KeptFile } from '../../settings/file-stores.ts';
import type { ReportWindows } from '../../source/report-windows.ts';
import type { StorageCosts } from '../../warehouse/database.ts';
import type { CheckpointRow, OwnTables } from '../../warehouse/own-tables.ts';
import { fingerprintOf, planWalk, type SyncCommand, type WalkPlan } from '../plan.ts';
import type { RequestContext } from '../../checks/listing-walk.ts';
import { forecastFiles } from './files-forecast.ts';
import { sizeOfReports } from './size-of-reports.ts';
import { sizeOfListing, type ListingSize } from './first-pages.ts';
import type { ResourceForecast, WalkForecast } from './forecast.ts';
import { sizeOfCopy } from './size-of-copy.ts';

export interface ForecastRequest {
  command: SyncCommand;
  resource: string;
  /** In use, as a hash. */
  credential: string;
  /** What is remembered; null if there is no warehouse yet. */
  own: Kysely<OwnTables> | null;
  costs: StorageCosts;
  /** Files of its records that are copied too. */
  files: readonly KeptFile[];
}

/** What the next run will do to a resource: asks for one page of each listing, and writes nothing. Throws what asking throws. */
export async function forecastResource(context: RequestContext, request: ForecastRequest): Promise<ResourceForecast> {
  const { profile } = context;
  const { own, resource, costs } = request;
  const stored = own === null ? null : await readCheckpoint(own, resource);
  const shape = own === null ? null : ((await readShapes(own)).find((each) => each.resource === resource) ?? null);
  const notes: string[] = [];
  const planned = await howWalked(context, request, stored, notes);
  const { plan } = planned;
  if (profile.windows !== null) return forecastReports(context, profile.windows, request, { planned, shape, notes });
  const whole = await sizeOfListing(context, null);
  const isFiltered = plan?.mode === 'incremental' && plan.checkpoint.walk_since !== null;
  const asked = isFiltered ? await sizeOfListing(context, plan.checkpoint.walk_since) : whole;
  const isByFeed = plan?.mode === 'incremental' && !isFiltered;
  const walk = isByFeed ? unknownWalk('incremental') : walkOf(plan?.mode ?? 'full', asked, left(plan, asked));
  if (isByFeed) notes.push('it follows a feed of changes, which tells no total');
  if (whole.why !== null) notes.push(`how much there is, is not known: ${whole.why}`);
  const sampled = { resource, records: whole.records, sample: whole.sample, stored: shape };
  const { copy, columns } = sizeOfCopy(profile, sampled, costs);
  return {
    resource,
    walk,
    whole: walkOf('full', whole, 1),
    copy,
    files: await forecastFiles(context, { ...request, records: whole.records, sample: whole.sample }),
    notes,
    columns: isSeen(shape) ? columns : [],
    is_refused: planned.isRefused,
  };
}

/** The same of reports, of which it is known which windows are asked for. */
async function forecastReports(
  context: RequestContext,
  windows: ReportWindows,
  request: ForecastRequest,
  {
    planned,
    shape,
    notes,
  }: { planned: Awaited<ReturnType<typeof howWalked>>; shape: ResourceShape | null; notes: string[] },
): Promise<ResourceForecast> {
  const { own, resource, costs } = request;
  const mode = planned.plan?.mode ?? 'full';
  const asked = { own, resource, mode, checkpoint: planned.plan?.checkpoint ?? null };
  const { next, whole, note } = await sizeOfReports(context, windows, asked);
  const { copy, columns } = sizeOfCopy(
    context.profile,
    { resource, records: whole.records, sample: whole.sample, stored: shape },
    costs,
  );
  return {
    resource,
    walk: walkOf(mode, next, 1),
    whole: walkOf('full', whole, 1),
    copy,
    files: await forecastFiles(context, { ...request, records: whole.records, sample: whole.sample }),
    notes: [...notes, note],
    columns: isSeen(shape) ? columns : [],
    is_refused: planned.isRefused,
  };
}

function isSeen(shape: ResourceShape | null): boolean {
  return shape !== null && shape.tables.some(({ columns }) => columns.length > 0);
}

/** How the next run walks, by the very rule that it follows. */
async function howWalked(
  { profile, clock }: RequestContext,
  { command, resource, credential, own }: ForecastRequest,
  stored: CheckpointRow | null,
  notes: string[],
): Promise<{ plan: WalkPlan | null; isRefused: boolean }> {
  const isFed = own !== null && profile.feed !== null && (await hasPlace(own, resource));
  const input = { command, resource, profile, restart: false, interrupted: null, credential, isFed, now: clock.now() };
  try {
    const plan = planWalk({ ...input, stored });
    notes.push(...reasons(plan, stored, input));
    return { plan, isRefused: false };
  } catch (error) {
    if (error instanceof DeferredError) {
      notes.push(error.message);
      return {
        plan: planWalk({ ...input, stored: stored === null ? null : { ...stored, due_at: null } }),
        isRefused: false,
      };
    }
    if (!(error instanceof ConfigError) || error.code !== 'profile_changed') throw error;
    notes.push(`it is refused: ${error.message}; with backfill --restart it is copied anew`);
    return { plan: null, isRefused: true };
  }
}

async function hasPlace(own: Kysely<OwnTables>, resource: string): Promise<boolean> {
  const feeds = own.selectFrom('_sync_feeds').select('cursor').where('resource', '=', resource);
  const rows = await feeds.where('feed', '=', 'changes').execute();
  return rows.some(({ cursor }) => cursor !== null);
}

function reasons(
  { mode, resumed }: WalkPlan,
  stored: CheckpointRow | null,
  { command, credential, profile }: Pick<Parameters<typeof planWalk>[0], 'command' | 'credential' | 'profile'>,
): string[] {
  if (stored === null) return ['it was never copied: all of it is read'];
  const found: string[] = [];
  if (resumed)
    found.push(`it goes on behind ${stored.walk_pages} pages and ${stored.walk_records} records of an unfinished walk`);
  const isCutAnew = stored.fingerprint !== fingerprintOf(profile);
  if (isCutAnew) found.push('pages are cut in another way than before: an unfinished walk begins again');
  if (mode === 'full' && command === 'sync' && !resumed) {
    if (profile.incremental === null && profile.feed === null)
      found.push('the profile names no filter by time: all of it is read');
    else if (stored.last_full_at === null) found.push('it was never copied whole: all of it is read');
    else if ((stored.full_credential ?? credential) !== credential)
      found.push('the credential is another one than that of the last whole walk: all of it is read');
  }
  return found;
}

/** The part of the walk that is still to come. */
function left(plan: WalkPlan | null, { records }: ListingSize): number {
  if (plan === null || !plan.resumed || records === null || records === 0) return 1;
  return Math.max(0, records - plan.checkpoint.walk_records) / records;
}

function walkOf(mode: WalkForecast['mode'], { records, pages, recordBytes }: ListingSize, part: number): WalkForecast {
  return {
    mode,
    records: records === null ? null : Math.round(records * part),
    requests: pages === null ? null : Math.max(1, Math.ceil(pages * part)),
    transfer_bytes:
      records === null || recordBytes === null ? (records === 0 ? 0 : null) : Math.round(records * part * recordBytes),
  };
}

function unknownWalk(mode: WalkForecast['mode']): WalkForecast {
  return { mode, records: null, requests: null, transfer_bytes: null };
}
