import { isFields, type Fields, type Value } from '../world/json-value.ts';
import { nested } from '../world/listing.ts';
import type { EnvelopeVariant } from './dialect.ts';

type Wrap = EnvelopeVariant['wrap'];

const at =
  (path: string): Wrap =>
  (records, beside) =>
    nested([[path, records.map(([, record]) => record)], ...beside]);

/** Paths through arrays and maps came with this. */
const PATHS = { unwrap: [] };

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
    witness: PATHS,
  },
  {
    name: 'map by id',
    isMap: true,
    wrap: (records, beside) => withMap(nested([...beside]), records),
    profile: () => ({ resource: { records: 'query.pages.*' } }),
    witness: PATHS,
  },
  {
    name: 'first of a list',
    wrap: (records, beside) =>
      nested([['posts', [new Map([['items', records.map(([, record]) => record)]])]], ...beside]),
    profile: () => ({ resource: { records: 'posts[0].items' } }),
    witness: PATHS,
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
