import type { CacheHabits } from '../address-cache.ts';
import type { Random } from '../random.ts';
import { drawOddities, GONE_SPELLINGS, type GoneSpelling, type Oddities } from './oddities.ts';

/** How a listing is cut, and by what a page names the next one. */
export const STYLES = [
  'cursor-keyset',
  'cursor-offset',
  'page',
  'offset',
  'link-keyset',
  'link-page',
  'url-keyset',
  'url-offset',
] as const;
export type Style = (typeof STYLES)[number];

/** What a service does, whatever its documentation says; plain data, so that it can be printed. Times in ms. */
export interface Behaviour {
  /** Records when the story begins. */
  records: number;
  ids: 'integers' | 'uuids' | 'odd' | 'composite';
  style: Style;
  /** Body path of the records; the empty string where the body is the array. */
  recordsAt: string;
  /** Body path of the cursor or the URL of the next page, and what stands there on the last one. */
  nextAt: string;
  end: 'null' | 'absent' | 'empty' | 'false' | 'zero';
  /** Body path of a boolean that says whether more follows. */
  moreAt: string | null;
  total: Total;
  size: { kind: 'kept' | 'cut' | 'ignored'; most: number };
  firstPage: 0 | 1;
  pastEnd: 'empty' | 404 | 400;
  /** A full last page names a next one, which is empty. */
  promisesAfterFull: boolean;
  order: { by: 'id' | 'updated' | 'title' | 'initial' | 'insertion'; isDescending: boolean };
  times: Times;
  filter: Filter;
  /** Parameters that the service does not know are refused with 400. */
  isStrict: boolean;
  odd: Oddities;
  item: Item;
  lag: { ms: number; chance: number };
  /** In front of it. */
  cache: CacheHabits;
  drift: { chance: number; most: number };
  /** A wrong key is answered as anybody would be. */
  key: 'right' | 'wrong';
  /** Texts are written with escapes where they need none. */
  isEscaped: boolean;
  /** Part of the records that anybody may see. */
  publicPart: number;
  /** How long an answer takes; how far its clock is off; whether it tells the time. */
  clock: { answerMs: number; skewMs: number; isTold: boolean };
}

/** How many there are, as the service tells it. */
export interface Total {
  at: 'none' | 'body' | 'header';
  /** Body path or name of the header. */
  name: string;
  of: 'records' | 'pages' | 'page';
  off: 'right' | 'more' | 'fewer' | 'capped';
}

interface Times {
  /** A record's time is cut to this. */
  resolution: 1 | 1_000 | 60_000;
  form: 'iso_ms' | 'iso_s' | 'offset' | 'naive' | 'epoch_s' | 'epoch_ms';
  /** Where the time of change stands in a record. */
  name: string;
  /** A record that was never updated has none. */
  isNullAtFirst: boolean;
  /** How long a change may be written before it is seen: its time is so much older. */
  lateMs: number;
}

export interface Filter {
  kind: 'gte' | 'gt' | 'ignored' | 'nothing' | 'text' | 'seconds' | 'none';
  param: string;
  /** Whether a record without a time of change is found by its time of creation. */
  findsNull: boolean;
}

export interface Item {
  kind: 'same' | 'narrow' | 'expanded' | 'other_key' | 'no_drafts' | 'none';
  /** Body path of the record. */
  recordAt: string;
  /** What is answered for a record that is gone. */
  gone: 404 | 410 | 403 | GoneSpelling;
  isLagging: boolean;
  /** A record that is no longer listed can still be read. */
  showsUnlisted: boolean;
}

/** Draws a service. Everything that it does is in what is returned. */
export function drawBehaviour(random: Random): Behaviour {
  return { ...drawService(random), cache: drawCache(random) };
}

/** None that hides what it does: nothing shows what such a one has kept. */
function drawCache(random: Random): CacheHabits {
  const tells = random.pick(['nothing', 'age', 'age and lifetime'] as const);
  const ms = random.chance(0.25) ? random.whole(2, 300) * 1_000 : 0;
  return { ms, tells, isHeeding: tells === 'nothing' || random.chance(0.3) };
}

