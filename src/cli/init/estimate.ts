import type { Probe } from '../../app.ts';
import { walk } from '../../extract/walk.ts';
import { newMeter } from '../../http/client.ts';
import type { Clock } from '../../model/clock.ts';
import { SyncError } from '../../model/errors.ts';
import { countText, durationText } from '../../observe/figures.ts';

/** What a backfill will take, as far as the first pages tell. */
export interface Estimate {
  resource: string;
  /** Records in all by the service's word; null if it does not say. */
  records: number | null;
  /** Requests for the listing; null if the number of records is not known. */
  requests: number | null;
  /** Bytes of one record on the first page, as the service writes it. */
  recordBytes: number;
}

/** Reads the first page of each resource. A resource that cannot be read is left out: `check` says why. */
export async function estimateBackfill(
  probe: Probe,
  { clock, signal }: { clock: Clock; signal: AbortSignal },
): Promise<Estimate[]> {
  const found: Estimate[] = [];
  for (const resource of probe.source.resources) {
    const profile = probe.source.profile.resources[resource];
    if (profile === undefined) continue;
    const { client, listing } = probe;
    const options = { client, listing, resource: profile, meter: newMeter(), signal, clock, runAhead: 0 };
    try {
      for await (const page of walk({ ...options, lane: 'incremental', acceptsEnd: true })) {
        const { records, total, next } = page;
        const known = next === null ? records.length : total;
        const bytes = records.reduce((sum, record) => sum + record.bytes.length, 0);
        const requests = known === null ? null : Math.max(1, Math.ceil(known / Math.max(1, records.length)));
        found.push({ resource, records: known, requests, recordBytes: bytes / Math.max(1, records.length) });
        break;
      }
    } catch (error) {
      if (!(error instanceof SyncError) || error.code === 'interrupted') throw error;
    }
  }
  return found;
}

/** Rows, their versions with the source's body, and indexes, against the bytes of the source: measured on blogs. */
const STORED_PER_SOURCE_BYTE = 2.5;
/** A round trip and the writing of a page, if the service states no limit. */
const SECONDS_PER_REQUEST = 0.5;

/** A line for a person. `perSecond`: requests that may be sent; null if the service states no limit. */
export function estimateText(estimates: readonly Estimate[], perSecond: number | null): string {
  const known = estimates.filter(({ records }) => records !== null);
  const records = known.reduce((sum, each) => sum + (each.records ?? 0), 0);
  const requests = known.reduce((sum, each) => sum + (each.requests ?? 0), 0);
  const bytes = known.reduce((sum, each) => sum + (each.records ?? 0) * each.recordBytes, 0) * STORED_PER_SOURCE_BYTE;
  const seconds = perSecond === null ? requests * SECONDS_PER_REQUEST : requests / perSecond;
  const unknown = estimates.filter((each) => each.records === null).map(({ resource }) => resource);
  const rest = unknown.length === 0 ? '' : `; how much there is of ${unknown.join(', ')} the service does not say`;
  const pace = perSecond === null ? '' : ' at the limit that the service states';
  return (
    `A backfill copies about ${countText(records)} records with ${countText(requests)} requests, ` +
    `takes about ${durationText(Math.max(1, seconds))}${pace}, and ${sizeText(bytes)} of disk${rest}.`
  );
}

function sizeText(bytes: number): string {
  return bytes < 1_048_576 ? 'less than 1 MB' : `about ${countText(Math.round(bytes / 1_048_576))} MB`;
}
