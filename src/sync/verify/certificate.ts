import type { FileStatus } from '../../warehouse/file-rows.ts';
import type { VerifyMode, Verdict } from '../../warehouse/verification-row.ts';

/** The ways in which a copy may not be what it should be. Stable: scripts may match on them. */
export const DIFFERENCES = {
  missing: 'listed by the service, without a live row',
  extra: 'a live row of which the service has no record',
  other: 'the record of the service is another one than the row',
  body: 'the stored body is another one than that of the service',
  cells: 'the row, or its child rows, are not what its record gives',
  orphans: 'child rows without a live row above them',
  positions: 'child rows whose positions have a gap',
  hash: 'a fingerprint is not that of its body',
  version_gap: 'versions are missing between or before others',
  version_times: 'a version does not end when the next one begins',
  version_state: 'the row is not its latest version',
  version_lost: 'the row has no version, or the version no row',
  table: 'a table or column is not there, or of another type',
  view: 'a view is not there',
  index: 'an index is not there',
  checkpoint: 'what is remembered of the walk cannot be read',
  file: 'the content of a file is not in its store, or not what its hash says',
  database: 'the database itself finds something broken',
} as const;

export type DifferenceKind = keyof typeof DIFFERENCES;

/** One thing that differs. Never holds a value of a record: only where it is. */
export interface Difference {
  kind: DifferenceKind;
  /** The record's key; null if it is about no record. */
  id: string | null;
  /** Paths of the fields that differ, or names of tables and columns; the first ones. */
  fields?: readonly string[];
  /** A sentence without its final period, where there is more to say. */
  detail?: string;
}

/** What the service's listing has shown; null where nothing was listed. */
export interface ListingAccount {
  path: string;
  /** How its pages are cut. */
  style: string;
  pages: number;
  records: number;
  /** The total that it told last; null if it told none. */
  total: number | null;
  /** What showed its end; null if nothing did. */
  end: string | null;
  /** Why it is not sure that this is all of it. */
  doubts: readonly string[];
}

/** How many records were drawn, and what follows from them. */
export interface SampleAccount {
  asked: number;
  drawn: number;
  /** What was drawn: records read alone, or whole pages. */
  unit: 'record' | 'page';
  /** Draws the same again, of the same rows. */
  seed: number;
  /** Units that differ. */
  differ: number;
  /** At most this part of all units differs, in percent, with this confidence; null if nothing could be judged. */
  at_most_percent: number | null;
  confidence_percent: number;
}

/** How the files of a resource stand. */
export interface FilesAccount {
  /** Those that records show, by how they stand. */
  shown: Record<FileStatus, number>;
  /** Contents that were drawn and read, and how many of those are missing or not what their hashes say. */
  read: number;
  differ: number;
}

/** What a verification has found: its whole result, as it is printed and kept. */
export interface Certificate {
  id: string;
  source: string;
  resource: string;
  mode: VerifyMode;
  verdict: Verdict;
  began_at: string;
  ended_at: string;
  /** Of this program. */
  version: string;
  /** Fingerprint of the part of the profile that the rows were made with. */
  profile: string;
  /** Up to when, by the service's clock, changes had to be in the copy; null if it was never walked to its end. */
  copied_until: string | null;
  requests: number;
  listing: ListingAccount | null;
  sample: SampleAccount | null;
  /** Null where none are kept. */
  files: FilesAccount | null;
  /** Counts of what was compared. */
  compared: {
    rows: number;
    deleted_rows: number;
    child_rows: number;
    versions: number;
    bodies: number;
    records: number;
  };
  /** What was compared, in words. */
  checks: readonly string[];
  /** What was not, and why. */
  not_compared: readonly string[];
  differences: { count: number; by_kind: Partial<Record<DifferenceKind, number>>; first: readonly Difference[] };
  /** Changed at the service since the copy was last brought up to date: no differences. */
  changed_since: { count: number; first: readonly string[] };
  /** Records that the copy has set aside, with their reason: no differences. */
  set_aside: number;
  /** Records that could not be judged, because they could not be read alone. */
  not_judged: number;
}

/** Named in a certificate at most; all are counted. */
const MOST_NAMED = 50;
const MOST_FIELDS = 12;

/** Collects what differs: counts all of it, and names the first ones. */
export class Findings {
  readonly #counts = new Map<DifferenceKind, number>();
  readonly #first: Difference[] = [];
  readonly #since = { count: 0, first: new Set<string>() };
  readonly checks: string[] = [];
  readonly notCompared: string[] = [];
  readonly compared = { rows: 0, deleted_rows: 0, child_rows: 0, versions: 0, bodies: 0, records: 0 };
  /** Keys of records that a repair has to look at, by what is wrong. */
  readonly broken = new Map<string, DifferenceKind>();
  setAside = 0;
  notJudged = 0;

  add(difference: Difference): void {
    const { kind, id, fields } = difference;
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
    if (id !== null && this.broken.size < MOST_BROKEN && !this.broken.has(id)) this.broken.set(id, kind);
    if (this.#first.length >= MOST_NAMED) return;
    const shown = fields === undefined ? {} : { fields: fields.slice(0, MOST_FIELDS) };
    this.#first.push({ ...difference, ...shown });
  }

  /** A record that changed at the service after the copy was last brought up to date. */
  changedSince(id: string): void {
    this.#since.count += 1;
    if (this.#since.first.size < MOST_NAMED) this.#since.first.add(id);
  }

  get count(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  get summary(): Pick<Certificate, 'differences' | 'changed_since' | 'set_aside' | 'not_judged' | 'compared'> &
    Pick<Certificate, 'checks' | 'not_compared'> {
    return {
      compared: this.compared,
      checks: this.checks,
      not_compared: this.notCompared,
      differences: { count: this.count, by_kind: Object.fromEntries(this.#counts), first: this.#first },
      changed_since: { count: this.#since.count, first: [...this.#since.first] },
      set_aside: this.setAside,
      not_judged: this.notJudged,
    };
  }
}

/** One repair deals with so many; the verification after it finds the rest. */
const MOST_BROKEN = 10_000;
