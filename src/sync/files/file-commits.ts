import type { Clock } from '../../model/clock.ts';
import { saveObjects } from '../../state/files/file-objects.ts';
import type { Lease } from '../../state/leases.ts';
import type { FileRow } from '../../warehouse/file-rows.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { objectOf, settleFile, type FileOutcome } from './settle-file.ts';

/** How many outcomes wait to be committed, and how long the first one does: so much a kill has fetched again. */
interface Gathering {
  most: number;
  ms: number;
}

/** For each commit the folders are synced into which files have come, which are soon all that a store has. */
export const INTO_FOLDERS: Gathering = { most: 2_048, ms: 2_000 };
export const INTO_BUCKETS: Gathering = { most: 64, ms: 30 };

interface CommitOptions {
  warehouse: Warehouse;
  lease: Lease;
  clock: Clock;
  gathering: Gathering;
  /** Makes durable what was put into stores before: a row never names what a power cut may take away. */
  settleStores: () => Promise<void>;
  /** Called once outcomes are committed. */
  committed: (settled: readonly SettledFile[]) => void;
}

export interface SettledFile {
  row: FileRow;
  outcome: FileOutcome;
}

/** Writes what became of files, several in one transaction. */
export class FileCommits {
  readonly #options: CommitOptions;
  #waiting: SettledFile[] = [];
  #underWay: Promise<void> | null = null;
  #full = Promise.withResolvers<void>();

  constructor(options: CommitOptions) {
    this.#options = options;
  }

  /** Resolves when there is room for more. Throws what a commit before has thrown. */
  async add(settled: SettledFile): Promise<void> {
    this.#waiting.push(settled);
    const isFull = this.#waiting.length >= this.#options.gathering.most;
    if (isFull) this.#full.resolve();
    const commits = (this.#underWay ??= this.#commitAll());
    if (isFull) await commits;
  }

  /** To be called when no more come for now: nothing waits for them. */
  hurry(): void {
    this.#full.resolve();
  }

  /** Resolves when all is committed. Throws what a commit has thrown. */
  async flush(): Promise<void> {
    this.hurry();
    while (this.#underWay !== null) await this.#underWay;
  }

  async #commitAll(): Promise<void> {
    const timer = new AbortController();
    await Promise.race([
      this.#full.promise,
      this.#options.clock.sleep(this.#options.gathering.ms, timer.signal).catch(() => undefined),
    ]);
    timer.abort();
    this.#full = Promise.withResolvers<void>();
    const settled = this.#waiting;
    this.#waiting = [];
    await this.#commit(settled);
    this.#underWay = this.#waiting.length === 0 ? null : this.#commitAll();
  }

  async #commit(settled: readonly SettledFile[]): Promise<void> {
    const { warehouse, lease, clock, settleStores, committed } = this.#options;
    const { own } = warehouse;
    const now = clock.now();
    const objects = settled.map(({ outcome }) => objectOf(outcome, now)).filter((object) => object !== null);
    const changes = settled.flatMap(({ row, outcome }) => settleFile(own, row, outcome, now));
    await settleStores();
    await warehouse.apply([...changes, ...saveObjects(own, objects)], lease.proof());
    committed(settled);
  }
}
