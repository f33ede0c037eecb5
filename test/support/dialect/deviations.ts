import type { Random } from '../random.ts';
import { RESOURCE } from '../world/oracle.ts';
import type { WrittenProfile } from './spoken.ts';

/** In what a service or its profile is not what the profile's writer takes it for. */
export interface Deviation {
  /** A listing is answered by a replica that is so far behind, in this part of the requests. */
  lag: { ms: number; chance: number };
  /** What is wrong in the profile; null where nothing is. */
  wrong: string | null;
}

export const NO_LAG: Deviation['lag'] = { ms: 0, chance: 0 };

type Page = Record<string, unknown>;
type Resource = Record<string, unknown> & { page: Page };

/** What a person may get wrong: each changes the profile, or returns false where it does not concern this service. */
const SLIPS: Readonly<Record<string, (resource: Resource) => boolean>> = {
  'filter parameter': ({ incremental }) =>
    typeof incremental === 'object' && incremental !== null && changed(incremental, 'param', 'changed_after'),
  'no total': ({ page }) => changed(page, 'total', null) || changed(page, 'pages', null),
  'total elsewhere': ({ page }) => changed(page, 'total', 'no.such.total'),
  'absent is end': ({ page }) => 'next_cursor' in page && set(page, 'absent_is_end', true),
  'next elsewhere': ({ page }) => changed(page, nextField(page), 'pagination.no_such_next'),
  'next elsewhere, absent is end': ({ page }) =>
    changed(page, nextField(page), 'pagination.no_such_next') && set(page, 'absent_is_end', true),
  'no has_more': ({ page }) => changed(page, 'has_more', null),
  'records elsewhere': (resource) => set(resource, 'records', 'records_list'),
  'link style': (resource) => set(resource, 'page', { ...sizeOf(resource), style: 'link' }),
  'page style': (resource) => set(resource, 'page', { ...sizeOf(resource), style: 'page', page_param: 'pg' }),
  'item path': (resource) => changed(resource, 'item', '/content/one/{id}'),
  'created for updated': (resource) => changed(resource, 'updated', 'created_at'),
  'first page': ({ page }) => page['style'] === 'page' && set(page, 'first', page['first'] === 0 ? 1 : 0),
  'size parameter': ({ page }) => changed(page, 'size_param', 'how_many'),
};

/** Draws how a service deviates, and changes its profile where that is what is wrong. */
export function deviate(profile: WrittenProfile, random: Random): Deviation {
  const lag = random.chance(0.25) ? { ms: random.whole(2, 20) * 1_000, chance: random.pick([0.1, 0.4, 0.8]) } : NO_LAG;
  const name = random.chance(0.3) ? random.pick(Object.keys(SLIPS)) : null;
  const resource = profile.resources[RESOURCE];
  const isWrong = name !== null && isResource(resource) && SLIPS[name]?.(resource) === true;
  return { lag, wrong: isWrong ? name : null };
}

function isResource(value: unknown): value is Resource {
  return typeof value === 'object' && value !== null && 'page' in value;
}

function nextField(page: Page): string {
  return 'next_url' in page ? 'next_url' : 'next_cursor';
}

function sizeOf({ page: { size, size_param } }: Resource): Page {
  return { size, size_param };
}

function set(where: object, name: string, value: unknown): true {
  Object.assign(where, { [name]: value });
  return true;
}

/** Only what the profile says already. */
function changed(where: object, name: string, value: unknown): boolean {
  return name in where && set(where, name, value);
}