function drawService(random: Random): Omit<Behaviour, 'cache'> {
  const style = random.pick(STYLES);
  const recordsAt = random.pick(isBare(style) ? ['', '', 'data'] : ['data', 'data', 'items', 'response.results']);
  const isLagging = random.chance(0.25);
  return {
    records: random.pick([0, 1, 5, 12, 20, 30, 40, 60, 120]) + random.whole(0, 4),
    ids: random.pick(['integers', 'integers', 'uuids', 'uuids', 'odd', 'composite']),
    style,
    recordsAt,
    nextAt: random.pick(['next_cursor', 'next', 'meta.next', 'paging.cursors.after']),
    end: random.pick([
      'null',
      'null',
      'absent',
      'absent',
      'empty',
      'false',
      ...(style.startsWith('cursor') ? ['zero' as const] : []),
    ]),
    moreAt: style.startsWith('cursor') && random.chance(0.3) ? random.pick(['has_more', 'meta.hasMore']) : null,
    total: drawTotal(random, recordsAt),
    size: { kind: random.pick(['kept', 'kept', 'cut', 'ignored']), most: random.whole(2, 10) },
    firstPage: random.pick([1, 1, 1, 0]),
    pastEnd: random.pick(['empty', 'empty', 'empty', 404, 400]),
    promisesAfterFull: random.chance(0.3),
    order: {
      by: random.pick(['id', 'id', 'updated', 'updated', 'title', 'initial', 'insertion']),
      isDescending: random.chance(0.5),
    },
    times: drawTimes(random),
    filter: drawFilter(random),
    isStrict: random.chance(0.25),
    odd: drawOddities(random),
    item: drawItem(random, isLagging),
    lag: isLagging ? { ms: random.whole(2, 120) * 1_000, chance: random.pick([0.1, 0.4, 0.8]) } : { ms: 0, chance: 0 },
    drift: random.pick([
      { chance: 0, most: 0 },
      { chance: 0.1, most: 1 },
      { chance: 0.2, most: 2 },
      { chance: 0.6, most: 3 },
    ]),
    key: random.chance(0.05) ? 'wrong' : 'right',
    isEscaped: random.chance(0.15),
    publicPart: random.pick([1, 0.8]),
    clock: {
      answerMs: random.pick([20, 100, 400, 5_000, 60_000]),
      skewMs: random.pick([0, 0, 90_000, -3_600_000]),
      isTold: random.chance(0.9),
    },
  };
}

/** Styles in which the body need not be more than the records. */
function isBare(style: Style): boolean {
  return style === 'page' || style === 'offset' || style.startsWith('link');
}

const TOTAL_NAMES: Readonly<Record<Total['of'], readonly string[]>> = {
  records: ['total', 'count', 'meta.pagination.total'],
  pages: ['pages', 'meta.last_page'],
  page: ['count', 'meta.count'],
};

function drawTotal(random: Random, recordsAt: string): Total {
  const at = random.pick(['none', 'none', 'body', 'body', 'header'] as const);
  const of = random.pick(['records', 'records', 'records', 'pages', 'page'] as const);
  const off = random.chance(0.9) ? 'right' : random.pick(['more', 'fewer', 'capped'] as const);
  if (at === 'none' || (at === 'body' && recordsAt === '')) return { at: 'none', name: '', of: 'records', off };
  if (at === 'header') return { at, name: of === 'pages' ? 'X-Total-Pages' : 'X-Total-Count', of, off };
  return { at, name: random.pick(TOTAL_NAMES[of]), of, off };
}

function drawTimes(random: Random): Times {
  return {
    resolution: random.pick([1, 1_000, 1_000, 60_000]),
    form: random.pick(['iso_ms', 'iso_ms', 'iso_s', 'offset', 'naive', 'epoch_s', 'epoch_ms']),
    name: random.pick(['updated_at', 'updated_at', 'modified', 'sys.updatedAt']),
    isNullAtFirst: random.chance(0.2),
    lateMs: random.pick([0, 0, 2_000, 30_000]),
  };
}

function drawFilter(random: Random): Filter {
  const kinds = ['gte', 'gte', 'gte', 'gt', 'seconds', 'none', 'none', 'ignored', 'nothing', 'text'] as const;
  const param = random.pick(['updated_since', 'modified_after', 'filter[updated]']);
  return { kind: random.pick(kinds), param, findsNull: random.chance(0.5) };
}

function drawItem(random: Random, isLagging: boolean): Item {
  const kinds = [
    'same',
    'same',
    'same',
    'same',
    'none',
    'none',
    'narrow',
    'expanded',
    'other_key',
    'no_drafts',
  ] as const;
  return {
    kind: random.pick(kinds),
    recordAt: random.pick(['', '', 'data']),
    gone: random.chance(0.4) ? random.pick(GONE_SPELLINGS) : random.pick([404, 404, 404, 410, 403]),
    isLagging: isLagging && random.chance(0.4),
    showsUnlisted: random.chance(0.3),
  };
}
