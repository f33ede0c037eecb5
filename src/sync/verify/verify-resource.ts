import { SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import type { FilesSettings } from '../../settings/file-stores.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { readShapes } from '../../state/column-catalog.ts';
import { readForgotten, type PrivacyKey } from '../../state/forgotten.ts';
import { hasUncompared } from '../../source/field-settings.ts';
import { lastWalkBegan } from '../../state/runs.ts';
import { saveVerification } from '../../state/verifications.ts';
import type { Verdict, VerifyMode } from '../../warehouse/own-tables.ts';
import type { SourceContext } from '../resource-context.ts';
import { comparedShape } from './comparable-rows.ts';
import { checkFiles } from './check-structure.ts';
import { compareInternally, compareWithListing } from './compare-listing.ts';
import { Findings, type VerifyReport } from './report.ts';
import { readingContext } from './verify-context.ts';

export interface VerifyRequest {
  resource: string;
  /** `whole` compares the copy with the service, `internal` only with itself. */
  mode: VerifyMode;
  signal: AbortSignal;
}

export interface VerifySource extends SourceContext {
  /** The name of the source. */
  source: string;
  /** Identifies forgotten records. */
  privacy: PrivacyKey;
  files: FilesSettings;
}

/** The report of a verification, and what a repair needs of it. */
export interface Verification {
  report: VerifyReport;
  findings: Findings;
}

/**
 * Compares a resource of the copy with the service, or only with itself, and writes nothing but the report. Needs no
 * lease: other processes may write meanwhile. Throws `not_copied` if there is no copy, and what reading throws.
 */
export async function verifyResource(
  source: VerifySource,
  { resource, mode, signal }: VerifyRequest,
): Promise<Verification> {
  const { clock, warehouse } = source;
  const began = clock.now();
  const shape = (await readShapes(warehouse.own)).find((each) => each.resource === resource);
  if (shape === undefined) throw notCopied(resource);
  const copiedUntil = await readCopiedUntil(source, resource, mode);
  const forgotten = await readForgotten(warehouse.own, resource, source.privacy);
  const findings = new Findings();
  const reading = readingContext(source, { shape, forgotten }, signal);
  const { fields } = reading.profile;
  if (hasUncompared(fields)) findings.notCompared.add('fields with compare: false');
  const context = { ...reading, shape: comparedShape(shape, fields), findings, copiedUntil };
  const internal =
    mode === 'internal' ? await compareInternally(context).then(() => ({ listing: null, isComplete: true })) : null;
  const { listing, isComplete } = internal ?? (await compareWithListing(context));
  const files = await checkFiles(context, source.files);
  const verdict: Verdict =
    findings.count > 0 ? 'differs' : isComplete && findings.notJudged === 0 ? 'equal' : 'unproved';
  const ended = clock.now();
  const { requests } = context.meter;
  const report: VerifyReport = {
    id: source.runId,
    source: source.source,
    resource,
    mode,
    verdict,
    began_at: new Date(began).toISOString(),
    ended_at: new Date(ended).toISOString(),
    copied_until: Number.isFinite(copiedUntil) ? new Date(copiedUntil).toISOString() : null,
    requests,
    listing,
    files,
    ...findings.toReport(),
  };
  const row = {
    verification_id: report.id,
    resource,
    mode,
    verdict,
    requests,
    began_at: timestampText(began),
    ended_at: timestampText(ended),
    differences: findings.count,
    certificate: source.scrub(JSON.stringify(report)),
  };
  await warehouse.apply(await saveVerification(warehouse.own, row));
  return { report, findings };
}

/** The service's time of the last complete scan, or the local one if the service states no time. */
async function readCopiedUntil(
  { warehouse: { own } }: VerifySource,
  resource: string,
  mode: VerifyMode,
): Promise<number> {
  const checkpoint = await readCheckpoint(own, resource).catch((error: unknown) => {
    // The check of the structure reports it.
    if (mode === 'internal') return null;
    throw error;
  });
  const { checked_at = null, last_success_at = null, unproved_at = null, unproved_full_at = null } = checkpoint ?? {};
  const ended = last_success_at ?? unproved_at ?? unproved_full_at;
  if (ended === null && mode !== 'internal') throw notCopied(resource);
  if (ended === null) return Number.NEGATIVE_INFINITY;
  return timestampMs(checked_at ?? (await lastWalkBegan(own, resource, ended)) ?? ended);
}

function notCopied(resource: string): SyncError {
  return new SyncError('not_copied', `${resource} was never copied to its end: there is nothing to compare yet`, {
    recovery: 'stop',
    hint: `copy it first: content-sync backfill ${resource}`,
  });
}
