import type { Random } from '../random.ts';
import { type Behaviour, declaredEmpty, ignoredTotals } from './behaviour.ts';

/** What a person has written of the service, and where they were wrong. */
export interface Written {
  /** The resource's part of the profile. */
  resource: Record<string, unknown> & { page: Record<string, unknown> };
  wrong: string | null;
  size: number;
  lookbackMs: number;
  /** What identifies a record. */
  id: string | string[];
  history: 'all' | 'latest';
}

/** What a person may get wrong: each changes the profile, or returns false where it does not concern this service. */
type Slip = (resource: Written['resource'], behaviour: Behaviour) => boolean;

const SLIPS: Readonly<Record<string, Slip>> = {
  'filter parameter': (resource) => {
    if (resource['incremental'] === null) return false;
    resource['incremental'] = Object.assign({}, resource['incremental'], { param: 'changed_after' });
    return true;
  },
  'no total': ({ page }) => changed(page, 'total', null),
  'total elsewhere': ({ page }, { total }) => total.at === 'body' && changed(page, 'total', 'no.such.total'),
  'absent is end': ({ page }) => 'absent_is_end' in page && changed(page, 'absent_is_end', true),
  'next elsewhere': ({ page }) => {
    const name = 'next_cursor' in page ? 'next_cursor' : 'next_url';
    return name in page && changed(page, name, 'pagination.no_such_next');
  },
  'next elsewhere, absent is end': ({ page }) => {
    const name = 'next_cursor' in page ? 'next_cursor' : 'next_url';
    if (!(name in page)) return false;
    changed(page, 'absent_is_end', true);
    return changed(page, name, 'pagination.no_such_next');
  },
  'no has_more': ({ page }) => page['has_more'] !== undefined && changed(page, 'has_more', null),
  'records elsewhere': (resource) => changed(resource, 'records', 'records_list'),
  'link style': (resource, { recordsAt }) => {
    if (recordsAt === '' && resource.page['style'] !== 'link') return false;
    const { size, size_param } = resource.page;
    resource.page = { style: 'link', size, size_param };
    return true;
  },
  'page style': (resource) => {
    const { size, size_param } = resource.page;
    resource.page = { style: 'page', size, size_param, page_param: 'pg' };
    return true;
  },
  'item path': (resource) => resource['item'] !== null && changed(resource, 'item', '/content/one/{id}'),
  'created for updated': (resource) => changed(resource, 'updated', 'created_at'),
  'first page': ({ page }) => 'first' in page && changed(page, 'first', page['first'] === 0 ? 1 : 0),
  'size parameter': ({ page }) => changed(page, 'size_param', 'how_many'),
  'total of something else': ({ page }, { total }) => {
    if (total.at !== 'body' || total.of === 'records') return false;
    page['total'] = total.name;
    return true;
  },
  'offset style': (resource, { style }) => {
    if (style !== 'page') return false;
    const { size, size_param } = resource.page;
    resource.page = { style: 'offset', offset_param: 'page', size, size_param };
    return true;
  },
};

/** The profile that the service's documentation leads to; sometimes with one thing that is not so. */
export function writeProfile(behaviour: Behaviour, random: Random): Written {
  const size = random.pick([2, 3, 5, 8, 20]);
  const lookbackMs = random.pick([1_000, 60_000, 600_000, 600_000, 3_600_000]);
  const history = random.pick(['all', 'all', 'latest'] as const);
  const id = behaviour.ids === 'composite' ? ['space', 'ref'] : 'id';
  const resource: Written['resource'] = {
    path: '/content',
    records: behaviour.recordsAt,
    id,
    updated: behaviour.times.name,
    page: { ...PAGES[behaviour.style](behaviour), size, ...totalIn(behaviour) },
    incremental: filterIn(behaviour, lookbackMs),
    item: behaviour.item.kind === 'none' || behaviour.ids === 'composite' ? null : '/content/{id}',
    item_record: behaviour.item.recordAt,
    history,
    depth: random.pick([4, 4, 4, 2, 1]),
    ...furtherFields(behaviour, random),
  };
  const wrong = random.chance(0.3) ? slip(resource, behaviour, random) : null;
  return { resource, wrong, size, lookbackMs, id, history };
}

/** The one place for fields of the profile that the product learns to read. */
function furtherFields({ odd }: Behaviour, random: Random): Record<string, unknown> {
  return random.chance(0.85) ? declaredEmpty(odd) : {};
}

/** The one place for ways in which the product learns to read how many there are. */
function totalIn({ total, odd }: Behaviour): Record<string, unknown> {
  const own = total.at === 'body' && total.of === 'records' ? { total: total.name } : {};
  return { ...own, ...ignoredTotals(odd) };
}

const PAGES: Readonly<Record<Behaviour['style'], (behaviour: Behaviour) => Record<string, unknown>>> = {
  'cursor-keyset': cursorPage,
  'cursor-offset': cursorPage,
  page: ({ firstPage }) => ({ style: 'page', page_param: 'page', first: firstPage }),
  offset: () => ({ style: 'offset', offset_param: 'offset' }),
  'link-keyset': () => ({ style: 'link' }),
  'link-page': () => ({ style: 'link' }),
  'url-keyset': urlPage,
  'url-offset': urlPage,
};

function cursorPage({ nextAt, end, moreAt }: Behaviour): Record<string, unknown> {
  return {
    style: 'cursor',
    cursor_param: 'cursor',
    next_cursor: nextAt,
    absent_is_end: end === 'absent',
    has_more: moreAt,
    ...(end === 'zero' ? { end: { cursor: [0] } } : {}),
  };
}

function urlPage({ nextAt, end }: Behaviour): Record<string, unknown> {
  return { style: 'next-url', next_url: nextAt, absent_is_end: end === 'absent' };
}

function filterIn({ filter, times }: Behaviour, lookbackMs: number): Record<string, unknown> | null {
  if (filter.kind === 'none') return null;
  const format = times.form.startsWith('epoch') ? times.form : 'as_sent';
  return { param: filter.param, format, lookback: `${lookbackMs}ms` };
}

function slip(resource: Written['resource'], behaviour: Behaviour, random: Random): string | null {
  const name = random.pick(Object.keys(SLIPS));
  return SLIPS[name]?.(resource, behaviour) === true ? name : null;
}

function changed(where: Record<string, unknown>, name: string, value: unknown): boolean {
  if (where[name] === value || (name !== 'size_param' && !(name in where))) return false;
  where[name] = value;
  return true;
}
