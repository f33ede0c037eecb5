import { z } from 'zod';
import type { JsonValue } from '../model/json.ts';
import { bodyPath, fieldPath } from './body-path.ts';
import { templateSchema } from './template.ts';

/** Variables of the requests that make, list and remove webhooks. */
const VARIABLES = ['url', 'secret', 'events', 'event', 'id'] as const;

const template = templateSchema(VARIABLES);
const path = template
  .regex(/^\/[^?#]*$/, 'expected a path that begins with /, without ? or #')
  .meta({ description: 'Path below the version prefix, a template.', examples: ['/webhooks', '/webhooks/{id}'] });
const query = z
  .record(z.string(), template)
  .default({})
  .meta({ description: 'Query parameters, each a template.', examples: [{ scope: 'mine' }] });

const body: z.ZodType<JsonValue> = z.lazy(() =>
  z.union([template, z.number(), z.boolean(), z.null(), z.array(body), z.record(z.string(), body)]),
);

/** The requests by which webhooks are managed at the service: the only ones that write there. */
export const manageSchema = z
  .strictObject({
    events: z
      .array(z.string().regex(/^[^{}]+$/, 'expected the name of an event, without braces'))
      .max(200)
      .default([])
      .meta({
        description:
          'Events to be told of, in the service’s words: `{events}` in `create`. Where it holds `{event}`, one webhook is made for each.',
        examples: [['post.published', 'post.deleted']],
      }),
    list: z
      .strictObject({
        path,
        query,
        records: bodyPath
          .default('data')
          .meta({ description: 'Path of the list in the answer.', examples: ['webhooks'] }),
        id: fieldPath.default('id').meta({ description: 'Field with the id of a webhook.', examples: ['uuid'] }),
        address: fieldPath
          .default('url')
          .meta({ description: 'Field with the address that it is sent to.', examples: ['target_url'] }),
        event: fieldPath
          .nullable()
          .default(null)
          .meta({ description: 'Field with its event; null if one webhook is for several.', examples: ['event'] }),
      })
      .nullable()
      .default(null)
      .meta({
        description:
          'How the webhooks that there are are listed: path and query, place of the list (`records`), and in each of them the fields `id`, `address` and `event` (null if one webhook is for several). Null if the service does not list them.',
        examples: [{ path: '/webhooks', records: 'data', id: 'id', address: 'target_url' }],
      }),
    create: z
      .strictObject({
        method: z
          .enum(['POST', 'PUT'])
          .default('POST')
          .meta({ description: 'Method of the request.', examples: ['PUT'] }),
        path,
        query,
        body: z.record(z.string(), body).meta({
          description: 'JSON of the request; its texts are templates.',
          examples: [{ address: '{url}', secret: '{secret}', events: '{events}' }],
        }),
        exists: z
          .array(z.int().min(400).max(499))
          .default([])
          .meta({
            description: 'Statuses by which the service says that it is there already.',
            examples: [[409, 422]],
          }),
      })
      .meta({
        description:
          'How one is made. Its texts are templates: `{url}` is the address of `serve`, `{secret}` the first secret of the source’s settings, `{events}` the list of events. `exists`: statuses by which the service says that it is there already.',
        examples: [
          { path: '/webhooks', body: { address: '{url}', secret: '{secret}', events: '{events}' } },
          { path: '/webhooks', body: { target_url: '{url}', event: '{event}', secret: '{secret}' }, exists: [422] },
        ],
      }),
    remove: z
      .strictObject({
        method: z
          .enum(['DELETE', 'POST', 'PUT'])
          .default('DELETE')
          .meta({ description: 'Method of the request.', examples: ['POST'] }),
        path,
        query,
      })
      .nullable()
      .default(null)
      .meta({
        description: 'How one is removed, by its `{id}`. Null if the service offers no way.',
        examples: [{ path: '/webhooks/{id}' }],
      }),
  })
  .refine(({ list, create }) => list !== null || create.exists.length > 0, {
    path: ['list'],
    error: 'expected a list, or create.exists: else the same webhook would be made again each time',
  })
  .refine(({ events, create }) => events.length > 0 || !hasVariable(create, 'event'), {
    path: ['events'],
    error: 'expected events, because create makes one webhook for each',
  })
  .refine(({ list, create }) => list === null || list.event !== null || !hasVariable(create, 'event'), {
    path: ['list', 'event'],
    error: 'expected the field that holds the event, because create makes one webhook for each',
  });

/** A profile's `webhooks.manage`. */
export type WebhookManagement = z.output<typeof manageSchema>;

/** True if one webhook is made for each event. */
export function isPerEvent({ create }: Pick<WebhookManagement, 'create'>): boolean {
  return hasVariable(create, 'event');
}

function hasVariable(part: object, name: (typeof VARIABLES)[number]): boolean {
  return JSON.stringify(part).includes(`{${name}}`);
}
