/**
 * The schema of a profile (`profileSchema`), which describes a service as data: its resources (`resource.ts`), auth, limits,
 * webhooks and relations. `config/profiles/*.yaml` are the shipped ones.
 */
import { z } from 'zod';
import { profileAuthSchema } from './auth.ts';
import { documented, withExamples } from './basic-fields.ts';
import { rateDialectSchema } from './rate-dialect.ts';
import { filterCondition } from './record-fields.ts';
import {
  answerConditions,
  headerName,
  headerValue,
  httpSchema,
  outcomeRuleSchema,
  versionPrefix,
  versionSchema,
} from './request-fields.ts';
import { parentFault, resourceSchema } from './resource.ts';
import { rulesWithoutResource, webhooksSchema } from './signature-scheme.ts';

/** A request without a credential, whose answer meets these conditions if the service is of this kind. */
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

const collectionFields = z
  .record(z.string(), z.unknown())
  .meta({ description: 'fields of each resource; `{name}` is its name', examples: [{ path: '/items/{name}' }] });

/** How `init` finds the names of an account's own collections, to write a resource for each. */
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
  resource: collectionFields,
  also: documented(z.array(z.strictObject({ where: conditions, resource: collectionFields })).default([]))(
    'further fields of those resources whose entry meets conditions',
    [[{ where: [{ field: 'drafts', in: [true] }], resource: { query: { status: 'draft' } } }]],
  ),
});

/** Information for users, and how `init` recognises the service. Has no effect on a run. */
const aboutSchema = z.strictObject({
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

const COLUMN = /^[^.\s"]+\.[^.\s"]+$/;

const column = z.string().regex(COLUMN, 'expected a column as table.column, such as content_tags.value');

/** Columns that refer to the key of another resource, by their names in the warehouse. */
const relationsSchema = z
  .record(column, column.nullable())
  .default({})
  .transform((relations) =>
    Object.fromEntries(
      Object.entries(relations).flatMap(([from, to]): [string, string][] => (to === null ? [] : [[from, to]])),
    ),
  )
  .meta({
    description:
      'Columns that hold the key of another resource, as `table.column: resource.key`. Null removes one of an extended profile.',
    examples: [{ 'analytics.content_id': 'content.id', 'content_image_ids.value': 'images.id' }],
  });

export type Relations = z.output<typeof relationsSchema>;

/** Returns the columns of `relations` that refer to the key of a resource, and so have its type. */
function referencingColumns({ resources, relations }: z.output<typeof profileFields>): string[] {
  return Object.entries(relations).flatMap(([from, to]) => {
    const [name = '', column = ''] = to.split('.');
    const target = Object.hasOwn(resources, name) ? resources[name] : undefined;
    if (target === undefined) return [];
    const { id, fields } = target;
    const isKey =
      typeof id === 'string' ? normaliseName(fields[id]?.rename ?? id) === normaliseName(column) : column === '_id';
    return isKey ? [from] : [];
  });
}

/** Normalises names of fields and columns for comparison: `sys.contentId` is `sys_content_id`. */
function normaliseName(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{M}\p{N}]/gu, '');
}

const profileFields = z.strictObject({
  /** Name or path of a profile whose fields apply unless they are set here. */
  extends: withExamples(z.string().min(1).optional(), ['content-service-page', './my-service.yaml']),
  about: documented(aboutSchema.nullable().default(null))(
    'what `init` shows, and how it recognises the service; for shipped profiles',
  ),
  version_prefix: versionPrefix.default('/v1').meta({ examples: ['/api/v2', ''] }),
  version: versionSchema.prefault({}).meta({
    description: 'API version, if `version_prefix` is not enough.',
    examples: [{ header: { name: 'Accept-Version', value: 'v6.0' } }],
  }),
  /** Sent with every request. */
  headers: withExamples(z.record(headerName, headerValue).default({}), [{ 'X-Space': 'blog' }]),
  auth: profileAuthSchema.optional(),
  http: httpSchema.prefault({}),
  outcomes: z.array(outcomeRuleSchema).default([]),
  rate_limit: rateDialectSchema.prefault('auto'),
  webhooks: webhooksSchema.prefault({}),
  /**
   * Path that needs a valid credential (`/users/me`), requested at the beginning of each run, because listings may
   * ignore an invalid one; null if the service has no such path.
   */
  identity: withExamples(z.string().regex(/^\//, 'expected a path that begins with /').nullable().default(null), [
    '/users/me',
  ]),
  defaults: documented(z.record(z.string(), z.unknown()).optional())(
    'Fields of all resources; `{resource}` is the name.',
    [{ path: '/{resource}', records: '{resource}', page: { style: 'page', size: 50 } }],
  ),
  resources: z
    .record(z.string().regex(/^[a-z][a-z0-9_]{0,40}$/, 'expected a lower-case name'), resourceSchema)
    .refine((resources) => Object.keys(resources).length > 0, 'expected at least one resource')
    .superRefine((resources, context) => {
      for (const name of Object.keys(resources)) {
        const message = parentFault(name, resources);
        if (message !== null) context.addIssue({ code: 'custom', path: [name, 'partitions', 'parent'], message });
      }
    }),
  relations: relationsSchema,
});

/** A profile describes a service as data (`config/profiles/*.yaml`): `z.input` is the file, `z.output` the parsed form. */
export const profileSchema = profileFields
  .superRefine(({ webhooks, resources }, context) => {
    const message = `expected resources of this profile: ${Object.keys(resources).join(', ')}`;
    for (const path of rulesWithoutResource(webhooks, resources)) {
      context.addIssue({ code: 'custom', path: ['webhooks', ...path], message });
    }
  })
  .transform((profile) => {
    const references = referencingColumns(profile);
    const resources = Object.entries(profile.resources).map(([name, each]) => [name, { ...each, references }] as const);
    return { ...profile, resources: Object.fromEntries(resources) };
  });

export type Profile = z.output<typeof profileSchema>;
export type ResourceProfile = Profile['resources'][string];
export type HttpProfile = z.output<typeof httpSchema>;
