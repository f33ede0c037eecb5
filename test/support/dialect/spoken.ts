import { declaredEmpty, ignoredTotals } from './oddities.ts';
import { RESOURCE } from '../world/oracle.ts';
import { AUTHS } from './auth-variants.ts';
import { DELETES, WEBHOOKS } from './delete-variants.ts';
import { type Dialect, DIMENSIONS, type Patch, type Tables } from './dialect.ts';
import { FILTERS, TIME_FORMS } from './filter-variants.ts';
import { PAGES } from './page-variants.ts';
import { ENVELOPES, PLACES, REQUESTS } from './request-variants.ts';

/** All variants of each dimension. */
export const SPOKEN: Tables = {
  auth: AUTHS,
  request: REQUESTS,
  envelope: ENVELOPES,
  page: PAGES,
  filter: FILTERS,
  deletes: DELETES,
  places: PLACES,
  times: TIME_FORMS,
  hooks: WEBHOOKS,
};

/** The profile of a service, as plain data. */
export type WrittenProfile = Record<string, unknown> & { resources: Record<string, unknown> };

/** What the profile of this service says, put together from what each of its variants says. */
export function profileOf(dialect: Dialect): WrittenProfile {
  const said = DIMENSIONS.map((dimension) => dialect[dimension].profile(dialect));
  const service = said.reduce<Patch>((all, { service: part }) => merged(all, part ?? {}), {});
  const resource = said.reduce<Patch>((all, { resource: part }) => merged(all, part ?? {}), {
    path: dialect.places.path,
    id: 'id',
    history: 'all',
    ...(dialect.envelope.recordsAt === undefined ? {} : declaredEmpty(dialect.odd)),
    ...(dialect.isMixed ? { filter: [{ field: 'sort_of', in: ['post'] }] } : {}),
  });
  const { resources = {}, ...rest } = service;
  const further = isPatch(resources) ? resources : {};
  const page = { page: ignoredTotals(dialect.odd) };
  return {
    version_prefix: '/v1',
    http: { attempts: 3 },
    ...rest,
    resources: { ...further, [RESOURCE]: merged(page, resource) },
  };
}

function merged(below: Patch, above: Patch): Patch {
  const all: Record<string, unknown> = { ...below };
  for (const [name, value] of Object.entries(above)) {
    const own = all[name];
    all[name] = isPatch(own) && isPatch(value) ? merged(own, value) : value;
  }
  return all;
}

function isPatch(value: unknown): value is Patch {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
