import { z } from 'zod';
import type { JsonValue } from '../model/json.ts';
import { isOwnHeader, placeOf } from './request-place.ts';
import { templateSchema } from './template.ts';

/** Variables that a request for a page of a listing may have. */
const LISTING_VARIABLES = ['since', 'from', 'to', 'cursor', 'partition'] as const;

const template = templateSchema(LISTING_VARIABLES);

const headerName = z.string().refine(isOwnHeader, 'expected the name of a header; Authorization belongs into auth');
const headerTemplate = template.regex(/^[\t\x20-\x7e]*$/, 'expected printable ASCII without line breaks');

/** JSON whose texts are templates; its keys are not. */
const bodyTemplate: z.ZodType<JsonValue> = z.lazy(() =>
  z.union([template, z.number(), z.boolean(), z.null(), z.array(bodyTemplate), z.record(z.string(), bodyTemplate)]),
);

/** How a listing is requested: the fields of a resource. */
export const requestFields = {
  path: template.regex(/^\/[^?#]*$/, 'expected a path that begins with /, without ? or #').meta({
    description: 'Collection path below the version prefix. A template: a value stays one segment.',
    examples: ['/posts', '/sites/{partition}/posts'],
  }),
  method: z
    .enum(['GET', 'POST'])
    .default('GET')
    .meta({
      description:
        'Method of a listing request. POST is for services whose search takes a body; it is taken for a read.',
      examples: ['GET', 'POST'],
    }),
  query: z
    .record(z.string(), template)
    .default({})
    .meta({
      description:
        'Further query parameters of every listing request. Each is a template; one with a variable that has no value is left out. Messages show a value unless its name (`api_key`) or origin (`${...}`) suggests a secret.',
      examples: [{ status: 'any', filter: "updated_at:>'{since}'" }],
    }),
  headers: z
    .record(headerName, headerTemplate)
    .default({})
    .meta({
      description:
        "Further headers of this resource's requests, besides those of the profile. Each is a template; one with a variable that has no value is left out.",
      examples: [{ 'X-Space': 'blog', 'If-Changed-Since': '{since}' }],
    }),
  body: z
    .record(z.string(), bodyTemplate)
    .nullable()
    .default(null)
    .meta({
      description:
        'JSON body of a listing request, for method POST. Its texts are templates; an entry with a variable that has no value is left out, and so is a map or list that is empty without it.',
      examples: [{ sort: 'updated', filter: { updated: { from: '{since}' } } }],
    }),
};

/** What of a resource says whether its requests have a body. */
interface Posting {
  method: 'GET' | 'POST';
  body: unknown;
  page: object;
  incremental: { param?: unknown; body?: object } | null;
  windows: { from_param: unknown; to_param: unknown } | null;
}

/** Refuses a body, and values in it, in a listing that is not asked for by POST. */
export function withPostBodies<Schema extends z.ZodType<Posting>>(schema: Schema): Schema {
  return schema.refine(({ method, body, page, incremental, windows }) => {
    const ofPage = Object.entries(page).filter(([field]) => field.endsWith('_param'));
    const ofFilter = [incremental?.param, windows?.from_param, windows?.to_param];
    const places: unknown[] = [...ofPage.map(([, place]): unknown => place), ...ofFilter];
    const hasPlaces = places.some((place) => typeof place === 'string' && placeOf(place).in === 'body');
    const hasFilter = Object.keys(incremental?.body ?? {}).length > 0;
    return method === 'POST' || (body === null && !hasPlaces && !hasFilter);
  }, NEEDS_POST);
}

const NEEDS_POST = { path: ['method'], error: 'expected POST, because a request by GET has no body' };
