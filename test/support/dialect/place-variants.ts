import type { Dialect, PlaceVariant, Said } from './dialect.ts';

const LISTING = '/content';
const LOCALES = ['en', 'de-CH', 'x y/z'];
const PARENTS = ['p1', 'p 2', 'p/3'];

/** The rest of a path behind what it begins with, decoded; undefined for another path. */
function restOf(path: string, start: string): string | undefined {
  return path.startsWith(start) ? decodeURIComponent(path.slice(start.length)) : undefined;
}

/** What the profile says of single reads; nothing where the service has none. */
function item({ deletes }: Dialect, fields: Record<string, unknown>): Record<string, unknown> {
  return deletes.gone === null ? {} : fields;
}

/** Listings below a place's own path. */
function below(start: string, places: readonly string[]): Pick<PlaceVariant, 'locate' | 'locateItem'> {
  const pathOf = (place: string): string => `${start}${encodeURIComponent(place)}${LISTING}`;
  return {
    locate: (_args, path) => places.find((place) => path === pathOf(place)),
    locateItem: (_args, path) => {
      const place = places.find((each) => path.startsWith(`${pathOf(each)}/`));
      if (place === undefined) return undefined;
      return { place, id: decodeURIComponent(path.slice(pathOf(place).length + 1)) };
    },
  };
}

/** Whether the same listing stands in several places. The first one is the usual one. */
export const PLACES: readonly PlaceVariant[] = [
  {
    name: 'one listing',
    values: null,
    isTold: false,
    path: LISTING,
    locate: (_args, path) => (path === LISTING ? null : undefined),
    locateItem: (_args, path) => {
      const id = restOf(path, `${LISTING}/`);
      return id === undefined ? undefined : { place: null, id };
    },
    profile: () => ({}),
  },
  {
    name: 'a locale in the query',
    values: LOCALES,
    isTold: true,
    path: LISTING,
    locate: (args, path) => (path === LISTING ? args.read('locale') : undefined),
    locateItem: (args, path) => {
      const id = restOf(path, `${LISTING}/`);
      return id === undefined ? undefined : { place: args.read('locale'), id };
    },
    profile: (dialect) => ({
      resource: {
        partitions: { values: LOCALES, field: 'place', param: 'locale' },
        ...item(dialect, { item_query: { locale: '{partition}' } }),
      },
    }),
  },
  {
    name: 'a locale in the path',
    values: LOCALES,
    isTold: false,
    path: '/{partition}/content',
    ...below('/', LOCALES),
    profile: (dialect) => ({
      resource: {
        partitions: { values: LOCALES, field: 'place' },
        ...item(dialect, { item: '/{partition}/content/{id}' }),
      },
    }),
  },
  {
    name: 'a listing of each parent',
    values: PARENTS,
    isTold: true,
    path: '/parents/{partition}/content',
    ...below('/parents/', PARENTS),
    route: (path) => {
      if (path !== '/parents') return null;
      return { status: 200, body: new Map([['data', PARENTS.map((id) => new Map([['id', id]]))]]) };
    },
    profile: childrenOf,
  },
];

function childrenOf(dialect: Dialect): Said {
  return {
    service: {
      resources: { parents: { path: '/parents', updated: null, page: { style: 'single' } } },
    },
    resource: {
      partitions: { parent: 'parents', field: 'place' },
      ...item(dialect, { item: '/parents/{partition}/content/{id}' }),
    },
  };
}
