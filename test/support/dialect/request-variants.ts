import type { Arguments } from './service.ts';
import type { Dialect, EnvelopeVariant, PlaceVariant, RequestVariant, Said } from './dialect.ts';
import { type Fields, isFields, type Value } from '../world/json-value.ts';
import { nested } from './oddities.ts';

const inQuery = (name: string): string => name;
const inBody = (name: string): string => `body:find.${name}`;

/** Requests the constant part of which is this. */
function needing(place: string, value: string): (args: Arguments) => string | null {
  return (args) => (args.read(place) === value ? null : `${place} is not ${value}`);
}

/** How a listing is asked for, and where its arguments stand. The first one is the usual one. */
export const REQUESTS: readonly RequestVariant[] = [
  { name: 'GET', method: 'GET', place: inQuery, fault: () => null, profile: () => ({}) },
  {
    name: 'GET with a constant',
    method: 'GET',
    place: inQuery,
    fault: needing('content_type', 'post & more'),
    profile: () => ({ resource: { query: { content_type: 'post & more' } } }),
  },
  {
    name: 'GET with a header',
    method: 'GET',
    place: inQuery,
    fault: needing('header:X-Cms-Version', '2024-07'),
    profile: () => ({ resource: { headers: { 'X-Cms-Version': '2024-07' } } }),
  },
  {
    name: 'GET with its arguments in headers',
    method: 'GET',
    place: (name) => `header:X-List-${name.replaceAll(/[^a-z]/g, '-')}`,
    fault: () => null,
    profile: () => ({}),
  },
  {
    name: 'POST with its arguments in the body',
    method: 'POST',
    place: inBody,
    fault: needing('body:find.kind', 'post'),
    profile: () => ({ resource: { method: 'POST', body: { find: { kind: 'post' } } } }),
  },
  {
    name: 'POST with its arguments in the query',
    method: 'POST',
    place: inQuery,
    fault: needing('body:kind', 'post'),
    profile: () => ({ resource: { method: 'POST', body: { kind: 'post' } } }),
  },
];

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

type Wrap = EnvelopeVariant['wrap'];

const at =
  (path: string): Wrap =>
  (records, beside) =>
    nested([[path, records.map(([, record]) => record)], ...beside]);

/** Where the records of a page stand. The first one is the usual one. */
export const ENVELOPES: readonly EnvelopeVariant[] = [
  { name: '{data}', recordsAt: 'data', wrap: at('data'), profile: () => ({ resource: { records: 'data' } }) },
  {
    name: 'bare',
    isBare: true,
    recordsAt: '',
    wrap: (records) => records.map(([, record]) => record),
    profile: () => ({ resource: { records: '' } }),
  },
  {
    name: 'deep',
    recordsAt: 'response.results',
    wrap: at('response.results'),
    profile: () => ({ resource: { records: 'response.results' } }),
  },
  {
    name: 'edges and nodes',
    wrap: (records, beside) =>
      nested([
        [
          'items.edges',
          records.map(
            ([id, record]) =>
              new Map<string, Value>([
                ['node', record],
                ['cursor', `c-${id}`],
              ]),
          ),
        ],
        ...beside,
      ]),
    profile: () => ({ resource: { records: 'items.edges[*].node' } }),
  },
  {
    name: 'map by id',
    isMap: true,
    wrap: (records, beside) => withMap(nested([...beside]), records),
    profile: () => ({ resource: { records: 'query.pages.*' } }),
  },
  {
    name: 'first of a list',
    wrap: (records, beside) =>
      nested([['posts', [new Map([['items', records.map(([, record]) => record)]])]], ...beside]),
    profile: () => ({ resource: { records: 'posts[0].items' } }),
  },
  {
    name: 'typed wrappers',
    recordsAt: 'results',
    wrap: at('results'),
    moment: (moment) =>
      new Map<string, Value>([
        ['__type', 'Date'],
        ['iso', moment],
      ]),
    profile: () => ({
      resource: { records: 'results', unwrap: [{ field: '__type', equals: 'Date', value: 'iso' }] },
    }),
  },
];

/** Ids may hold dots, so that no path leads to them. */
function withMap(beside: Fields, records: readonly (readonly [string, Value])[]): Fields {
  const query = beside.get('query');
  const own: readonly [string, Value][] = isFields(query) ? [...query] : [];
  return new Map([...beside, ['query', new Map([...own, ['pages', new Map(records)]])]]);
}
