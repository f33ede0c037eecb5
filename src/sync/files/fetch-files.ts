import pMap from 'p-map';
import type { KeptFile } from '../../config/file-stores.ts';
import type { FileObjectRow, FileRow } from '../../database/own-tables.ts';
import { saveObjects, storedObjects } from '../../database/state/file-contents.ts';
import { countFiles, dueFiles, FILES_LEASE, placeText } from '../../database/state/files.ts';
import { acquireLease, type Lease } from '../../database/state/leases.ts';
import { currentBodies } from '../../database/state/versions.ts';
import type { Warehouse } from '../../database/warehouse.ts';
import { newMeter } from '../../http/client.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import type { FilesFigures, Warning } from '../report.ts';
import { lookForFiles } from './due-files.ts';
import { type DueFile, fetchFile, type FilesContext } from './fetch-file.ts';
import { type FileAddress, fileAddresses } from './file-address.ts';
import { objectOf, type SettledFile, settleFile } from './file-changes.ts';

export interface FilesRequest {
  resources: readonly string[];
  signal: AbortSignal;
  /** Called after outcomes of files were committed. */
  settled?: ((settled: readonly SettledFile[]) => void) | undefined;
}

/** The files of one resource. */
export interface FilesReport {
  resource: string;
  figures: FilesFigures;
  warnings: Warning[];
}

/**
 * Finds the files that are due and fetches them, until none is; those that failed wait for a later round. Throws
 * `lease_held` if another process does it, `file_store_full` if there is no room for more, the signal's reason, and what
 * the warehouse throws; what was fetched until then is stored.
 */
export async function fetchFiles(context: FilesContext, request: FilesRequest): Promise<FilesReport[]> {
  const { warehouse, clock, settings } = context;
  const resources = request.resources.filter((resource) => settings.kept[resource] !== undefined);
  if (resources.length === 0) return [];
  const lease = await acquireLease(warehouse, FILES_LEASE, clock);
  try {
    for (const resource of resources) await lookForFiles({ ...context, lease, signal: request.signal }, resource);
    const round = new FetchRound(context, request, lease);
    for (const resource of resources) await round.fetchAll(resource);
    const stopped = Array.from(round.closedOrigins, ([origin, reason]) => `${origin}: ${reason}`);
    return await reportFiles(warehouse, resources, stopped, round.settled);
  } finally {
    await lease.release();
  }
}

/** Files in progress: some are being fetched, as the rate limiter permits, others written. */
const MAX_PARALLEL_FILES = 16;
/** Outcomes that may wait to be committed before other files are fetched. */
const MAX_UNCOMMITTED = 64;
/** Requests to an origin that may fail in a row before its files wait for a later round. */
const MAX_FAILURES_IN_A_ROW = 10;
/** Errors that are not about the origin of the file. */
const OF_THE_RUN: ReadonlySet<string> = new Set(['lease_lost', 'lease_held', 'interrupted', 'warehouse_gone']);

/** Counts of a resource in one round. */
type RoundCounts = Pick<FilesFigures, 'fetched' | 'bytes' | 'unchanged'>;

class FetchRound {
  /** By resource. */
  readonly settled = new Map<string, RoundCounts>();
  /** Origins that are not requested any more in this round, and why. */
  readonly closedOrigins = new Map<string, string>();
  readonly #failures = new Map<string, number>();
  readonly #context: FilesContext;
  readonly #request: FilesRequest;
  readonly #lease: Lease;
  readonly #meter = newMeter();
  readonly #failing = new AbortController();
  readonly #signal: AbortSignal;
  #uncommitted: SettledFile[] = [];
  #committing: Promise<void> | null = null;

