import { authSchema } from '../../../src/source/auth.ts';
import { profileSchema } from '../../../src/source/profile.ts';
import { RESOURCE } from '../world/copy.ts';
import { randomFrom } from '../random.ts';
import { AUTHS } from './auth-variants.ts';
import { DELETES } from './delete-variants.ts';
import { DIMENSIONS, drawDialect, type Dialect, type Dimension, type Tables } from './dialect.ts';
import { ENVELOPES } from './envelope-variants.ts';
import { FILTERS } from './filter-variants.ts';
import { PAGES } from './page-variants.ts';
import { PLACES } from './place-variants.ts';
import { profileOf } from './profile.ts';
import { REQUESTS } from './request-variants.ts';
import { TIME_FORMS } from './times.ts';
import { WEBHOOKS } from './webhook-variants.ts';

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

/** Names of the variants that no profile can say yet, for the report. */
export const UNSPOKEN: readonly string[] = DIMENSIONS.flatMap((dimension) => {
  const known = new Set(SPOKEN[dimension].map(({ name }) => name));
  return ALL[dimension].map(({ name }) => name).filter((name) => !known.has(name));
});

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
