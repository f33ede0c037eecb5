// Downloads all files of some resources that are due: new or changed ones, and those that failed before. An origin that keeps
// failing, such as a CDN that is down, is left out until the next pass.
import pMap from 'p-map';
import type { FileRow } from '../../database/own-tables.ts';
import { readStoredObjects, saveObject } from '../../database/state/file-contents.ts';
import { countFiles, fileKeyText, FILES_LEASE, readDueFiles } from '../../database/state/files.ts';
import { acquireLease, type Lease } from '../../database/state/leases.ts';
import { currentBodies } from '../../database/state/versions.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import { newMeter } from '../../http/client.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import type { FilesFigures, Warning } from '../report.ts';
import { markDueFiles } from './due-files.ts';
import { type DueFile, fetchFile, type FilesContext } from './fetch-file.ts';
import { type FileAddress, fileAddresses } from './file-address.ts';
import { type FetchedFile, saveOutcome, toObjectRow } from './file-changes.ts';

export interface FilesRequest {
  resources: readonly string[];
  signal: AbortSignal;
  /** Called after the outcome of a file was committed. */
  saved?: ((file: FetchedFile) => void) | undefined;
}

export interface FilesReport {
  resource: string;
  figures: FilesFigures;
  warnings: Warning[];
}

/**
 * Finds the files that are due and fetches them; those that fail wait for a later pass. Throws `lease_held` if another process
 * does it, `file_store_full` if there is no room for more, the signal's reason, and what the warehouse throws; what was
 * fetched until then is stored.
 */
export async function fetchFiles(context: FilesContext, request: FilesRequest): Promise<FilesReport[]> {
  const { warehouse, clock, settings } = context;
  const resources = request.resources.filter((resource) => settings.kept[resource] !== undefined);
  if (resources.length === 0) return [];
  const lease = await acquireLease(warehouse, FILES_LEASE, clock);
  try {
    for (const resource of resources) await markDueFiles({ ...context, lease, signal: request.signal }, resource);
    const pass = new FetchPass(context, request, lease);
    for (const resource of resources) await pass.fetchAll(resource);
    const stopped = Array.from(pass.closedOrigins, ([origin, reason]) => `${origin}: ${reason}`);
    return await reportFiles(warehouse, resources, stopped, pass.counts);
  } finally {
    await lease.release();
  }
}

/** Files in progress: the rate limiter decides how many are requested; the others are written or wait for it. */
const MAX_PARALLEL_FILES = 16;
/** After this many failures in a row, the other files of an origin wait for a later pass. */
const MAX_FAILURES_IN_A_ROW = 10;
/** Errors that are not about the origin of the file. */
const RUN_ERRORS = /^(?:lease_lost|lease_held|interrupted|warehouse_\w+|file_store_\w+)$/;

interface PassCounts {
  fetched: number;
  bytes: number;
  unchanged: number;
}

/** One pass over the files that are due. */
class FetchPass {
  readonly counts = new Map<string, PassCounts>();
  /** Origins that this pass no longer requests, and why. */
  readonly closedOrigins = new Map<string, string>();
  readonly #failures = new Map<string, number>();
  readonly #context: FilesContext;
  readonly #request: FilesRequest;
  readonly #lease: Lease;
  readonly #meter = newMeter();
  readonly #failing = new AbortController();
  readonly #signal: AbortSignal;

