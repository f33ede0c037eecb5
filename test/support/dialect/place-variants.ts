import type { PlaceVariant } from './dialect.ts';

const LISTING = '/content';
const LOCALES = ['en', 'de-CH', 'x y/z'];

/** Whether the same listing stands in several places. The first one is the usual one. */
export const PLACES: readonly PlaceVariant[] = [
  {
    name: 'one listing',
    values: null,
    path: LISTING,
    locate: (_args, path) => (path === LISTING ? null : undefined),
    profile: () => ({}),
  },
  {
    name: 'a locale in the query',
    values: LOCALES,
    path: LISTING,
    locate: (args, path) => (path === LISTING ? args.read('locale') : undefined),
    profile: () => ({ resource: { partitions: { values: LOCALES }, query: { locale: '{partition}' } } }),
  },
  {
    name: 'a locale in the path',
    values: LOCALES,
    path: '/{partition}/content',
    locate: (_args, path) => LOCALES.find((locale) => path === `/${encodeURIComponent(locale)}/content`),
    profile: () => ({ resource: { partitions: { values: LOCALES } } }),
  },
];
