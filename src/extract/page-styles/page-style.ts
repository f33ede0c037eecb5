import type { JsonValue, SourceRecord } from '../../model/json.ts';
import type { PageProfile } from '../../source/page-style.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import type { PagePosition } from '../page.ts';
import { bodyAccount } from '../requests/body-account.ts';
import type { EndProof } from '../guards/walk-end.ts';
import type { PlaceValues } from './page-variables.ts';

/** The profiles by their style. */
export type PageProfiles = { [P in PageProfile as P['style']]: P };

/** The part of an answer that may tell of the page after it. */
export interface PageFacts {
  /** The request of this page. */
  url: URL;
  /** The URL that answered in the end: relative links are read against it. */
  answeredUrl: URL;
  baseUrl: URL;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  json: JsonValue;
  /** Query parameters that hold the credential (see `ApiAnswer`). */
  withheld?: readonly string[] | undefined;
  /** The records of this page, and how many they are. */
  records: readonly SourceRecord[];
  received: number;
  /** True if it holds no record, or only the last one of the page before, with which it was asked to begin. */
  isEmpty: boolean;
  /** Records on all pages of the walk, this one included; null after a resume, where nobody counted. */
  seen: number | null;
  /** How many there are in all, as this answer tells it. */
  total: number | null;
  /** How many pages there are in all, as this answer tells it. */
  pages: number | null;
  /** The most records that a page held which named a next one, in this walk or an earlier one; 0 if none did. */
  kept: number;
}

/** The listing goes on at `next`; or it ends, by what shows it; or nothing is there that says either. */
export type PageStep = { next: PagePosition } | { end: EndProof } | { end: null; fault: GuardFault };

/** A way of cutting a listing into pages, bound to its parameters. Pure: from an answer to the next request. */
export interface PageStyle {
  /** Values of the first page, by request place. */
  first: PlaceValues;
  /** The step after this page, or the fault of the answer. */
  next(facts: PageFacts): PageStep | GuardFault;
  /** True if the links or cursors that it follows may hold page numbers, which a moving listing shifts. */
  mayHideNumbers: boolean;
  /** Foresight for styles that number their pages; null if only an answer knows what comes next. */
  ahead: Foresight | null;
}

/** Foresight of numbered pages: they can be named before the page in front of them has arrived. */
export interface Foresight {
  /** The position after `position`, if the page there holds `count` records. */
  after(position: URL, count: number): PagePosition;
  /** The page before the first one, which must not be there; null if there can be none. */
  beforeFirst(first: URL): PagePosition | null;
  /** How many records lie before `position`, if every page holds `count`. */
  before(position: URL, count: number): number;
  /** A request for the page that begins `count` records sooner; null if pages cannot begin anywhere. */
  sooner(position: URL, count: number): URL | null;
  /** The page of this index, that of the first is 0; null if pages begin wherever the one before ended. */
  paged(position: URL, index: number): PagePosition | null;
  /** The page that holds the record of this index if pages hold `size`; null if the size cannot be asked for. */
  holding(position: URL, record: number, size: number): URL | null;
}

/** A style in which each answer leads to the page after it; `first`: what the first request has besides the size. */
export function followed(profile: PageProfile, next: PageStyle['next'], first: PlaceValues = {}): PageStyle {
  return { first: { ...first, ...sizeParam(profile) }, next, mayHideNumbers: true, ahead: null };
}

/** The request place that asks for the profile's page size; none if the service has no such parameter. */
export function sizeParam(profile: Pick<PageProfile, 'size' | 'size_param'>): PlaceValues {
  return profile.size_param === null ? {} : { [profile.size_param]: profile.size };
}

/**
 * The step after a page without `place`, in which the profile's `field` says that the next one is named. It is the end on a
 * page that is shorter than one that named a next page, or if the profile says so and an earlier page had it; else it may
 * as well be a profile that does not fit.
 */
export function absentStep(
  profile: { absent_is_end: boolean },
  facts: PageFacts,
  { place, field }: { place: string; field: string },
): PageStep {
  if (facts.kept > 0 && facts.received < facts.kept) return { end: 'short' };
  if (facts.kept > 0 && profile.absent_is_end) return { end: 'signal' };
  const isFirst = facts.kept === 0;
  return {
    end: null,
    fault: {
      code: 'pagination_missing',
      message: `A page of ${facts.received} records carries no ${place}${isFirst ? ', nor has any page before it' : ''}`,
      hint:
        `${bodyAccount(facts.json)} Set ${field} in the profile to where the service names the next page, or ` +
        'page.total or page.pages to where it tells how much there is.',
    },
  };
}