  constructor(context: FilesContext, request: FilesRequest, lease: Lease) {
    [this.#context, this.#request, this.#lease] = [context, request, lease];
    this.#signal = AbortSignal.any([request.signal, this.#failing.signal]);
  }

  /** Fetches the due files of a resource. An error that is not about one file or origin ends the pass. */
  async fetchAll(resource: string): Promise<void> {
    const fetchOne = async (file: DueFile): Promise<void> => {
      if (!this.#signal.aborted) await this.#fetch(file).catch((error: unknown) => this.#failing.abort(error));
    };
    await pMap(this.#readDueFiles(resource), fetchOne, { concurrency: MAX_PARALLEL_FILES });
    this.#signal.throwIfAborted();
  }

  /** Reads the files that are due, until the pass is aborted. */
  async *#readDueFiles(resource: string): AsyncGenerator<DueFile> {
    const { warehouse, clock } = this.#context;
    const now = timestampText(clock.now());
    try {
      for (let after: FileRow | null = null, hasMore = true; hasMore && !this.#signal.aborted;) {
        const rows: FileRow[] = await readDueFiles(warehouse.own, resource, now, after, FILES_PER_STEP);
        yield* await withAddresses(this.#context, resource, rows);
        after = rows.at(-1) ?? null;
        hasMore = rows.length === FILES_PER_STEP;
      }
    } catch (error) {
      this.#failing.abort(error);
    }
  }

  async #fetch(due: DueFile): Promise<void> {
    const { clock, scrub } = this.#context;
    const { row, address } = due;
    const origin = URL.parse(address.url)?.origin ?? address.url;
    if (this.closedOrigins.has(origin)) return;
    try {
      const outcome = await fetchFile({ ...this.#context, meter: this.#meter, signal: this.#signal }, due);
      const hasFailed = outcome.is === 'failed' && outcome.code !== 'file_differs';
      const failures = hasFailed ? (this.#failures.get(origin) ?? 0) + 1 : 0;
      this.#failures.set(origin, failures);
      if (hasFailed && failures >= MAX_FAILURES_IN_A_ROW) this.closedOrigins.set(origin, outcome.reason);
      await this.#save({ row, outcome });
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      const { code, recovery } = error;
      const reason = scrub(messageOf(error));
      // The file waits, and its row says why.
      if (code === 'file_store_full')
        await this.#save({ row, outcome: { is: 'deferred', until: clock.now(), code, reason } });
      if (recovery !== 'stop' || RUN_ERRORS.test(code)) throw error;
      // A credential that is refused for one file is refused for every file of the origin.
      this.closedOrigins.set(origin, reason);
    }
  }

  async #save(file: FetchedFile): Promise<void> {
    const { warehouse, clock } = this.#context;
    const { row, outcome } = file;
    const object = toObjectRow(outcome, clock.now());
    const changes = saveOutcome(warehouse.own, row, outcome, clock.now());
    const objects = object === null ? [] : saveObject(warehouse.own, object);
    await warehouse.apply([...changes, ...objects], this.#lease.proof());
    this.#request.saved?.(file);
    const counts = this.counts.get(row.resource) ?? { fetched: 0, bytes: 0, unchanged: 0 };
    this.counts.set(row.resource, counts);
    if (outcome.is === 'fetched') counts.bytes += outcome.bytes;
    if (outcome.is === 'fetched' && outcome.content.sha256 !== row.sha256) counts.fetched += 1;
    else if (outcome.is === 'fetched' || outcome.is === 'unchanged') counts.unchanged += 1;
  }
}

const FILES_PER_STEP = 500;

/** Adds to each row the address in its record. Leaves out files that their record no longer names: the next search ends them. */
async function withAddresses(
  { warehouse: { own }, profile: { resources }, listing, settings }: FilesContext,
  resource: string,
  rows: readonly FileRow[],
): Promise<DueFile[]> {
  const files = settings.kept[resource] ?? [];
  const profile = resources[resource];
  if (profile === undefined) return [];
  const bodies = await currentBodies(own, resource, [...new Set(rows.map(({ record_id }) => record_id))]);
  const addresses = new Map<string, FileAddress>();
  for (const [id, body] of bodies) {
    for (const address of fileAddresses({ profile, listing }, files, id, storedValue(body, profile))) {
      addresses.set(fileKeyText({ record_id: id, ...address }), address);
    }
  }
  const hashes = [...rows, ...[...addresses.values()].map(({ declared }) => declared)].map(({ sha256 }) => sha256);
  const objects = await readStoredObjects(own, [...new Set(hashes.filter((hash) => hash !== null))]);
  return rows.flatMap((row): DueFile[] => {
    const file = files.find(({ field }) => field === row.field);
    const address = addresses.get(fileKeyText(row));
    if (file === undefined || address === undefined) return [];
    const find = (sha256: string | null) =>
      objects.find((object) => object.store === file.store.name && object.sha256 === sha256) ?? null;
    return [{ row, file, address, current: find(row.sha256), declared: find(address.declared.sha256) }];
  });
}

const NO_FILES = { fetched: 0, bytes: 0, unchanged: 0, stored: 0, waiting: 0, failed: 0, refused: 0, gone: 0 };

/** The files of these resources by status. `stopped`: why some were not requested; `counts`: what a pass did. */
export async function reportFiles(
  warehouse: Warehouse,
  resources: readonly string[],
  stopped: readonly string[],
  counts: ReadonlyMap<string, PassCounts> = new Map(),
): Promise<FilesReport[]> {
  const counted = await countFiles(warehouse.own);
  return resources.map((resource) => {
    const figures: FilesFigures = { ...NO_FILES, ...counts.get(resource) };
    for (const count of counted) if (count.resource === resource) figures[count.status] += count.files;
    return { resource, figures, warnings: fileWarnings(resource, figures, stopped) };
  });
}

function fileWarnings(
  resource: string,
  { failed, refused, waiting }: FilesFigures,
  stopped: readonly string[],
): Warning[] {
  const files = (count: number): string => `${count} ${count === 1 ? 'file' : 'files'} of ${resource}`;
  const look = `content-sync files status ${resource} names them`;
  const warnings: Warning[] = [];
  if (failed > 0) {
    const message = `${files(failed)} could not be fetched`;
    warnings.push({ code: 'files_failed', message, hint: `they are tried again, after growing pauses; ${look}` });
  }
  if (refused > 0) {
    const message = `${files(refused)} ${refused === 1 ? 'was' : 'were'} refused: too large, of another type, or at an address that may not be asked`;
    warnings.push({ code: 'files_refused', message, hint: `${look}; the profile's files say what is admitted` });
  }
  if (waiting > 0) {
    const why = stopped.length === 0 ? '' : `: ${stopped.join('; ')}`;
    const message = `${files(waiting)} ${waiting === 1 ? 'waits' : 'wait'} to be fetched${why}`;
    warnings.push({ code: 'files_waiting', message, hint: 'the next run goes on with them' });
  }
  return warnings;
}
