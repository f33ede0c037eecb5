import type { JsonValue } from '../../model/json.ts';
import { fieldAt, isObject } from '../../shape/records/field-at.ts';
import { isExact } from '../../shape/json/exact-number.ts';
import type { GuardFault } from '../guards/guard-fault.ts';
import { invalid } from './by-cursor.ts';
import {
  absentStep,
  followed,
  type PageFacts,
  type PageProfiles,
  type PageStep,
  type PageStyle,
} from './page-style.ts';
import { isUnfit, isUnsendable, type PlaceValue, withPlaces } from './page-variables.ts';
import { positionOf } from './position.ts';

/** Pages by an object in the answer, whose entries are added to the parameters of the first request. */
export function continuationStyle(profile: PageProfiles['continuation']): PageStyle {
  return followed(profile, (facts) => nextByContinuation(profile, facts));
}

/** Null, false and an object without entries are the end. */
function nextByContinuation(profile: PageProfiles['continuation'], facts: PageFacts): PageStep | GuardFault {
  const { continuation: place } = profile;
  const found = fieldAt(facts.json, place);
  if (found === undefined) return absentStep(profile, facts, { place, field: 'page.continuation' });
  if (found === null || found === false) return { end: 'signal' };
  if (!isObject(found)) return invalid(place, found, 'an object with parameters, null or false');
  const added: Record<string, PlaceValue> = {};
  for (const [name, value] of Object.entries(found)) {
    if (!isScalar(value)) return invalid(`${place}.${name}`, value, 'a text, a number or a boolean');
    const at = placeFor(profile, facts.baseUrl, name);
    const one = typeof value === 'boolean' ? String(value) : value;
    if (at === null || isUnfit(at, one)) return badName(place, name);
    added[at] = one;
  }
  if (Object.keys(added).length === 0) return { end: 'signal' };
  // Parameters that only the page before was asked with are left out.
  return { next: positionOf(withPlaces(facts.baseUrl, added)) };
}

function isScalar(value: JsonValue): value is PlaceValue | boolean {
  return ['string', 'number', 'boolean'].includes(typeof value) || isExact(value);
}

/** The place of an entry; null for a name by which the service would change what is asked for. */
function placeFor({ continuation_param }: PageProfiles['continuation'], first: URL, name: string): string | null {
  if (isUnsendable(name) || name === '') return null;
  if (continuation_param !== null)
    return /^[^.]+$/.test(name) && name !== '__proto__' ? `${continuation_param}.${name}` : null;
  // Nor is a parameter of the profile stored with the position.
  const isOther = first.searchParams.has(name) || /^(?:header:|body:|\{)/.test(name);
  return isOther ? null : name;
}

function badName(place: string, name: string): GuardFault {
  return {
    code: 'bad_cursor',
    message: `At ${place} there is an entry ${JSON.stringify(name.slice(0, 60))} that cannot be added to the request, or would change what it asks for`,
    hint: 'Leave that parameter out of query in the profile if the service has to set it; else report it to the service.',
  };
}
