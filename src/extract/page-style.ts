import type { JsonValue } from '../model/json.ts';
import type { GuardFault } from './guard-fault.ts';
import type { PagePosition } from './page.ts';

/** What an answer says about the page after it. */
export interface PageFacts {
  /** The request of this page. */
  url: URL;
  /** Where the answer came from in the end: relative links are read against it. */
  answeredUrl: URL;
  baseUrl: URL;
  headers: Readonly<Record<string, string | string[] | undefined>>;
  json: JsonValue;
  /** Records on this page. */
  received: number;
  /** Records on all pages of the walk, this one included; null after a resume, where nobody counted. */
  seen: number | null;
  /** How many there are in all, as this answer tells it. */
  total: number | null;
}

/** A way of cutting a listing into pages, bound to its parameters. Pure: from an answer to the next request. */
export interface PageStyle {
  /** Query parameters of the first page. */
  first: Readonly<Record<string, string>>;
  /** The position after this page, null at the end of the listing, or what is wrong with the answer. */
  next(facts: PageFacts): PagePosition | null | GuardFault;
  /** Foresight for styles that number their pages; null where only an answer knows what comes next. */
  ahead: Foresight | null;
}

/** What numbered pages allow: to name pages before the page in front of them has arrived. */
export interface Foresight {
  /** The position after `position`, if the page there holds `count` records. */
  after(position: URL, count: number): PagePosition;
  /** How many records lie before `position`, if every page holds `count`. */
  before(position: URL, count: number): number;
}
