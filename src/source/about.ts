import { z } from 'zod';
import { answerConditions } from './http-fields.ts';
import { filterCondition } from './record-fields.ts';

/** A request without a credential, and conditions that its answer meets if the service is of this kind. */
const signSchema = z
  .strictObject({
    path: z
      .string()
      .regex(/^\//, 'expected a path that begins with /')
      .meta({ description: 'path on `base_url`, without the version prefix', examples: ['/server/ping'] }),
    ...answerConditions,
  })
  .meta({
    description: 'a request without a credential, and what its answer shows if the service is of this kind',
    examples: [{ path: '/wp-json/', body: { path: 'namespaces', contains: 'wp/v2' } }],
  });

const conditions = z
  .array(filterCondition)
  .default([])
  .meta({
    description: 'conditions that an entry of the list meets; as in `filter` of a resource',
    examples: [[{ field: 'schema', exists: true }]],
  });

const resourceFields = z
  .record(z.string(), z.unknown())
  .meta({ description: 'fields of each resource; `{name}` is its name', examples: [{ path: '/items/{name}' }] });

/** How the names of an account's own collections are found, so that `init` can write a resource for each. */
const collectionsSchema = z.strictObject({
  path: z
    .string()
    .regex(/^\//)
    .meta({ description: 'path on `base_url` that lists them', examples: ['/collections'] }),
  records: z
    .string()
    .default('')
    .meta({ description: 'where the list is in the answer', examples: ['data'] }),
  name: z
    .string()
    .min(1)
    .meta({ description: 'field that holds the name', examples: ['collection'] }),
  where: conditions,
  event_name: z
    .string()
    .min(1)
    .optional()
    .meta({
      description: 'field with the name that webhooks use for it: `init` writes it as `webhooks.resource_names`',
      examples: ['schema.singularName'],
    }),
  leave_out: z
    .array(z.string().min(1))
    .default([])
    .meta({ description: 'names, with * for any text, of those that hold no content', examples: [['directus_*']] }),
  resource: resourceFields,
  also: z
    .array(z.strictObject({ where: conditions, resource: resourceFields }))
    .default([])
    .meta({
      description: 'further fields of those resources whose entry meets conditions',
      examples: [[{ where: [{ field: 'drafts', in: [true] }], resource: { query: { status: 'draft' } } }]],
    }),
});

/** What a person is told of a profile, and how `init` recognises its service. Says nothing about a run. */
export const aboutSchema = z.strictObject({
  title: z
    .string()
    .min(1)
    .meta({ description: 'the service, and which of its APIs', examples: ['Ghost, Content API'] }),
  tried: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .meta({
      description: 'version that it was tried with; null: written from the documentation',
      examples: ['Ghost 6.65.0'],
    }),
  documentation: z
    .url()
    .optional()
    .meta({ description: 'where the service documents it', examples: ['https://cms.example.com/docs/api'] }),
  address: z
    .string()
    .min(1)
    .optional()
    .meta({ description: 'which address `base_url` is', examples: ['https://blog.example.com'] }),
  credential: z
    .string()
    .min(1)
    .optional()
    .meta({
      description: 'which credential is needed, and where it is made',
      examples: ['an API token (Settings > API Tokens)'],
    }),
  credential_form: z
    .string()
    .refine((text) => isPattern(text), 'expected a regular expression')
    .optional()
    .meta({
      description: 'regular expression of it, which tells two profiles of one service apart',
      examples: ['^[0-9a-f]{26}$'],
    }),
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
