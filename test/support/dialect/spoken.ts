import { authSchema } from '../../../src/source/auth.ts';
import { profileSchema } from '../../../src/source/profile.ts';
import { RESOURCE } from '../world/oracle.ts';
import { randomFrom } from '../random.ts';
import { AUTHS } from './auth-variants.ts';
import { DELETES, WEBHOOKS } from './delete-variants.ts';
import { type Dialect, type Dimension, DIMENSIONS, drawDialect, type Patch, type Tables } from './dialect.ts';
import { ENVELOPES, PLACES, REQUESTS } from './request-variants.ts';
import { FILTERS, TIME_FORMS } from './filter-variants.ts';
import { PAGES } from './page-variants.ts';
import { declaredEmpty, ignoredTotals } from '../world/behaviour.ts';

const ALL: Tables = {
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

/** The variants that a profile can say: those of whose profiles the schema knows every field. */
export const SPOKEN: Tables = {
  auth: sayable('auth'),
  request: sayable('request'),
  envelope: sayable('envelope'),
  page: sayable('page'),
  filter: sayable('filter'),
  deletes: sayable('deletes'),
  places: sayable('places'),
  times: sayable('times'),
  hooks: sayable('hooks'),
};

/** A plain service in all dimensions. */
function plain(): Dialect {
  const first = Object.fromEntries(DIMENSIONS.map((dimension) => [dimension, ALL[dimension].slice(0, 1)]));
  return { ...drawDialect(randomFrom(1), { ...ALL, ...first }), isMixed: false };
}

function sayable<D extends Dimension>(dimension: D): readonly Dialect[D][] {
  return ALL[dimension].filter((variant) => isSayable({ ...plain(), [dimension]: variant }));
}

export function isSayable(dialect: Dialect): boolean {
  const { resources, ...service } = profileOf(dialect);
  const witnesses = DIMENSIONS.map((dimension) => dialect[dimension].witness ?? {});
  const resource = Object.assign({}, ...witnesses, resources[RESOURCE]);
  const profile = { ...service, resources: { ...resources, [RESOURCE]: resource } };
  return profileSchema.safeParse(profile).success && authSchema.safeParse(dialect.auth.settings).success;
}

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
