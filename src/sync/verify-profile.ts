// Verifies what the profile only assumes, by the results of a full scan. `content-sync init` marks what it has guessed as
// `unverified`. Example: after a full scan that saw as many records as the service counts, `page` counts as verified, and
// runs no longer warn of it. Also adds the masks of hidden fields to a profile when a source is opened (`maskedProfile`).
import { requestWithoutParameters } from '../checks/listing.ts';
import { withStoredNames } from '../config/profile/incremental.ts';
import type { Profile, ResourceProfile } from '../config/profile/profile.ts';
import type { RecordMask } from '../config/profile/record-fields.ts';
import type { CheckpointRow } from '../database/own-tables.ts';
import { readCheckpoint, saveCheckpoint } from '../database/state/checkpoints.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { fieldMask, hashKeyMark } from '../rows/mask-fields.ts';
import { canonicalHash } from '../rows/records/record-key.ts';
import { countUntimedRows } from './filter/filter-evidence.ts';
import type { RunContext } from './run-progress.ts';
import { listPartitions } from './scan/list-partitions.ts';
import type { FinishedScan } from './scan/scan-until-complete.ts';

/**
 * Called after a full scan that found no record while the copy is empty: a wrong parameter may hide all records, so the
 * listing is requested once more without parameters. If that shows records, throws `pagination_invalid`, and the
 * next run scans everything again. `before` is the checkpoint from before the scan.
 */
export async function verifyEmptyListing(context: RunContext, before: CheckpointRow): Promise<void> {
  const { profile, progress, warehouse, owned } = context;
  if (progress.figures.records > 0 || profile.windows !== null) return;
  const { partitions } = profile;
  const partition = partitions === null ? null : (await listPartitions(context, partitions, before)).values[0];
  if (partition === undefined) return;
  const unfiltered = await requestWithoutParameters({ ...context, partition });
  if (unfiltered.is === 'hidden') {
    const { last_full_at, last_success_at } = before;
    const stored = (await readCheckpoint(warehouse.own, owned.resource)) ?? before;
    const reset = { ...stored, cursor: null, cursor_key: null, cursor_seen_at: null, last_full_at, last_success_at };
    await owned.commit([saveCheckpoint(warehouse.own, reset)]);
    throw new SyncError('pagination_invalid', unfiltered.message, { recovery: 'stop', hint: unfiltered.hint });
  }
  if (unfiltered.is === 'filtered') {
    progress.warnings.push({ code: 'listing_filtered', message: unfiltered.message, hint: unfiltered.hint });
    return;
  }
  progress.warnings.push({
    code: 'listing_empty',
    message: `the service lists no record${unfiltered.is === 'empty' ? ', with its parameters and without' : ''}`,
    hint: 'an empty listing proves nothing: check that the credential may see this resource',
  });
}

/** Stores which unverified fields of the profile a full scan has verified. */
export async function storeVerifiedFields(context: RunContext, scan: FinishedScan): Promise<void> {
  const { profile, warehouse, owned } = context;
  const stored = profile.unverified.length === 0 ? null : await readCheckpoint(warehouse.own, owned.resource);
  if (stored === null || !scan.isComplete) return;
  const { records, rejected } = context.progress.figures;
  if (records === 0 || rejected > 0) return;
  const { end, evidence } = scan;
  // A reached total shows that pages are read correctly, even if there is only one; any other end only after several.
  const hasVerifiedPages = end.proof === 'total' || (end.proof !== null && end.proof !== 'whole' && evidence.pages > 1);
  const isVerified: Readonly<Record<string, boolean>> = {
    records: true,
    id: records > 1 && context.progress.conflicts.undecided === 0,
    page: hasVerifiedPages,
    updated: (await countUntimedRows(context)) === 0,
  };
  const verified = profile.unverified.filter((path) => isVerified[sectionOf(path)] === true).map(markFor(profile));
  const known = storedMarks(stored);
  if (verified.every((mark) => known.has(mark))) return;
  const marks = [...known.union(new Set(verified))];
  await owned.commit([saveCheckpoint(warehouse.own, { ...stored, verified: JSON.stringify(marks) })]);
}

/** Warns of fields of the profile that are still unverified. */
export async function warnOfUnverified({ profile, progress, warehouse, owned }: RunContext): Promise<void> {
  const { unverified } = profile;
  if (unverified.length === 0) return;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  const known = stored === null ? new Set() : storedMarks(stored);
  const guessed = unverified.filter((path) => !known.has(markFor(profile)(path)));
  if (guessed.length === 0) return;
  progress.warnings.push({
    code: 'profile_unverified',
    message: `the profile guesses ${guessed.join(', ')}, and no run has verified that`,
    hint: `a full scan that reaches the service's total verifies page; look at the others in the profile, and take what is right out of \`unverified\` of ${owned.resource}`,
  });
}

/** Returns the section of a field, such as `page` for `page.size`. */
function sectionOf(path: string): string {
  return path.split('.')[0] ?? '';
}

/** Marks a field as verified: its path and a hash of its section. If the section changes, it counts as unverified again. */
function markFor(profile: ResourceProfile): (path: string) => string {
  const { incremental, delete_feed } = profile;
  const sections: Readonly<Record<string, unknown>> = {
    ...profile,
    incremental: incremental && withStoredNames(incremental),
    delete_feed: delete_feed && withStoredNames(delete_feed),
  };
  return (path) =>
    `${path} ${canonicalHash(JSON.parse(JSON.stringify(sections[sectionOf(path)] ?? null))).slice(0, 16)}`;
}

/** Reads the marks of earlier runs (`markFor`). */
function storedMarks({ verified }: CheckpointRow): Set<string> {
  const marks: unknown = JSON.parse(verified ?? '[]');
  return new Set(Array.isArray(marks) ? marks.map(String) : []);
}

/** Adds to each resource the function that removes or hashes its hidden fields; `key` is the source's secret for hashes. */
export function maskedProfile(profile: Profile, key: string | undefined): Profile {
  const resources = Object.entries(profile.resources).map(([name, resource]): [string, ResourceProfile] => [
    name,
    resource.mask === null ? resource : { ...resource, mask: maskOf(resource, key) },
  ]);
  return { ...profile, resources: Object.fromEntries(resources) };
}

function maskOf({ fields }: ResourceProfile, key: string | undefined): RecordMask {
  if (!Object.values(fields).some(({ hash }) => hash)) return Object.assign(fieldMask(fields, ''), { mark: '' });
  if (key === undefined) {
    const hint = 'set hash_key of the source to a secret of its own, such as the output of: openssl rand -hex 32';
    throw new ConfigError('settings_invalid', 'the profile hashes fields, and the source has no hash_key', { hint });
  }
  return Object.assign(fieldMask(fields, key), { mark: hashKeyMark(key) });
}
