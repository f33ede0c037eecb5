import { newMeter } from '../../http/client.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { KeptFile } from '../../config/file-stores.ts';
import { storedValue } from '../../rows/records/as-record.ts';
import { saveObjects, storedObjects } from '../../database/state/file-contents.ts';
import { dueFiles, FILES_LEASE, placeText } from '../../database/state/files.ts';
import { acquireLease, type Lease } from '../../database/state/leases.ts';
import { currentBodies } from '../../database/state/versions.ts';
import type { FileObjectRow, FileRow } from '../../database/own-tables.ts';
import { lookForFiles } from './due-files.ts';
import { type DueFile, fetchFile, type FilesContext } from './fetch-file.ts';
import { type FileAddress, fileAddresses } from './file-address.ts';
import { type FileOutcome, objectOf, type SettledFile, settleFile } from './file-changes.ts';
import { FileFigures, type FilesReport } from './report-files.ts';

export interface FilesRequest {
  resources: readonly string[];
  signal: AbortSignal;
  /** Called as files are settled. */
  settled?: ((settled: readonly SettledFile[]) => void) | undefined;
}

/**
 * Finds the files that are due and fetches them, until none is; those that failed wait for a later round. Throws
 * `lease_held` if another process does it, `file_store_full` if there is no room for more, the signal's reason, and what
 * the warehouse throws; what was fetched until then is remembered.
 */
export async function fetchFiles(context: FilesContext, request: FilesRequest): Promise<FilesReport[]> {
  const { warehouse, clock, settings } = context;
  const resources = request.resources.filter((resource) => settings.kept[resource] !== undefined);
  if (resources.length === 0) return [];
  const lease = await acquireLease(warehouse, FILES_LEASE, clock);
  try {
    for (const resource of resources) await lookForFiles({ ...context, lease, signal: request.signal }, resource);
    const round = new Round(context, request, lease);
    for (const resource of resources) await round.fetchAll(resource);
    return await round.figures.report(warehouse, resources, round.origins.closed());
  } finally {
    await lease.release();
  }
}

/** Files under way at once: some are being fetched, as the governor allows, others written. */
const AT_ONCE = 16;
/** So many files may wait to be committed before others are fetched. */
const MOST_WAITING = 64;

class Round {
  readonly origins = new Origins();
  readonly figures = new FileFigures();
  readonly #context: FilesContext;
  readonly #request: FilesRequest;
  readonly #lease: Lease;
  readonly #meter = newMeter();
  readonly #failing = new AbortController();
  readonly #signal: AbortSignal;
  /** What became of files and is not committed yet. */
  readonly #waiting: SettledFile[] = [];
  #committing: Promise<void> | null = null;

