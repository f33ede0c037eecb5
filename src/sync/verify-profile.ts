// Verifies unverified fields of a profile by a full scan; and adds the mask of hidden fields to a profile.
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
import { partitionsOf } from './scan/resume-scan.ts';
import type { FinishedScan } from './scan/scan-until-complete.ts';

/**
 * After a full scan that found nothing for an empty copy: requests the listing once more without parameters. Throws
 * `parameters_hide_records` if that shows records; the next run scans everything again then. Warns if it is empty too.
 * `before` is the checkpoint from before the scan.
 */
export async function verifyEmptyListing(context: RunContext, before: CheckpointRow): Promise<void> {
  const { profile, progress, warehouse, owned } = context;
  if (progress.figures.records > 0 || profile.windows !== null) return;
  const { partitions } = profile;
  const partition = partitions === null ? null : (await partitionsOf(context, partitions, before)).values[0];
  if (partition === undefined) return;
  const bare = await requestWithoutParameters({ ...context, partition });
  if (bare.is === 'hidden') {
    const { last_full_at, last_success_at } = before;
    const stored = (await readCheckpoint(warehouse.own, owned.resource)) ?? before;
    const reset = { ...stored, cursor: null, cursor_key: null, cursor_seen_at: null, last_full_at, last_success_at };
    await owned.commit([saveCheckpoint(warehouse.own, reset)]);
    throw new SyncError('parameters_hide_records', bare.message, { recovery: 'stop', hint: bare.hint });
  }
  if (bare.is === 'filtered') {
    progress.warnings.push({ code: 'listing_filtered', message: bare.message, hint: bare.hint });
    return;
  }
  progress.warnings.push({
    code: 'listing_empty',
    message: `the service lists no record${bare.is === 'empty' ? ', with its parameters and without' : ''}`,
    hint: 'an empty listing proves nothing: check that the credential may see this resource',
  });
}

/** Stores which unverified fields of the profile a full scan has verified. */
export async function noteVerified(context: RunContext, scan: FinishedScan): Promise<void> {
  const { profile, warehouse, owned } = context;
  const stored = profile.unverified.length === 0 ? null : await readCheckpoint(warehouse.own, owned.resource);
  if (stored === null || !scan.isComplete) return;
  const { records, rejected } = context.progress.figures;
  if (records === 0 || rejected > 0) return;
  const { end, evidence } = scan;
  // A total verifies how pages are read; any other proof only if there were several.
  const hasPages = end.proof === 'total' || (end.proof !== null && end.proof !== 'whole' && evidence.pages > 1);
  const verified: Readonly<Record<string, boolean>> = {
    records: true,
    id: records > 1 && context.progress.conflicts.undecided === 0,
    page: hasPages,
    updated: (await countUntimedRows(context)) === 0,
  };
  const found = profile.unverified.filter((path) => verified[sectionOf(path)] === true).map(markFor(profile));
  const known = verifiedMarks(stored);
  if (found.every((mark) => known.has(mark))) return;
  const marks = [...known.union(new Set(found))];
  await owned.commit([saveCheckpoint(warehouse.own, { ...stored, verified: JSON.stringify(marks) })]);
}

/** Warns of fields of the profile that `init` has guessed and no run has verified. */
export async function warnOfUnverified({ profile, progress, warehouse, owned }: RunContext): Promise<void> {
  const { unverified } = profile;
  if (unverified.length === 0) return;
  const stored = await readCheckpoint(warehouse.own, owned.resource);
  const known = stored === null ? new Set() : verifiedMarks(stored);
  const guessed = unverified.filter((path) => !known.has(markFor(profile)(path)));
  if (guessed.length === 0) return;
  progress.warnings.push({
    code: 'profile_unverified',
    message: `the profile guesses ${guessed.join(', ')}, and no run has verified that`,
    hint: `a full scan that reaches the service's total verifies page; look at the others in the profile, and take what is right out of \`unverified\` of ${owned.resource}`,
  });
}

/** `page` of `page.size`. */
function sectionOf(path: string): string {
  return path.split('.')[0] ?? '';
}

/** The path and its section as it was verified: another value is not. */
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

/** What earlier runs have verified, as `markFor` writes it. */
function verifiedMarks({ verified }: CheckpointRow): Set<string> {
  const marks: unknown = JSON.parse(verified ?? '[]');
  return new Set(Array.isArray(marks) ? marks.map(String) : []);
}

/** The profile with what hides its fields; `key` is the source's secret for hashes. */
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
