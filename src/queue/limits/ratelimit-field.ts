import { parseDictionary, parseList, Token, type InnerList, type Item } from 'structured-headers';

/** One member of a `RateLimit` or `RateLimit-Policy` field; times are seconds as written there. */
export interface FieldMember {
  name: string;
  limit?: number;
  remaining?: number;
  reset?: number;
  window?: number;
  /** False if `qu` names a unit other than requests. */
  requests: boolean;
}

/**
 * Members of `RateLimit`: the list of draft 8 and later (`"p";r=5;t=2`), or the dictionary of draft 7
 * (`limit=10, remaining=1, reset=7`). Null if the field is neither; members that say nothing are left out.
 */
export function rateLimitMembers(field: string): FieldMember[] | null {
  const list = attempt(parseList, field);
  if (list) return list.map(listMember).filter((member) => member.remaining !== undefined);
  const dictionary = attempt(parseDictionary, field);
  return dictionary ? [dictionaryMember(dictionary)].filter((member) => member.remaining !== undefined) : null;
}

/** Members of `RateLimit-Policy`: `"p";q=100;w=60`, or `100;w=60` as in draft 7. Null if it is no list. */
export function policyMembers(field: string): FieldMember[] | null {
  const list = attempt(parseList, field);
  return list ? list.map(listMember).filter((member) => member.limit !== undefined) : null;
}

function listMember([value, parameters]: Item | InnerList): FieldMember {
  const parameter = (key: string) => plainNumber(parameters.get(key));
  const unit = parameters.get('qu');
  return defined({
    name: typeof value === 'number' ? 'default' : nameIn(value),
    limit: typeof value === 'number' ? plainNumber(value) : parameter('q'),
    remaining: parameter('r'),
    reset: parameter('t'),
    window: parameter('w'),
    requests: unit === undefined || nameIn(unit) === 'requests',
  });
}

function dictionaryMember(dictionary: ReadonlyMap<string, Item | InnerList>): FieldMember {
  const value = (key: string) => plainNumber(dictionary.get(key)?.[0]);
  return defined({
    name: 'default',
    limit: value('limit'),
    remaining: value('remaining'),
    reset: value('reset'),
    requests: true,
  });
}

type Loose = { [K in keyof FieldMember]: FieldMember[K] | undefined } & { name: string; requests: boolean };

/** Leaves out what the field did not say. */
function defined(loose: Loose): FieldMember {
  const said = Object.entries(loose).filter(([, value]) => value !== undefined);
  return { name: loose.name, requests: loose.requests, ...Object.fromEntries(said) };
}

/** Names are strings; drafts had tokens. Anything else stands for one nameless quota. */
function nameIn(value: unknown): string {
  if (typeof value === 'string') return value;
  return value instanceof Token ? value.toString() : 'default';
}

function plainNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}

function attempt<T>(parse: (field: string) => T, field: string): T | null {
  try {
    return parse(field);
  } catch {
    return null;
  }
}
