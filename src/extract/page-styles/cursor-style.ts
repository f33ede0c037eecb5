import type { JsonValue } from '../../model/json.ts';
import type { PageProfile } from '../../source/page-style.ts';
import { isExact } from '../../shape/json/exact-number.ts';
import { fieldAt } from '../../shape/records/field-at.ts';
import { accountOf, bodyAccount } from '../requests/body-account.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import { absentStep, sizeParam, type PageFacts, type PageStep, type PageStyle } from './page-style.ts';
import { isUnsendable, positionOf, withParams } from './position.ts';

type CursorProfile = Extract<PageProfile, { style: 'cursor' }>;

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
 * The body carries a token for the next page. Null and the empty string are the end; so is an absent token on a page
 * that is shorter than others which had one. `has_more`, if the profile names it, decides; missing or null, the token
 * alone decides.
 */
export function cursorStyle(profile: CursorProfile): PageStyle {
  return {
    first: sizeParam(profile),
    next: (facts) => nextByCursor(profile, facts),
    mayHideNumbers: true,
    ahead: null,
  };
}

function nextByCursor(profile: CursorProfile, facts: PageFacts): PageStep | GuardFault {
  const more = hasMore(profile, facts.json);
  if (more === false) return { end: 'signal' };
  if (typeof more === 'object' && more !== null) return more;
  const found = fieldAt(facts.json, profile.next_cursor);
  const token = tokenOf(found);
  if (token === null) return invalid(profile.next_cursor, found, 'a text, a number or null');
  if (token !== '') return positionAt(profile, facts.url, token);
  if (more === true) {
    return missing(facts, `${profile.has_more} says that more follows, but ${profile.next_cursor} holds no cursor`);
  }
  return found === undefined
    ? absentStep(profile, facts, { place: profile.next_cursor, field: 'page.next_cursor' })
    : { end: 'signal' };
}

/** True, false, null if the answer does not say, or the fault of a value that is none of these. */
function hasMore(profile: CursorProfile, json: JsonValue): boolean | null | GuardFault {
  if (profile.has_more === null) return null;
  const found = fieldAt(json, profile.has_more);
  const flag = FLAGS.get(found);
  return flag === undefined ? invalid(profile.has_more, found, 'true or false') : flag;
}

/** The empty string if there is no token; null for a value that can be none. */
function tokenOf(found: JsonValue | undefined): string | null {
  if (found === undefined || found === null) return '';
  if (typeof found === 'string') return found;
  if (typeof found === 'number') return String(found);
  return isExact(found) ? found.rawJSON : null;
}

function positionAt(profile: CursorProfile, url: URL, token: string): PageStep | GuardFault {
  if (!isUnsendable(token)) return { next: positionOf(withParams(url, { [profile.cursor_param]: token })) };
  return {
    code: 'bad_cursor',
    message: `The cursor at ${profile.next_cursor} holds control characters or half characters`,
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

function invalid(path: string, found: JsonValue | undefined, expected: string): GuardFault {
  return {
    code: 'pagination_invalid',
    message: `At ${path} there is ${accountOf(found)}, expected ${expected}`,
    hint: 'Compare the page section of the profile with an answer of the service.',
  };
}