  constructor(context: FilesContext, request: FilesRequest, lease: Lease) {
    [this.#context, this.#request, this.#lease] = [context, request, lease];
    this.#signal = AbortSignal.any([request.signal, this.#failing.signal]);
  }

  /** Fetches the files that are due by now. */
  async fetchAll(resource: string): Promise<void> {
    const due = this.#untilAborted(dueNow(this.#context, resource, timestampText(this.#context.clock.now())));
    const fetchOne = async (file: DueFile): Promise<void> => {
      if (this.#signal.aborted) return;
      await this.#fetch(file).catch((error: unknown) => this.#failing.abort(error));
    };
    await pMap(due, fetchOne, { concurrency: MAX_PARALLEL_FILES });
    // Also what was fetched before something failed.
    await this.#committing;
    this.#signal.throwIfAborted();
  }

  /** Ends when the fetching is aborted or the database fails: the downloads in progress are still awaited. */
  async *#untilAborted(due: AsyncIterable<DueFile>): AsyncGenerator<DueFile> {
    try {
      for await (const file of due) {
        if (this.#signal.aborted) return;
        yield file;
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
      await this.#settle({ row, outcome });
    } catch (error) {
      if (!(error instanceof SyncError)) throw error;
      const { code, recovery } = error;
      const reason = scrub(messageOf(error));
      // Nothing is wrong with the file: its row says why it waits.
      if (code === 'file_store_full')
        await this.#settle({ row, outcome: { is: 'put off', until: clock.now(), code, reason } });
      if (recovery !== 'stop' || OF_THE_RUN.has(code) || code.startsWith('file_store_')) throw error;
      // A credential that is refused for one file is refused for every file of the origin.
      this.closedOrigins.set(origin, reason);
    }
  }

  /** Resolves when there is room for more. Throws what the commits throw. */
  async #settle(file: SettledFile): Promise<void> {
    this.#uncommitted.push(file);
    this.#committing ??= this.#commitAll();
    if (this.#uncommitted.length >= MAX_UNCOMMITTED) await this.#committing;
    else this.#committing.catch((error: unknown) => this.#failing.abort(error));
  }

  /** All outcomes that arrive while one transaction is written go into the next one. */
  async #commitAll(): Promise<void> {
    const { warehouse, clock } = this.#context;
    const { own } = warehouse;
    try {
      while (this.#uncommitted.length > 0) {
        const settled = this.#uncommitted.splice(0);
        const now = clock.now();
        const objects = settled.map(({ outcome }) => objectOf(outcome, now)).filter((object) => object !== null);
        const changes = settled.flatMap(({ row, outcome }) => settleFile(own, row, outcome, now));
        await warehouse.apply([...changes, ...saveObjects(own, objects)], this.#lease.proof());
        for (const file of settled) this.#count(file);
        this.#request.settled?.(settled);
      }
    } finally {
      this.#committing = null;
    }
  }

  #count({ row, outcome }: SettledFile): void {
    const counts = this.settled.get(row.resource) ?? { fetched: 0, bytes: 0, unchanged: 0 };
    this.settled.set(row.resource, counts);
    if (outcome.is === 'here') counts.bytes += outcome.fetched;
    if (outcome.is === 'here' && outcome.content.sha256 !== row.sha256) counts.fetched += 1;
    else if (outcome.is === 'here' || outcome.is === 'unchanged') counts.unchanged += 1;
  }
}

/** Files that are read together. */
const FILES_PER_STEP = 500;

/** The files of a resource that are due, each with what its record says about it by now. */
async function* dueNow(context: FilesContext, resource: string, now: string): AsyncGenerator<DueFile> {
  const { own } = context.warehouse;
  for (let after: FileRow | null = null; ;) {
    const rows: FileRow[] = await dueFiles(own, resource, now, after, FILES_PER_STEP);
    yield* await withAddresses(context, resource, rows);
    after = rows.at(-1) ?? null;
    if (rows.length < FILES_PER_STEP) return;
  }
}

/** Files that their record no longer names are left out: the next search hides them. */
async function withAddresses(
  { warehouse: { own }, profile: whole, listing, settings }: FilesContext,
  resource: string,
  rows: readonly FileRow[],
): Promise<DueFile[]> {
  const files = settings.kept[resource] ?? [];
  const profile = whole.resources[resource];
  if (profile === undefined) return [];
  const bodies = await currentBodies(own, resource, [...new Set(rows.map(({ record_id }) => record_id))]);
  const addresses = new Map<string, FileAddress>();
  for (const [id, body] of bodies) {
    for (const address of fileAddresses({ profile, listing }, files, id, storedValue(body, profile))) {
      addresses.set(placeText({ record_id: id, ...address }), address);
    }
  }
  const found = rows.flatMap((row) => {
    const file = files.find(({ field }) => field === row.field);
    const address = addresses.get(placeText(row));
    return file === undefined || address === undefined ? [] : [{ row, file, address }];
  });
  const objects = await readObjects(own, files, found);
  return found.map(({ row, file, address }) => {
    const here = row.sha256 === null ? null : (objects.get(`${file.store.name} ${row.sha256}`) ?? null);
    const declared = objects.get(`${file.store.name} ${address.declared.sha256 ?? ''}`) ?? null;
    return { row, file, address, here, declared };
  });
}

/** Contents that are stored or declared, as far as their stores have them, by `store sha256`. */
async function readObjects(
  own: Warehouse['own'],
  files: readonly KeptFile[],
  found: readonly { row: FileRow; file: KeptFile; address: FileAddress }[],
): Promise<Map<string, FileObjectRow>> {
  const objects = new Map<string, FileObjectRow>();
  for (const store of new Set(files.map((file) => file.store.name))) {
    const hashes = found.flatMap(({ row, file, address }) =>
      file.store.name === store ? [row.sha256, address.declared.sha256] : [],
    );
    const known = await storedObjects(own, store, [...new Set(hashes.filter((hash) => hash !== null))]);
    for (const [hash, object] of known) objects.set(`${store} ${hash}`, object);
  }
  return objects;
}

const NO_FILES = { fetched: 0, bytes: 0, unchanged: 0, stored: 0, waiting: 0, failed: 0, refused: 0, gone: 0 };

/** The files of these resources by status. `stopped`: why some were not requested; `counts`: what a round did. */
export async function reportFiles(
  warehouse: Warehouse,
  resources: readonly string[],
  stopped: readonly string[],
  counts: ReadonlyMap<string, RoundCounts> = new Map(),
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
