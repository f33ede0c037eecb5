import { z } from 'zod';
import { documented } from './basic-fields.ts';
import { answerConditions } from './http-fields.ts';
import { filterCondition } from './record-fields.ts';

/** A request without a credential, and conditions that its answer meets if the service is of this kind. */
const signSchema = documented(
  z.strictObject({
    path: z
      .string()
      .regex(/^\//, 'expected a path that begins with /')
      .meta({ description: 'path on `base_url`, without the version prefix', examples: ['/server/ping'] }),
    ...answerConditions,
  }),
)('a request without a credential, and what its answer shows if the service is of this kind', [
  { path: '/wp-json/', body: { path: 'namespaces', contains: 'wp/v2' } },
]);

const conditions = documented(z.array(filterCondition).default([]))(
  'conditions that an entry of the list meets; as in `filter` of a resource',
  [[{ field: 'schema', exists: true }]],
);

const resourceFields = z
  .record(z.string(), z.unknown())
  .meta({ description: 'fields of each resource; `{name}` is its name', examples: [{ path: '/items/{name}' }] });

/** How the names of an account's own collections are found, so that `init` can write a resource for each. */
const collectionsSchema = z.strictObject({
  path: documented(z.string().regex(/^\//))('path on `base_url` that lists them', ['/collections']),
  records: documented(z.string().default(''))('where the list is in the answer', ['data']),
  name: documented(z.string().min(1))('field that holds the name', ['collection']),
  where: conditions,
  event_name: documented(z.string().min(1).optional())(
    'field with the name that webhooks use for it: `init` writes it as `webhooks.resource_names`',
    ['schema.singularName'],
  ),
  leave_out: z
    .array(z.string().min(1))
    .default([])
    .meta({ description: 'names, with * for any text, of those that hold no content', examples: [['directus_*']] }),
  resource: resourceFields,
  also: documented(z.array(z.strictObject({ where: conditions, resource: resourceFields })).default([]))(
    'further fields of those resources whose entry meets conditions',
    [[{ where: [{ field: 'drafts', in: [true] }], resource: { query: { status: 'draft' } } }]],
  ),
});

/** What a person is told of a profile, and how `init` recognises its service. Says nothing about a run. */
export const aboutSchema = z.strictObject({
  title: documented(z.string().min(1))('the service, and which of its APIs', ['Ghost, Content API']),
  tried: documented(z.string().min(1).nullable().default(null))(
    'version that it was tried with; null: written from the documentation',
    ['Ghost 6.65.0'],
  ),
  documentation: documented(z.url().optional())('where the service documents it', ['https://cms.example.com/docs/api']),
  address: documented(z.string().min(1).optional())('which address `base_url` is', ['https://blog.example.com']),
  credential: documented(z.string().min(1).optional())('which credential is needed, and where it is made', [
    'an API token (Settings > API Tokens)',
  ]),
  credential_form: documented(
    z
      .string()
      .refine((text) => isPattern(text), 'expected a regular expression')
      .optional(),
  )('regular expression of it, which tells two profiles of one service apart', ['^[0-9a-f]{26}$']),
  recognised_by: z.array(signSchema).default([]).meta({ description: 'how `init` knows the service; all must hold' }),
  collections: collectionsSchema.optional().meta({ description: "how `init` finds the account's own collections" }),
});

function isPattern(text: string): boolean {
  try {
    return new RegExp(text) instanceof RegExp;
  } catch {
    return false;
  }
}
