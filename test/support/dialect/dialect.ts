import type { Random } from '../random.ts';
import { drawOddities, type GoneSpelling, type Oddities } from './oddities.ts';
import type { Value } from '../world/json-value.ts';
import type { Post, Posts } from './posts.ts';
import type { Arguments, Asked, Place } from './service.ts';
import type { Answer } from './oddities.ts';

/** Fields of the profile; objects are merged with those of other dimensions. */
export type Patch = Readonly<Record<string, unknown>>;
/** What a variant says in the profile: of the service, and of the resource. */
export interface Said {
  service?: Patch;
  resource?: Patch;
}

/** One way in which services differ from others in a dimension. */
interface Variant {
  name: string;
  /** What the profile says of it. */
  profile: (dialect: Dialect) => Said;
  /** Codes of warnings with which a copy of such a service may stay in doubt: it does not show what would prove more. */
  doubts?: readonly string[];
}

export interface AuthVariant extends Variant {
  /** `auth` of the source's settings. */
  settings: Patch;
  /** A door for a new service; it gives the answer in place of the service, or null where the request may pass. */
  door: (lifeMs: number) => (asked: Asked) => Answer | null;
}

export interface RequestVariant extends Variant {
  method: 'GET' | 'POST';
  /** Where an argument of this name stands. */
  place: (name: string) => Place;
  /** What is wrong with the request besides its arguments; null where nothing is. */
  fault: (args: Arguments) => string | null;
}

export interface EnvelopeVariant extends Variant {
  isBare?: boolean;
  /** Body path of the list of records, if a page without records may be written otherwise. */
  recordsAt?: string;
  /** The records lose their order. */
  isMap?: boolean;
  /** The body of a page: its records by their ids, and what stands beside them by dotted paths. */
  wrap: (records: readonly (readonly [string, Value])[], beside: readonly (readonly [string, Value])[]) => Value;
  /** A moment within a record. */
  moment?: (moment: Value) => Value;
}

/** What a page is cut from. */
export interface Cutting {
  dialect: Dialect;
  posts: readonly Post[];
  /** Records asked for, cut to what the service allows. */
  size: number;
  args: Arguments;
}

export interface Cut {
  posts: readonly Post[];
  refusal?: number;
  /** What stands in the body beside the records, by dotted paths. */
  beside?: readonly (readonly [string, Value])[];
  headers?: Readonly<Record<string, string>>;
}

export interface PageVariant extends Variant {
  /** Where the page says how it goes on. */
  signal: 'body' | 'header' | 'none';
  /** Its next page is a link, so that all arguments stand in the query. */
  isLinked?: boolean;
  /** It goes on behind the last record of the page before. */
  isKeyset?: boolean;
  /** A page that holds fewer than asked for is the last one. */
  isShortEnd?: boolean;
  /** Everything comes at once. */
  isWhole?: boolean;
  /** A page is cut by the number of records before it, so that any order may be unstable. */
  isByNumber?: boolean;
  cut: (cutting: Cutting) => Cut;
}

export interface FilterVariant extends Variant {
  /** A post that was never updated has no time of change. */
  isNullAtFirst?: boolean;
  /** Newest first, whatever else the order would be. */
  isNewestFirst?: boolean;
  tellsDeletes?: boolean;
  route?: (args: Arguments, posts: Posts, dialect: Dialect) => Answer | null;
  /** Forms of moments that it does not read. */
  forms?: (form: TimeForm) => boolean;
  /** The posts that are asked for; a status where the request is refused. */
  find: (args: Arguments, posts: readonly Post[], dialect: Dialect) => readonly Post[] | number;
}

export interface DeleteVariant extends Variant {
  /** What a single read says of a post that is not there; null where there are no single reads. */
  gone: number | null;
  /** How a single read says it in place of that status. */
  spelling?: GoneSpelling;
  /** What a live post holds beside its own fields, and a trashed one; null where a delete leaves nothing. */
  tomb: { live: readonly [string, Value]; trashed: (at: number, form: TimeForm) => readonly [string, Value] } | null;
  /** True where a sync learns of a delete. */
  isTold: boolean;
  /** Another path of the service, if the variant has one; null where it does not lead there. */
  route?: (args: Arguments, posts: Posts, dialect: Dialect) => Answer | null;
}

export interface PlaceVariant extends Variant {
  /** The places that there are; null where the service knows none. */
  values: readonly string[] | null;
  /** Of the listing, with the template of the place where one stands in it. */
  path: string;
  /** The place that a listing is asked for; undefined where the path is that of no listing. */
  locate: (args: Arguments, path: string) => string | null | undefined;
  /** The record that is read alone; undefined where the path is that of no record. */
  locateItem: (args: Arguments, path: string) => { place: string | null; id: string } | undefined;
  /** What its record says of its place; false where only the listing shows it. */
  isTold: boolean;
  /** Another path of the service, if the variant has one. */
  route?: (path: string) => Answer | null;
}

export interface HookVariant extends Variant {
  /** The bodies of the deliveries after these posts, by their ids, were changed or deleted; null where none are sent. */
  events: ((ids: readonly string[], isDelete: boolean) => readonly Value[]) | null;
  /** Events name no post. */
  isWalked?: boolean;
}

/** A form in which a service writes and reads moments. */
export interface TimeForm extends Variant {
  /** Its moments are cut to this, in milliseconds. */
  resolution: number;
  write: (at: number) => Value;
  /** What the profile says of a moment in a request: the format in which it is sent. */
  format: string;
}

