// The report of `content-sync verify`: the differences between the copy and the service, and the commands that remove them.
// Example: the row of post 42 was changed by hand. Its cells differ from the stored body (`cells`), so `content-sync
// warehouse rebuild posts` repairs it. While `verify` compares, it adds each difference to `Findings`.
import type { Verdict, VerifyMode } from '../../database/own-tables.ts';

/**
 * The command that removes a difference:
 * - `backfill` writes records that are new or changed by the hash in their row, and deletes rows that are not listed;
 * - `rebuild` creates rows and child rows from the stored bodies, also if the hash of a damaged row is right;
 * - `restart` copies everything again, and loses earlier versions. Only it repairs a wrong hash, body or version.
 */
type Remedy = 'backfill' | 'rebuild' | 'restart';

/** The kinds of differences that `verify` finds. The names are stable: scripts may match them. */
export const DIFFERENCES = {
  missing: { remedy: 'backfill', text: 'the service lists the record, and it has no live row' },
  extra: { remedy: 'backfill', text: 'a live row whose record the service does not list' },
  other: { remedy: 'backfill', text: 'the row is not what the record of the service gives' },
  body: { remedy: 'backfill', text: 'the stored body is not the record of the service' },
  cells: { remedy: 'rebuild', text: 'the row or its child rows are not what the stored body gives' },
  orphans: { remedy: 'rebuild', text: 'child rows without a live parent row' },
  hash: { remedy: 'restart', text: 'a hash is not that of its body' },
  version_gap: { remedy: 'restart', text: 'versions are missing' },
  version_times: { remedy: 'restart', text: 'a version does not end when the next one begins' },
  version_state: { remedy: 'restart', text: 'the row is not its latest version' },
  version_lost: { remedy: 'restart', text: 'the row has no version with a body, or the version no row' },
} as const satisfies Readonly<Record<string, { remedy: Remedy; text: string }>>;

export type DifferenceKind = keyof typeof DIFFERENCES;

/** One difference. It contains no value of a record, only the location. */
export interface Difference {
  kind: DifferenceKind;
  id: string;
  /** The first of the columns that differ, or the name of a table. */
  fields?: readonly string[];
  /** A sentence without its final period. */
  detail?: string;
}

export interface ListingReport {
  records: number;
  /** The last total that the service reported; null if it reported none. */
  total: number | null;
  /** Why the listing may be incomplete. */
  doubts: readonly string[];
}

/** The result of one verification, as it is printed and stored. */
export interface VerifyReport {
  id: string;
  source: string;
  resource: string;
  mode: VerifyMode;
  verdict: Verdict;
  began_at: string;
  ended_at: string;
  /** Changes before this time of the service's clock must be in the copy; null if it was never complete. */
  copied_until: string | null;
  requests: number;
  /** Null with `--internal`. */
  listing: ListingReport | null;
  compared: Findings['compared'];
  not_compared: readonly string[];
  differences: { count: number; by_kind: Partial<Record<DifferenceKind, number>>; first: readonly Difference[] };
  /** The commands that remove the differences, in the order in which to run them. */
  remedies: readonly string[];
  /** Records that changed at the service after the last sync: they are no differences. */
  changed_since: { count: number; first: readonly string[] };
  /** Records that the copy rejects with a reason: they are no differences. */
  set_aside: number;
  /** Live rows that could not be compared, because the listing was read only in part. */
  not_judged: number;
}

/** The maximum number of differences and changed records that a report names; all of them are counted. */
const MAX_NAMED = 50;
const MAX_FIELDS = 12;

/** Collects the results of a verification. */
export class Findings {
  readonly #counts = new Map<DifferenceKind, number>();
  readonly #first: Difference[] = [];
  readonly #changed = { count: 0, first: new Set<string>() };
  readonly notCompared = new Set<string>();
  readonly compared = { rows: 0, deleted_rows: 0, child_rows: 0, versions: 0, records: 0 };
  /** Records whose row does not agree with its stored body: they are not compared with the service. */
  readonly damaged = new Set<string>();
  readonly #remedies = new Set<Remedy>();
  rejected = 0;
  notListed = 0;

  add(difference: Difference, remedy: Remedy = DIFFERENCES[difference.kind].remedy): void {
    const { kind, id, fields } = difference;
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
    this.#remedies.add(remedy);
    if (kind === 'cells' || kind === 'hash') this.damaged.add(id);
    if (this.#first.length >= MAX_NAMED) return;
    this.#first.push({ ...difference, ...(fields === undefined ? {} : { fields: fields.slice(0, MAX_FIELDS) }) });
  }

  /** Counts a record that changed at the service after the last sync. */
  addChanged(id: string): void {
    this.#changed.count += 1;
    if (this.#changed.first.size < MAX_NAMED) this.#changed.first.add(id);
  }

  get count(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** Returns the part of the report that was collected here. `hasBodies`: the copy stores bodies (`history`). */
  toReport(resource: string, hasBodies: boolean) {
    return {
      compared: this.compared,
      not_compared: [...this.notCompared],
      differences: { count: this.count, by_kind: Object.fromEntries(this.#counts), first: this.#first },
      remedies: this.#commands(resource, hasBodies),
      changed_since: { count: this.#changed.count, first: [...this.#changed.first] },
      set_aside: this.rejected,
      not_judged: this.notListed,
    };
  }

  #commands(resource: string, hasBodies: boolean): string[] {
    const backfill = `content-sync backfill ${resource}`;
    const needsRebuild = this.#remedies.has('rebuild');
    // A rebuild needs stored bodies.
    if (this.#remedies.has('restart') || (needsRebuild && !hasBodies)) return [`${backfill} --restart`];
    const rebuild = needsRebuild ? [`content-sync warehouse rebuild ${resource}`] : [];
    return this.#remedies.has('backfill') ? [...rebuild, backfill] : rebuild;
  }
}
