import type { Kysely } from 'kysely';
import { keyRecords } from '../../load/key-records.ts';
import type { SourceRecord } from '../../model/json.ts';
import type { KeptFile } from '../../settings/file-stores.ts';
import { countFiles } from '../../state/files/shown-files.ts';
import type { OwnTables } from '../../warehouse/own-tables.ts';
import { fileAddresses } from '../files/file-address.ts';
import type { RequestContext } from '../../checks/listing-walk.ts';
import type { FilesForecast } from './forecast.ts';

interface FilesSample {
  resource: string;
  files: readonly KeptFile[];
  /** Records in all; null if the service does not tell. */
  records: number | null;
  sample: readonly SourceRecord[];
  /** Null if there is no warehouse yet. */
  own: Kysely<OwnTables> | null;
}

/** What is left to fetch of the files of a resource; null if none are copied. */
export async function forecastFiles(
  context: Pick<RequestContext, 'profile' | 'listing'>,
  request: FilesSample,
): Promise<FilesForecast | null> {
  const { resource, files, own } = request;
  if (files.length === 0) return null;
  const known = own === null ? [] : (await countFiles(own)).filter((count) => count.resource === resource);
  const counts = known.map(({ status, files: count, bytes }) => ({ status, files: count, bytes }));
  return filesForecast(shownBy(context, request), counts, request.records);
}

/** What some records of a resource say of their files. */
export interface ShownFilesOf {
  records: number;
  files: number;
  /** Those whose size the record tells, and the sum of these sizes. */
  told: number;
  toldBytes: number;
}

function shownBy({ profile, listing }: Pick<RequestContext, 'profile' | 'listing'>, of: FilesSample): ShownFilesOf {
  const { keyed } = keyRecords(of.sample, profile);
  const found = keyed.flatMap(({ key, value }) => fileAddresses({ profile, listing }, of.files, key, value));
  const sizes = found.flatMap(({ declared }) => (declared.bytes === null ? [] : [declared.bytes]));
  const toldBytes = sizes.reduce((sum, bytes) => sum + bytes, 0);
  return {
    records: keyed.length,
    files: found.filter(({ fault }) => fault === null).length,
    told: sizes.length,
    toldBytes,
  };
}

type Counted = Pick<Awaited<ReturnType<typeof countFiles>>[number], 'status' | 'files' | 'bytes'>;

/** From what a page of records shows, and what is known of those that are copied. Pure. */
export function filesForecast(shown: ShownFilesOf, known: readonly Counted[], records: number | null): FilesForecast {
  const sum = (of: (count: Counted) => number): number => known.reduce((all, count) => all + of(count), 0);
  const waiting = sum(({ status, files }) => (status === 'waiting' || status === 'failed' ? files : 0));
  const all =
    records === 0 ? 0 : records === null || shown.records === 0 ? null : (shown.files / shown.records) * records;
  const requests = all === null ? null : Math.round(Math.max(0, all - sum(({ files }) => files)) + waiting);
  const stored = sum(({ status, files }) => (status === 'stored' ? files : 0));
  const storedBytes = sum(({ status, bytes }) => (status === 'stored' ? bytes : 0));
  const by = shown.told > 0 ? 'records' : stored > 0 ? 'stored' : null;
  const mean = by === 'records' ? shown.toldBytes / shown.told : by === 'stored' ? storedBytes / stored : null;
  const bytes = requests === 0 ? 0 : requests === null || mean === null ? null : Math.round(requests * mean);
  return { requests, bytes, by };
}
