import { newMeter } from '../../http/client.ts';
import { messageOf, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import type { ObjectStore } from '../../object-store/object-store.ts';
import type { StoreAddress } from '../../source/store-address.ts';
import { acquireLease, type Lease } from '../../state/leases.ts';
import { FILES_LEASE } from '../../state/files/record-files.ts';
import { dueBatches } from './due-batches.ts';
import { lookForFiles } from './due-files.ts';
import { storesOf } from '../../settings/file-stores.ts';
import { FileCommits, INTO_BUCKETS, INTO_FOLDERS, type SettledFile } from './file-commits.ts';
import { fetchFile, type DueFile } from './fetch-file.ts';
import type { FilesContext } from './files-context.ts';
import type { FileOutcome } from './settle-file.ts';
import { Origins } from './origins.ts';
import { FileFigures, type FilesReport } from './report-files.ts';

/** Files under way at once: some are being fetched, as the governor allows, others written. */
const AT_ONCE = 16;

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
    const lane = new Lane(context, request, lease);
    for (const resource of resources) await lane.fetchAll(resource);
    const stopped = lane.origins.closed().map(({ origin, reason }) => `${origin}: ${reason}`);
    return await lane.figures.report(warehouse, resources, stopped);
  } finally {
    await lease.release();
  }
}

class Lane {
  readonly origins = new Origins();
  readonly figures = new FileFigures();
  readonly #context: FilesContext;
  readonly #request: FilesRequest;
  readonly #meter = newMeter();
  readonly #failing = new AbortController();
  readonly #signal: AbortSignal;
  readonly #commits: FileCommits;
  readonly #stores = new Set<ObjectStore>();
  #underWay = 0;

  constructor(context: FilesContext, request: FilesRequest, lease: Lease) {
    this.#context = { ...context, storeAt: (address) => this.#storeAt(address, context) };
    this.#request = request;
    this.#signal = AbortSignal.any([request.signal, this.#failing.signal]);
    const settleStores = async (): Promise<void> => {
      for (const store of this.#stores) await store.settle();
    };
    const committed = (settled: readonly SettledFile[]): void => this.#committed(settled);
    const isFolder = storesOf(context.settings).some(({ kind }) => kind === 'disk');
    const gathering = isFolder ? INTO_FOLDERS : INTO_BUCKETS;
    this.#commits = new FileCommits({ ...context, lease, gathering, settleStores, committed });
  }

  /** All that is due by now. */
  async fetchAll(resource: string): Promise<void> {
    const all = dueBatches(this.#context, resource, timestampText(this.#context.clock.now()));
    const hand = async (): Promise<void> => {
      for (let due = await all.next(); due.done !== true; due = await all.next()) {
        this.#signal.throwIfAborted();
        this.#underWay += 1;
        await this.#fetch(due.value).finally(() => (this.#underWay -= 1));
        if (this.#underWay === 0) this.#commits.hurry();
      }
    };
    const failed = (error: unknown): void => this.#failing.abort(error);
    await Promise.all(Array.from({ length: AT_ONCE }, () => hand().catch(failed)));
    // Also what was fetched before something failed.
    await this.#commits.flush();
    this.#signal.throwIfAborted();
  }

  async #storeAt(address: StoreAddress, { storeAt }: FilesContext): Promise<ObjectStore> {
    const store = await storeAt(address);
    this.#stores.add(store);
    return store;
  }

  async #fetch(due: DueFile): Promise<void> {
    const { url } = due.address;
    if (this.#signal.aborted || this.origins.closedFor(url) !== null) return;
    try {
      const outcome = await fetchFile({ ...this.#context, meter: this.#meter, signal: this.#signal }, due);
      if (outcome.is === 'failed' && outcome.code !== 'file_differs') this.origins.failed(url, outcome.reason);
      else this.origins.answered(url);
      await this.#commits.add({ row: due.row, outcome });
    } catch (error) {
      if (isFull(error)) await this.#commits.add({ row: due.row, outcome: this.#putOff(error) });
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

  #committed(settled: readonly SettledFile[]): void {
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
