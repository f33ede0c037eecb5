import type { JsonValue } from '../../model/json.ts';
import { isExact } from '../../shape/json/exact-number.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import { accountOf, bodyAccount, valueIn } from '../requests/body-account.ts';
import {
  absentStep,
  followed,
  type PageFacts,
  type PageProfiles,
  type PageStep,
  type PageStyle,
} from './page-style.ts';
import { isUnfit, withPlaces, type PlaceValue, type PlaceValues } from './page-variables.ts';
import { positionOf } from './position.ts';

/** The fields of a style whose pages are asked for by a cursor. */
interface CursorPlace {
  cursor_param: string | null;
  first_cursor: string | number | null;
}

/** Pages by a cursor that each answer names. */
export function cursorStyle(profile: PageProfiles['cursor']): PageStyle {
  return followed(profile, (facts) => nextByCursor(profile, facts), firstCursor(profile));
}

/** The cursor of a first request; nothing if that goes without one. */
export function firstCursor(profile: CursorPlace): PlaceValues {
  return profile.first_cursor === null ? {} : { [cursorPlace(profile)]: profile.first_cursor };
}

/** The request place of the cursor: if no parameter takes it, the templates that have `{cursor}`. */
export function cursorPlace({ cursor_param }: CursorPlace): string {
  return cursor_param ?? '{cursor}';
}

const FLAGS: ReadonlyMap<JsonValue | undefined, boolean | null> = new Map<JsonValue | undefined, boolean | null>([
  [true, true],
  ['true', true],
  [1, true],
  ['1', true],
  [false, false],
  ['false', false],
  [0, false],
  ['0', false],
  [null, null],
  [undefined, null],
]);

/**
 * The body carries a token for the next page. Null, false, the empty string and the values of `end.cursor` are the end; so is an absent token on a page
 * that is shorter than others which had one. `has_more`, if the profile names it, decides; missing or null, the token
 * alone decides.
 */
function nextByCursor(profile: PageProfiles['cursor'], facts: PageFacts): PageStep | GuardFault {
  const more = hasMore(profile, facts);
  if (more === false) return { end: 'signal' };
  if (typeof more === 'object' && more !== null) return more;
  const found = valueIn(facts, profile.next_cursor);
  const token = isEndValue(found, profile.end?.cursor ?? []) ? '' : tokenOf(found);
  if (token === null) return invalid(profile.next_cursor, found, 'a text, a number or null');
  if (token !== '') return cursorStep(profile, facts.url, { token, from: profile.next_cursor });
  if (more === true) {
    return missing(facts, `${profile.has_more} says that more follows, but ${profile.next_cursor} holds no cursor`);
  }
  return found === undefined
    ? absentStep(profile, facts, { place: profile.next_cursor, field: 'page.next_cursor' })
    : { end: 'signal' };
}

/** True, false, null if the answer does not say, or the fault of a value that is none of these. */
export function hasMore(
  profile: { has_more: string | null },
  facts: Pick<PageFacts, 'headers' | 'json'>,
): boolean | null | GuardFault {
  if (profile.has_more === null) return null;
  const found = valueIn(facts, profile.has_more);
  const flag = FLAGS.get(found);
  return flag === undefined ? invalid(profile.has_more, found, 'true or false') : flag;
}

/** True for a value in place of a token that says that no page follows. */
function isEndValue(found: JsonValue | undefined, declared: readonly (string | number)[]): boolean {
  if (typeof found === 'string' || typeof found === 'number') return declared.map(String).includes(String(found));
  return found === false;
}

/** The empty string if there is no token; null for a value that can be none. */
export function tokenOf(found: JsonValue | undefined): PlaceValue | null {
  if (found === undefined || found === null) return '';
  return typeof found === 'string' || typeof found === 'number' || isExact(found) ? found : null;
}

/** The step to the page behind a cursor that was found at `from`. */
export function cursorStep(
  profile: CursorPlace,
  url: URL,
  { token, from }: { token: PlaceValue; from: string },
): PageStep | GuardFault {
  const place = cursorPlace(profile);
  if (!isUnfit(place, token)) return { next: positionOf(withPlaces(url, { [place]: token })) };
  return {
    code: 'bad_cursor',
    message: `The cursor at ${from} holds control characters, or others that cannot be sent there`,
    hint: 'This is a fault of the service: report it there. The cursor was not sent back.',
  };
}

function missing(facts: PageFacts, message: string): GuardFault {
  return {
    code: 'pagination_missing',
    message,
    hint: `${bodyAccount(facts.json)} Set page.next_cursor in the profile to where the cursor is.`,
  };
}

/** The fault of a value that says nothing about the next page. */
export function invalid(path: string, found: JsonValue | undefined, expected: string): GuardFault {
  return {
    code: 'pagination_invalid',
    message: `At ${path} there is ${accountOf(found)}, expected ${expected}`,
    hint: 'Compare the page section of the profile with an answer of the service.',
  };
}
