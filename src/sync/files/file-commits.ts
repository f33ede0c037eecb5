import type { Clock } from '../../model/clock.ts';
import { saveObjects } from '../../state/files/file-objects.ts';
import type { Lease } from '../../state/leases.ts';
import type { FileRow } from '../../warehouse/file-rows.ts';
import type { Warehouse } from '../../warehouse/warehouse.ts';
import { objectOf, settleFile, type FileOutcome } from './settle-file.ts';

/** Outcomes that wait to be committed: what a kill costs is that so many files are fetched again. */
const MOST_WAITING = 64;
/** One that is alone waits so long for others. */
const GATHERED_MS = 30;

interface CommitOptions {
  warehouse: Warehouse;
  lease: Lease;
  clock: Clock;
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
    if (this.#waiting.length >= MOST_WAITING) this.#full.resolve();
    const commits = (this.#underWay ??= this.#commitAll());
    if (this.#waiting.length >= MOST_WAITING) await commits;
  }

  /** Resolves when all is committed. Throws what a commit has thrown. */
  async flush(): Promise<void> {
    this.#full.resolve();
    while (this.#underWay !== null) await this.#underWay;
  }

  async #commitAll(): Promise<void> {
    const timer = new AbortController();
    await Promise.race([
      this.#full.promise,
      this.#options.clock.sleep(GATHERED_MS, timer.signal).catch(() => undefined),
    ]);
    timer.abort();
    this.#full = Promise.withResolvers<void>();
    const settled = this.#waiting;
    this.#waiting = [];
    await this.#commit(settled);
    this.#underWay = this.#waiting.length === 0 ? null : this.#commitAll();
  }

  async #commit(settled: readonly SettledFile[]): Promise<void> {
    const { warehouse, lease, clock, committed } = this.#options;
    const { own } = warehouse;
    const now = clock.now();
    const objects = settled.map(({ outcome }) => objectOf(outcome, now)).filter((object) => object !== null);
    const changes = settled.flatMap(({ row, outcome }) => settleFile(own, row, outcome, now));
    await warehouse.apply([...changes, ...saveObjects(own, objects)], lease.proof());
    committed(settled);
  }
}
