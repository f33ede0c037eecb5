import type { Clock } from '../model/clock.ts';
import type { JsonObject } from '../model/json.ts';
import type { Answer, Asker, QueryParams } from './asker.ts';
import { fieldAt } from '../rows/records/field-at.ts';
import type { UnwrapRule } from '../rows/records/unwrap.ts';

/** One line of a profile, and what speaks for it. */
export interface Finding {
  /** Keys that lead to the field: `['resources', 'posts', 'id']`. */
  path: readonly string[];
  /** As the profile writes it. */
  value: unknown;
  /** False if the service did not show it: then it is the safest guess. */
  proved: boolean;
  /** What was asked and what came, as one line without secrets. */
  evidence: string;
}

export type Findings = ReturnType<typeof newFindings>;

/**
 * Collects the findings about one part of a profile, whose paths begin with `at`: `proved` as the service showed, or
 * `guessed`, with the evidence or why it could not be shown. A later finding about a field replaces the one before.
 */
export function newFindings(at: readonly string[] = []) {
  const byPath = new Map<string, Finding>();
  const add = (path: readonly string[], value: unknown, proved: boolean, evidence: string): void => {
    const whole = [...at, ...path];
    byPath.set(JSON.stringify(whole), { path: whole, value, proved, evidence });
  };
  return {
    get all(): readonly Finding[] {
      return [...byPath.values()];
    },
    proved: (path: readonly string[], value: unknown, evidence: string): void => add(path, value, true, evidence),
    guessed: (path: readonly string[], value: unknown, evidence: string): void => add(path, value, false, evidence),
  };
}

/** How this service pages, as a resource before has shown it. */
interface PageConvention {
  /** The page section of the profile, without what depends on the resource. */
  page: Record<string, unknown>;
  /** Records per page that are asked for. */
  size: number;
}

/** What one resource showed is tried first with the next. */
export interface Conventions {
  /**
   * What the service does with a parameter that it does not know; `filters`: takes it for a filter by equality, so that
   * nothing is listed. Null while that is not known.
   */
  unknown: 'ignored' | 'refused' | 'filters' | null;
  /** Names of query parameters that a document, an index or a link of the service names. */
  parameters: Set<string>;
  page: PageConvention | null;
  /** Parameters by name, as `filter.ts` writes them. */
  filter: { form: QueryParams; format: string } | 'none' | null;
  /** The fields with the time of change. */
  updated: readonly string[];
  /** The path of one record after that of the listing, the field by which it is found, and where it stands. */
  item: { suffix: string; id: string; record: string } | null;
  /** Statuses for a record that is not there. */
  gone: number | null;
  /** Parameters that list what is not published as well; null while nothing was tried. */
  view: QueryParams | 'none' | null;
}

export interface Stage {
  asker: Asker;
  clock: Clock;
  conventions: Conventions;
  /** What a person should know beside the profile, as sentences. */
  notes: string[];
}

/** A listing that is being examined. */
export interface Subject extends Stage {
  /** The name of the resource. */
  name: string;
  /** Below the base URL. */
  path: string;
  /** Further parameters of each request. */
  query: QueryParams;
  /** The first page as it comes without a parameter. */
  first: Answer;
  /** Where the records stand. */
  at: string;
  /** Objects in the records that stand for a plain value. */
  unwrap: readonly UnwrapRule[];
  /** Parameters of the first page alone: it is refused without them. */
  starter: QueryParams;
  /** The longest run of records from the beginning of the listing that was seen. */
  records: JsonObject[];
  /** True if these are all that there are; null while that is not known. */
  isWhole: boolean | null;
  /** All that there are by the service's word. */
  total: number | null;
  /** Parameters with which the first page is asked, so that it holds as many records as the profile asks for. */
  firstPage: QueryParams;
  id: string;
  /** The field with the time of the last change, and those that stand in for it where it is null. */
  updated: string[];
  findings: Findings;
}

/** What tells a record from others on the pages of one listing. */
export function keyOf(record: JsonObject, id: string): string {
  const value = id === '' ? undefined : fieldAt(record, id);
  return JSON.stringify(value ?? record);
}

/** True if both hold the same records in the same order. */
export function isSamePage(a: readonly JsonObject[], b: readonly JsonObject[], id: string): boolean {
  return a.length === b.length && a.every((record, at) => keyOf(record, id) === keyOf(b[at] ?? {}, id));
}
