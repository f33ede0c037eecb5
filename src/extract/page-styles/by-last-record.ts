import type { JsonValue } from '../../model/json.ts';
import { parseInstant } from '../../shape/columns/timestamps.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import { bodyAccount } from '../requests/body-account.ts';
import { cursorPlace, cursorStep, firstCursor, hasMore, tokenOf } from './by-cursor.ts';
import { followed, type PageFacts, type PageProfiles, type PageStep, type PageStyle } from './page-style.ts';
import { placedText, textOf, type PlaceValue } from './page-variables.ts';

/** Pages by a field of their records: each lists what lies behind the last record of the page before. */
export function keysetStyle(profile: PageProfiles['keyset']): PageStyle {
  const style = followed(profile, (facts) => nextByRecord(profile, facts), firstCursor(profile));
  return { ...style, mayHideNumbers: false };
}

/** An empty page is the end, whatever it says of more. */
function nextByRecord(profile: PageProfiles['keyset'], facts: PageFacts): PageStep | GuardFault {
  const { cursor_field, end, size } = profile;
  const { received, kept, url } = facts;
  const more = hasMore(profile, facts);
  if (typeof more === 'object' && more !== null) return more;
  if (received === 0) return more === true ? promised(profile) : { end: 'empty' };
  const values = facts.records.map(({ value }) => tokenOf(fieldAt(value, cursor_field)));
  const found = values.filter((value): value is PlaceValue => value !== null && value !== '');
  const last = found.at(-1);
  if (last === undefined || found.length < values.length) return withoutField(profile, facts.records[0]?.value ?? null);
  const sent = facts.url.href === facts.baseUrl.href ? null : placedText(url, cursorPlace(profile));
  const order = [...(sent === null ? [] : [sent]), ...found.map(textOf)];
  if (!isStrict(order)) return unsorted(profile);
  if (more === false) return { end: 'signal' };
  if (end?.short_page === true && received < size && kept >= size) return { end: 'short' };
  return cursorStep(profile, url, { token: last, from: cursor_field });
}

type Comparison = (a: string, b: string) => number;

const numbers: Comparison = (a, b) =>
  /^-?\d+$/.test(a) && /^-?\d+$/.test(b) ? sign(BigInt(a), BigInt(b)) : Number(a) - Number(b);
const instants: Comparison = (a, b) =>
  (parseInstant(a)?.epochMs ?? Number.NaN) - (parseInstant(b)?.epochMs ?? Number.NaN);
const codes: Comparison = (a, b) => sign(a, b);
const words: Comparison = (a, b) => a.localeCompare(b, 'en');

/** The orders in which a service may sort texts that are its own. */
const COMPARISONS: readonly Comparison[] = [numbers, instants, codes, words];

/** True if the values rise, or fall, without any two alike, in one of the orders that they may be in. */
function isStrict(values: readonly string[]): boolean {
  if (new Set(values).size < values.length) return false;
  return COMPARISONS.some((compare) => {
    const steps = values.slice(1).map((value, at) => compare(value, values[at] ?? ''));
    return steps.every((step) => step > 0) || steps.every((step) => step < 0);
  });
}

function sign<T extends string | bigint>(a: T, b: T): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function promised({ has_more }: PageProfiles['keyset']): GuardFault {
  return {
    code: 'pagination_missing',
    message: `${has_more} says that more follows, but the page has no record behind which it could`,
    hint: 'Run again; if it stays, set page.has_more: null in the profile, or report it to the service.',
  };
}

function withoutField({ cursor_field }: PageProfiles['keyset'], record: JsonValue): GuardFault {
  return {
    code: 'pagination_missing',
    message: `A record has no text or number at ${cursor_field}, by which the page behind it is asked for`,
    hint: `${bodyAccount(record).replace('The body', 'A record')} Set page.cursor_field in the profile to the field by which the listing is sorted.`,
  };
}

function unsorted({ cursor_field }: PageProfiles['keyset']): GuardFault {
  return {
    code: 'guard_unsorted',
    message: `The records are not sorted by ${cursor_field} without two alike, behind the one that the page was asked for`,
    hint:
      'Pages that begin behind a record need a listing that is sorted by page.cursor_field: name the sort in query of the ' +
      'profile, check page.cursor_param, and take a field of which no two records share a value, such as the id.',
  };
}
