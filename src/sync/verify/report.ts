// The report of `content-sync verify`, and the collector of the differences in it.
import type { Verdict, VerifyMode } from '../../database/own-tables.ts';

/** The kinds of differences that `verify` finds. The names are stable: scripts may match them. */
export const DIFFERENCES = {
  missing: 'the service lists the record, and it has no live row',
  extra: 'a live row whose record the service does not list',
  other: 'the row is not what the record of the service gives',
  body: 'the stored body is not the record of the service',
  cells: 'the row or its child rows are not what the stored body gives',
  orphans: 'child rows without a live parent row',
  hash: 'a hash is not that of its body',
  version_gap: 'versions are missing',
  version_times: 'a version does not end when the next one begins',
  version_state: 'the row is not its latest version',
  version_lost: 'the row has no version with a body, or the version no row',
} as const;

export type DifferenceKind = keyof typeof DIFFERENCES;

/**
 * What puts a difference right:
 * - `backfill` writes records that it finds new or changed, by the hash in the row, and deletes rows that are not listed;
 * - `rebuild` makes rows and child rows from the stored bodies, also where the hash of a damaged row is still right;
 * - `restart` makes the whole copy anew. Only it puts right a wrong hash, body or version; earlier versions are lost.
 */
export type Remedy = 'backfill' | 'rebuild' | 'restart';

const REMEDIES: Readonly<Record<DifferenceKind, Remedy>> = {
  missing: 'backfill',
  extra: 'backfill',
  other: 'backfill',
  body: 'backfill',
  cells: 'rebuild',
  orphans: 'rebuild',
  hash: 'restart',
  version_gap: 'restart',
  version_times: 'restart',
  version_state: 'restart',
  version_lost: 'restart',
};

/** One thing that differs. It never holds a value of a record, only its location. */
export interface Difference {
  kind: DifferenceKind;
  id: string;
  /** Columns that differ, or the name of a table; the first ones. */
  fields?: readonly string[];
  /** A sentence without its final period. */
  detail?: string;
}

export interface ListingReport {
  records: number;
  /** The last total that the service stated; null if it stated none. */
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
  /** The commands that put the differences right, in their order. */
  remedies: readonly string[];
  /** Records that changed at the service after the copy was last brought up to date: no differences. */
  changed_since: { count: number; first: readonly string[] };
  /** Records that the copy rejects, with a reason: no differences. */
  set_aside: number;
  /** Live rows that the part of the listing that was read does not hold. */
  not_judged: number;
}

/** Differences and changed records that a report names; all of them are counted. */
const MAX_NAMED = 50;
const MAX_FIELDS = 12;

/** Collects differences: counts all of them and keeps the first ones. */
export class Findings {
  readonly #counts = new Map<DifferenceKind, number>();
  readonly #first: Difference[] = [];
  readonly #changed = { count: 0, first: new Set<string>() };
  readonly notCompared = new Set<string>();
  readonly compared = { rows: 0, deleted_rows: 0, child_rows: 0, versions: 0, records: 0 };
  /** Records of which the copy does not agree with itself. */
  readonly damaged = new Set<string>();
  readonly #remedies = new Set<Remedy>();
  setAside = 0;
  notJudged = 0;

  add(difference: Difference, remedy: Remedy = REMEDIES[difference.kind]): void {
    const { kind, id, fields } = difference;
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
    this.#remedies.add(remedy);
    if (kind === 'cells' || kind === 'hash') this.damaged.add(id);
    if (this.#first.length >= MAX_NAMED) return;
    this.#first.push({ ...difference, ...(fields === undefined ? {} : { fields: fields.slice(0, MAX_FIELDS) }) });
  }

  /** Counts a record that changed at the service after the copy was last brought up to date. */
  addChanged(id: string): void {
    this.#changed.count += 1;
    if (this.#changed.first.size < MAX_NAMED) this.#changed.first.add(id);
  }

  get count(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  /** A rebuild needs stored bodies. */
  toReport(resource: string, hasBodies: boolean) {
    const needs = (remedy: Remedy): boolean => this.#remedies.has(remedy);
    const backfill = `content-sync backfill ${resource}`;
    const isRestart = needs('restart') || (needs('rebuild') && !hasBodies);
    const remedies = [
      ...(needs('rebuild') ? [`content-sync warehouse rebuild ${resource}`] : []),
      ...(needs('backfill') ? [backfill] : []),
    ];
    return {
      compared: this.compared,
      not_compared: [...this.notCompared],
      differences: { count: this.count, by_kind: Object.fromEntries(this.#counts), first: this.#first },
      remedies: isRestart ? [`${backfill} --restart`] : remedies,
      changed_since: { count: this.#changed.count, first: [...this.#changed.first] },
      set_aside: this.setAside,
      not_judged: this.notJudged,
    };
  }
}