  constructor(context: FilesContext, request: FilesRequest, lease: Lease) {
    [this.#context, this.#request, this.#lease] = [context, request, lease];
    this.#signal = AbortSignal.any([request.signal, this.#failing.signal]);
  }

  /** All that is due by now. */
  async fetchAll(resource: string): Promise<void> {
    const all = dueNow(this.#context, resource, timestampText(this.#context.clock.now()));
    const hand = async (): Promise<void> => {
      for (let due = await all.next(); due.done !== true; due = await all.next()) {
        this.#signal.throwIfAborted();
        await this.#fetch(due.value);
      }
    };
    const failed = (error: unknown): void => this.#failing.abort(error);
    await Promise.all(Array.from({ length: AT_ONCE }, () => hand().catch(failed)));
    // Also what was fetched before something failed.
    await this.#committing;
    this.#signal.throwIfAborted();
  }

  async #fetch(due: DueFile): Promise<void> {
    const { url } = due.address;
    if (this.origins.isClosed(url)) return;
    try {
      const outcome = await fetchFile({ ...this.#context, meter: this.#meter, signal: this.#signal }, due);
      if (outcome.is === 'failed' && outcome.code !== 'file_differs') this.origins.failed(url, outcome.reason);
      else this.origins.answered(url);
      await this.#settled({ row: due.row, outcome });
    } catch (error) {
      if (isFull(error)) await this.#settled({ row: due.row, outcome: this.#putOff(error) });
      // Whoever is refused for its credential, say, would be for every file.
      if (!isAboutOrigin(error)) throw error;
      this.origins.close(url, this.#context.scrub(messageOf(error)));
    }
  }

  /** Nothing is wrong with the file: whoever looks sees why it waits. */
  #putOff({ code, message }: SyncError): FileOutcome {
    const { clock, scrub } = this.#context;
    return { is: 'put off', until: clock.now(), code, reason: scrub(message) };
  }

  /** Resolves when there is room for more. Throws what the commits throw. */
  async #settled(file: SettledFile): Promise<void> {
    this.#waiting.push(file);
    this.#committing ??= this.#commitAll();
    if (this.#waiting.length >= MOST_WAITING) await this.#committing;
    else this.#committing.catch((error: unknown) => this.#failing.abort(error));
  }

  /** All that is settled while one transaction is written goes into the next one. */
  async #commitAll(): Promise<void> {
    try {
      while (this.#waiting.length > 0) await this.#commit(this.#waiting.splice(0));
    } finally {
      this.#committing = null;
    }
  }

  async #commit(settled: readonly SettledFile[]): Promise<void> {
    const { warehouse, clock } = this.#context;
    const { own } = warehouse;
    const now = clock.now();
    const objects = settled.map(({ outcome }) => objectOf(outcome, now)).filter((object) => object !== null);
    const changes = settled.flatMap(({ row, outcome }) => settleFile(own, row, outcome, now));
    await warehouse.apply([...changes, ...saveObjects(own, objects)], this.#lease.proof());
    for (const one of settled) this.figures.add(one);
    this.#request.settled?.(settled);
  }
}

function isFull(error: unknown): error is SyncError {
  return error instanceof SyncError && error.code === 'file_store_full';
}

function isAboutOrigin(error: unknown): boolean {
  if (!(error instanceof SyncError) || error.recovery !== 'stop') return false;
  // A store that cannot be used is nobody's who serves files.
  return !OF_ALL.has(error.code) && !error.code.startsWith('file_store_');
}

/** Errors that no origin is to blame for. */
const OF_ALL: ReadonlySet<string> = new Set(['lease_lost', 'lease_held', 'interrupted', 'warehouse_gone']);

/** So many requests to an origin in a row may fail before it is left alone for this round. */
const MOST_TROUBLE = 10;

/** Which services answer: the files of one that does not wait for a later round, without being asked for one by one. */
class Origins {
  readonly #trouble = new Map<string, number>();
  readonly #closed = new Map<string, string>();

  /** True if the origin is not asked any more. */
  isClosed(url: string): boolean {
    return this.#closed.has(originOf(url));
  }

  answered(url: string): void {
    this.#trouble.delete(originOf(url));
  }

  failed(url: string, reason: string): void {
    const origin = originOf(url);
    const failures = (this.#trouble.get(origin) ?? 0) + 1;
    this.#trouble.set(origin, failures);
    if (failures >= MOST_TROUBLE) this.close(url, reason);
  }

  close(url: string, reason: string): void {
    this.#closed.set(originOf(url), reason);
  }

  /** Those that are left alone, and why. */
  closed(): string[] {
    return Array.from(this.#closed, ([origin, reason]) => `${origin}: ${reason}`);
  }
}

function originOf(url: string): string {
  return URL.parse(url)?.origin ?? url;
}

/** Files that are read together. */
const FILES_PER_STEP = 500;

type Known = Pick<FilesContext, 'warehouse' | 'profile' | 'listing' | 'settings'>;

/** The files of a resource that are due at a moment, each with what its record says of it by now. */
async function* dueNow(context: Known, resource: string, now: string): AsyncGenerator<DueFile> {
  const { own } = context.warehouse;
  for (let after: FileRow | null = null; ;) {
    const rows: FileRow[] = await dueFiles(own, resource, now, after, FILES_PER_STEP);
    yield* await dueOf(context, resource, rows);
    after = rows.at(-1) ?? null;
    if (rows.length < FILES_PER_STEP) return;
  }
}

/** Files whose record names them no more are left out: the next look hides them. */
async function dueOf(context: Known, resource: string, rows: readonly FileRow[]): Promise<DueFile[]> {
  const files = context.settings.kept[resource] ?? [];
  const addresses = await addressesOf(context, resource, rows);
  const found = rows.flatMap((row) => {
    const file = files.find(({ field }) => field === row.field);
    const address = addresses.get(placeText(row));
    return file === undefined || address === undefined ? [] : [{ row, file, address }];
  });
  const objects = await objectsOf(context, files, found);
  return found.map(({ row, file, address }) => {
    const here = row.sha256 === null ? null : (objects.get(`${file.store.name} ${row.sha256}`) ?? null);
    const declared = objects.get(`${file.store.name} ${address.declared.sha256 ?? ''}`) ?? null;
    return { row, file, address, here, declared };
  });
}

async function addressesOf(
  { warehouse, profile: whole, listing, settings }: Known,
  resource: string,
  rows: readonly FileRow[],
): Promise<Map<string, FileAddress>> {
  const profile = whole.resources[resource];
  if (profile === undefined) return new Map();
  const ids = [...new Set(rows.map(({ record_id }) => record_id))];
  const bodies = await currentBodies(warehouse.own, resource, ids);
  const files = settings.kept[resource] ?? [];
  const found = Array.from(bodies, ([id, body]) =>
    fileAddresses({ profile, listing }, files, id, storedValue(body, profile)).map((address): [string, FileAddress] => [
      placeText({ record_id: id, ...address }),
      address,
    ]),
  );
  return new Map(found.flat());
}

/** Contents that are here or declared, as far as their stores have them, by `store sha256`. */
async function objectsOf(
  { warehouse: { own } }: Known,
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