/** Everything that a service does, as it was drawn. */
export interface Dialect {
  auth: AuthVariant;
  request: RequestVariant;
  envelope: EnvelopeVariant;
  page: PageVariant;
  filter: FilterVariant;
  deletes: DeleteVariant;
  places: PlaceVariant;
  times: TimeForm;
  hooks: HookVariant;
  /** Posts of another kind stand in the listing, and the profile filters them out. */
  isMixed: boolean;
  records: number;
  ids: 'integers' | 'uuids' | 'odd';
  /** Records per page that the profile asks for, and the most that the service gives. */
  size: { asked: number; most: number };
  order: { by: 'id' | 'updated' | 'title' | 'initial'; isDescending: boolean };
  /** Query parameters that it does not know are refused. */
  isStrict: boolean;
  odd: Oddities;
  /** One place whose listing is refused for good, with this status. */
  refused: { place: string; status: 403 | 422 | 500 } | null;
  /** How long a change may be written before it is seen; its time is so much older. */
  lateMs: number;
  lookbackMs: number;
  answerMs: number;
  /** How long a token lives. */
  lifeMs: number;
  /** How often somebody edits between two requests. */
  drift: number;
  /** How often a request is answered 503. */
  trouble: number;
}

/** The dimensions whose variants are tables. */
export const DIMENSIONS = [
  'auth',
  'request',
  'envelope',
  'page',
  'filter',
  'deletes',
  'places',
  'times',
  'hooks',
] as const;
export type Dimension = (typeof DIMENSIONS)[number];
export type Tables = { readonly [D in Dimension]: readonly Dialect[D][] };

/** Draws that no service is: it has nowhere to say what the one needs of the other. */
const CLASHES: readonly ((dialect: Dialect) => boolean)[] = [
  ({ page, envelope }) => page.signal === 'body' && envelope.isBare === true,
  ({ page, request }) => page.isLinked === true && request.place('a') !== 'a',
  ({ page, envelope }) => page.isKeyset === true && envelope.isMap === true,
  // A header takes no letters beyond Latin-1, nor do services agree on how they are written there.
  ({ page, ids, request }) => page.isKeyset === true && ids === 'odd' && request.place('a').startsWith('header:'),
  ({ page, size }) => page.isShortEnd === true && size.most < size.asked,
  ({ filter, envelope }) => filter.isNewestFirst === true && envelope.isMap === true,
  ({ filter, page }) => filter.isNewestFirst === true && page.isKeyset === true,
  ({ filter, times }) => filter.forms?.(times) === false,
  // Two places of one moment stand in the query.
  ({ filter, request }) => filter.isNullAtFirst === true && request.place('a').includes(':'),
  // No client can use a token that is old when it comes: each answer takes its time from all others here.
  ({ lifeMs, answerMs }) => lifeMs < 20 * answerMs,
  ({ filter, places, deletes }) => filter.tellsDeletes === true && (places.values !== null || deletes.tomb !== null),
  ({ hooks, places }) => hooks.events !== null && places.values !== null,
  // A listing that is cut off has no number of all.
  ({ odd, page }) => isUnstable(odd) && page.isByNumber !== true,
  ({ envelope, times }) => envelope.moment !== undefined && times.name !== 'iso_ms',
];

/** True if each request may put records with the same sort field in another order. */
export function isUnstable({ ties }: Oddities): boolean {
  return ties === 'by_url' || ties === 'by_request';
}

/** Draws a service from the tables, until nothing in it clashes. */
export function drawDialect(random: Random, tables: Tables): Dialect {
  for (;;) {
    const dialect = drawOnce(random, tables);
    if (!CLASHES.some((clashes) => clashes(dialect))) return dialect;
  }
}

function drawOnce(random: Random, tables: Tables): Dialect {
  const places = random.pick(tables.places);
  const isRefused = places.values !== null && random.chance(0.3);
  return {
    auth: random.pick(tables.auth),
    request: random.pick(tables.request),
    envelope: random.pick(tables.envelope),
    page: random.pick(tables.page),
    filter: random.pick(tables.filter),
    deletes: random.pick(tables.deletes),
    places,
    times: random.pick(tables.times),
    hooks: random.pick(tables.hooks),
    isMixed: random.chance(0.2),
    records: random.pick([1, 5, 12, 20, 30, 40]) + random.whole(0, 4),
    ids: random.pick(['integers', 'uuids', 'uuids', 'odd']),
    size: drawSize(random),
    order: { by: random.pick(['id', 'id', 'updated', 'title', 'initial']), isDescending: random.chance(0.5) },
    isStrict: random.chance(0.4),
    odd: drawOddities(random),
    refused: isRefused ? { place: random.pick(places.values ?? []), status: random.pick([403, 422, 500]) } : null,
    lateMs: random.pick([0, 0, 2_000, 30_000]),
    lookbackMs: random.pick([60_000, 600_000, 600_000]),
    answerMs: random.pick([20, 100, 400]),
    lifeMs: random.pick([1_000, 5_000, 600_000]),
    drift: random.pick([0, 0, 0.1, 0.3]),
    trouble: random.pick([0, 0, 0.03]),
  };
}

function drawSize(random: Random): Dialect['size'] {
  const asked = random.pick([2, 3, 5, 8, 20]);
  return { asked, most: random.chance(0.7) ? 100 : random.whole(2, 10) };
}

/** The dialect by its names, for whoever reads of a failure. */
export function describeDialect(dialect: Dialect): string {
  const named = DIMENSIONS.map((dimension) => `${dimension}: ${dialect[dimension].name}`).join('; ');
  const rest = Object.entries(dialect).filter(([name]) => !DIMENSIONS.some((dimension) => dimension === name));
  return `${named}; ${JSON.stringify(Object.fromEntries(rest))}`;
}
