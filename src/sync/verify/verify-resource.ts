import { SyncError } from '../../model/errors.ts';
import { timestampMs, timestampText } from '../../model/timestamp-text.ts';
import { readCheckpoint } from '../../state/checkpoints.ts';
import { readShapes } from '../../state/column-catalog.ts';
import { readForgotten, type PrivacyKey } from '../../state/forgotten.ts';
import { hasUncompared } from '../../source/field-settings.ts';
import type { FilesSettings } from '../../settings/file-stores.ts';
import { lastWalkBegan } from '../../state/runs.ts';
import { saveVerification } from '../../state/verifications.ts';
import type { Verdict, VerifyMode } from '../../warehouse/verification-row.ts';
import { fingerprintOf } from '../plan.ts';
import type { SourceContext } from '../resource-context.ts';
import { Findings, type Certificate, type ListingAccount, type SampleAccount } from './certificate.ts';
import { comparedShape } from './expected-rows.ts';
import { checkFiles } from './check-files.ts';
import { readingContext, type VerifyContext } from './verify-context.ts';
import { verifySample } from './verify-sample.ts';
import { verifyInternal, verifyWhole } from './verify-whole.ts';

export interface VerifyRequest {
  resource: string;
  mode: VerifyMode;
  /** Of a sample. */
  count: number;
  seed: number;
  signal: AbortSignal;
}

/** One source, as verifying needs it. */
export interface VerifySource extends SourceContext {
  /** Its name. */
  source: string;
  /** Of this program. */
  version: string;
  /** By which forgotten records are known. */
  privacy: PrivacyKey;
  /** Which files are kept, and where. */
  files: FilesSettings;
}

/** A verification's certificate, and what a repair would begin with. */
export interface Verification {
  certificate: Certificate;
  findings: Findings;
}

/**
 * Compares a resource of the copy with the service, or with itself, and writes nothing but the certificate. Needs no
 * lease: others may write meanwhile. Throws `not_copied` if there is nothing to compare, and what reading throws.
 */
export async function verifyResource(source: VerifySource, request: VerifyRequest): Promise<Verification> {
  const { clock, warehouse } = source;
  const began = clock.now();
  const context = await openContext(source, request);
  const { findings } = context;
  const found = await compare(context, request);
  const files = await checkFiles(context, source.files, request.seed);
  const verdict: Verdict = findings.count > 0 ? 'differs' : found.isProved ? 'equal' : 'unproved';
  const { profile, shape, meter, copiedUntil } = context;
  const certificate: Certificate = {
    id: source.runId,
    source: source.source,
    resource: shape.resource,
    mode: request.mode,
    verdict,
    began_at: new Date(began).toISOString(),
    ended_at: new Date(clock.now()).toISOString(),
    version: source.version,
    profile: fingerprintOf(profile),
    copied_until: Number.isFinite(copiedUntil) ? new Date(copiedUntil).toISOString() : null,
    requests: meter.requests,
    listing: found.listing,
    sample: found.sample,
    files,
    ...findings.summary,
  };
  const row = {
    verification_id: certificate.id,
    resource: certificate.resource,
    mode: request.mode,
    verdict,
    began_at: timestampText(began),
    ended_at: timestampText(clock.now()),
    differences: findings.count,
    requests: meter.requests,
    certificate: source.scrub(JSON.stringify(certificate)),
  };
  await warehouse.apply(await saveVerification(warehouse.own, row));
  return { certificate, findings };
}

interface Found {
  listing: ListingAccount | null;
  sample: SampleAccount | null;
  isProved: boolean;
}

/** What each way of comparing does. */
const COMPARE: Readonly<Record<VerifyMode, (context: VerifyContext, request: VerifyRequest) => Promise<Found>>> = {
  whole: async (context) => ({ ...(await verifyWhole(context)), sample: null }),
  sample: async (context, { count, seed }) => {
    const sample = await verifySample(context, { count, seed });
    return { listing: null, sample, isProved: sample.at_most_percent !== null };
  },
  internal: async (context) => {
    await verifyInternal(context);
    return { listing: null, sample: null, isProved: true };
  },
};

function compare(context: VerifyContext, request: VerifyRequest): Promise<Found> {
  return COMPARE[request.mode](context, request);
}

async function openContext(source: VerifySource, { resource, mode, signal }: VerifyRequest): Promise<VerifyContext> {
  const { warehouse } = source;
  const shape = (await readShapes(warehouse.own)).find((each) => each.resource === resource);
  if (shape === undefined) throw notCopied(resource);
  const copiedUntil = await lastCopied(source, resource, mode);
  const forgotten = await readForgotten(warehouse.own, resource, source.privacy);
  const context = readingContext(source, { shape, forgotten }, signal);
  const { fields } = context.profile;
  const findings = new Findings();
  if (hasUncompared(fields)) findings.notCompared.push('fields with compare: false');
  return { ...context, shape: comparedShape(shape, fields), findings, copiedUntil };
}

/** By the service's clock where it tells, else by ours. */
async function lastCopied({ warehouse: { own } }: VerifySource, resource: string, mode: VerifyMode): Promise<number> {
  const checkpoint = await readCheckpoint(own, resource).catch((error: unknown) => {
    // A comparison of the copy with itself tells of that.
    if (mode === 'internal') return null;
    throw error;
  });
  const { checked_at = null, last_success_at = null, unproved_at = null, unproved_full_at = null } = checkpoint ?? {};
  const ended = last_success_at ?? unproved_at ?? unproved_full_at;
  if (ended === null && mode !== 'internal') throw notCopied(resource);
  const began = ended === null ? null : (checked_at ?? (await lastWalkBegan(own, resource, ended)) ?? ended);
  return began === null ? Number.NEGATIVE_INFINITY : timestampMs(began);
}

function notCopied(resource: string): SyncError {
  return new SyncError('not_copied', `${resource} was never copied to its end: there is nothing to compare yet`, {
    recovery: 'stop',
    hint: `copy it first: content-sync backfill ${resource}`,
  });
}
