import type { Arguments } from './asked.ts';
import type { RequestVariant } from './dialect.ts';

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
    witness: { method: 'GET' },
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
