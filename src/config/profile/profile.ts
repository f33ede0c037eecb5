/** The schema of a whole profile (`profileSchema`), and the rules between its fields. */
import { z } from 'zod';
import { fieldPathText } from '../../model/body-path.ts';
import { LOCAL, type ZonesByPath } from '../../model/time-zone.ts';
import { PROOFS } from '../../model/vocabulary.ts';
import { profileAuthSchema } from './auth.ts';
import { documented, withExamples } from './basic-fields.ts';
import { type ChangeFeed, changeFeedSchema, deleteFields, feedKeyFault, itemFields } from './delete-fields.ts';
import { fileFields } from './file-fields.ts';
import {
  canRequestChanges,
  incrementalFields,
  type IncrementalProfile,
  incrementalSchema,
  windowFaults,
  windowFields,
} from './incremental.ts';
import { pageSchema } from './page-style.ts';
import { rateDialectSchema } from './rate-dialect.ts';
import {
  type FieldSettings,
  filterCondition,
  type PublishingState,
  recordFields,
  singleFields,
  tableFields,
  pendingMask,
} from './record-fields.ts';
import {
  answerConditions,
  asksForPartition,
  headerName,
  headerValue,
  httpSchema,
  outcomeRuleSchema,
  parentFaults,
  partitionFields,
  requestFields,
  versionPrefix,
  versionSchema,
  withPartitionKey,
  withPostBodies,
} from './request-fields.ts';
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

interface KeyedResource {
  id: string | string[];
  fields: Readonly<Record<string, { rename?: string | undefined }>>;
}

/** Returns the columns of `relations` that refer to the key of a resource, and so have its type. */
function referencingColumns({
  resources,
  relations,
}: {
  resources: Readonly<Record<string, KeyedResource>>;
  relations: Relations;
}): string[] {
  return Object.entries(relations).flatMap(([from, to]) => {
    const [name = '', column = ''] = to.split('.');
    const target = Object.hasOwn(resources, name) ? resources[name] : undefined;
    if (target === undefined) return [];
    const { id, fields } = target;
    const key = typeof id === 'string' ? (fields[id]?.rename ?? id) : '_id';
    const isKey = typeof id === 'string' ? letters(key) === letters(column) : key === column;
    return isKey ? [from] : [];
  });
}

/** Normalises names of fields and columns for comparison: `sys.contentId` is `sys_content_id`. */
function letters(name: string): string {
  return name.toLowerCase().replaceAll(/[^\p{L}\p{M}\p{N}]/gu, '');
}

const resourceFields = z.strictObject({
  extends: documented(z.string().min(1).nullable().default(null))('Another resource of this profile to start from.', [
    'posts',
  ]),
  ...requestFields,
  ...recordFields,
  ...partitionFields,
  ...incrementalFields,
  incremental: documented(z.discriminatedUnion('mode', [changeFeedSchema, incrementalSchema]).nullable().default(null))(
    'How changes are found; null: every run is a full scan.',
    [{ param: 'updated_since', format: 'iso' }],
  ),
  ...windowFields,
  page: pageSchema,
  ...itemFields,
  ...deleteFields,
  /**
   * Verifications that this service never allows. A run without them has a warning and may be `ok`; without an entry
   * here it is `partial`.
   */
  accept: withExamples(z.array(z.enum(PROOFS)).default([]), [['end'], ['filter', 'item']]),
  unverified: documented(z.array(z.string().min(1)).default([]))(
    'Fields that are guesses: runs are `partial` until one has verified them.',
    [['page.style', 'updated']],
  ),
  ...tableFields,
  ...singleFields,
  ...fileFields,
});

/** Moves a feed of changes from `incremental` to the field `feed`, because settings of a filter do not apply to it. */
const dividedFields = resourceFields.transform(({ incremental, ...fields }) => ({
  ...fields,
  ...changesBy(incremental),
  mask: pendingMask(fields),
}));

function changesBy(incremental: ChangeFeed | IncrementalProfile | null): {
  incremental: IncrementalProfile | null;
  feed: ChangeFeed | null;
} {
  return incremental?.mode === 'feed' ? { incremental: null, feed: incremental } : { incremental, feed: null };
}

/** A resource with the rules between its fields. */
const resourceSchema = withPostBodies(dividedFields)
  .refine(({ id, item }) => typeof id === 'string' || item === null, {
    path: ['item'],
    error: 'expected null, because a record that several fields identify has no id that could stand in a path',
  })
  .refine(({ times, updated }) => [updated].flat().every((path) => times[path ?? ''] !== LOCAL), {
    path: ['times'],
    error: 'expected a zone for the fields of `updated`: a time of no known zone is no moment',
  })
  // The stored cursor does not contain the field that it comes from.
  .refine(({ times, updated }) => new Set([updated].flat().map((path) => times[path ?? ''])).size === 1, {
    path: ['times'],
    error: 'expected the same zone for all fields of `updated`',
  })
  .refine(({ feed, item }) => feed?.record !== null || item !== null, {
    path: ['item'],
    error: 'expected the path of a single record, because the entries of the feed only name ids',
  })
  .refine(({ partitions, feed }) => partitions === null || feed === null, {
    path: ['partitions'],
    error: 'expected none: a feed of changes does not say which of several listings a record is of',
  })
  .refine(canRequestChanges, {
    path: ['incremental', 'param'],
    error: 'expected the place that takes the moment, or {since} in a template of the resource or of incremental',
  })
  .refine(asksForPartition, {
    path: ['partitions', 'param'],
    error: 'expected the place that takes the value, or {partition} in path, query, headers or body',
  })
  .refine(({ files, history }) => files.length === 0 || history !== 'none', {
    path: ['files'],
    error:
      'expected history latest or all beside it: where a file is, and whether there is one, is read in the stored bodies',
  })
  .refine(({ files, id }) => typeof id === 'string' || files.every((file) => file.at.kind === 'record'), {
    path: ['files'],
    error:
      'expected json: and a place in the record, because a record that several fields identify has no id that could stand in a path',
  })
  .transform(withPartitionKey)
  .superRefine((resource, context) => {
    const faults = [feedKeyFault(resource) ?? [], windowFaults(resource), fieldFaults(resource)].flat();
    for (const fault of faults) context.addIssue({ code: 'custom', ...fault });
  });

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
      for (const { resource, message } of parentFaults(resources)) {
        context.addIssue({ code: 'custom', path: [resource, 'partitions', 'parent'], message });
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

/** The fields of a resource with which the settings in `fields` must agree. */
interface Resource {
  fields: Readonly<Record<string, FieldSettings>>;
  id: string | readonly string[];
  updated: string | readonly string[] | null;
  state: PublishingState | null;
  deleted: TombstoneProfile | readonly TombstoneProfile[] | null;
  partitions: { readonly field: string } | null;
  windows: { readonly field: string; readonly totals: object } | null;
  page: object;
  json: readonly string[];
  times: ZonesByPath;
}

interface TombstoneProfile {
  readonly field: string;
  readonly at?: string | undefined;
}

interface FieldFault {
  path: string[];
  message: string;
}

/** Returns the faults of the settings in `fields`; paths are within the resource. */
function fieldFaults(resource: Resource): FieldFault[] {
  const faults = Object.entries(resource.fields).flatMap(([path, settings]) =>
    [hiddenFault, doubleFault, typeFault].flatMap((fault) => fault(path, settings, resource) ?? []),
  );
  return [...faults, ...nameFaults(resource)];
}

/** Returns a fault if the field is hidden although the sync needs it. */
function hiddenFault(path: string, { exclude, hash }: FieldSettings, resource: Resource): FieldFault | null {
  if (!exclude && !hash) return null;
  const found = usesOf(resource).find(([used]) => isWithin(used, path) || isWithin(path, used));
  if (found === undefined) return null;
  const message = `expected it to be copied as it is, because it is ${found[1]}`;
  return { path: ['fields', path, exclude ? 'exclude' : 'hash'], message };
}

/** Returns the fields that the sync uses, and what for. */
function usesOf({ id, updated, state, deleted, partitions, windows, page }: Resource): [string, string][] {
  const cursor = 'cursor_field' in page && typeof page.cursor_field === 'string' ? [page.cursor_field] : [];
  const uses: [readonly string[], string][] = [
    [[id].flat(), 'the id of the record'],
    [[updated ?? []].flat(), 'its time of change'],
    [cursor, 'where the next page goes on from'],
    [state === null ? [] : [state.field], 'its state of publishing'],
    [[deleted ?? []].flat().flatMap(({ field, at = field }) => [field, at]), 'a tombstone'],
    [partitions === null ? [] : [partitions.field], 'the listing that it comes from'],
    [windows === null ? [] : [windows.field], 'the day that it is of'],
    [Object.keys(windows?.totals ?? {}), 'compared with a total'],
  ];
  return uses.flatMap(([fields, what]) => fields.map((field): [string, string] => [fieldPathText(field), what]));
}

/** True if `path` is `other` or below it. */
function isWithin(path: string, other: string): boolean {
  return path === other || path.startsWith(`${other}.`);
}

function doubleFault(path: string, { exclude, hash, type, rename }: FieldSettings): FieldFault | null {
  const at = ['fields', path];
  if (exclude && (hash || type !== undefined || rename !== undefined)) {
    return { path: at, message: 'expected nothing but a description beside `exclude`: it has no column' };
  }
  if (!hash || type === undefined || type === 'text' || type === 'json') return null;
  return { path: [...at, 'type'], message: 'expected text or json, because a hash is a text' };
}

function typeFault(path: string, { type }: FieldSettings, { id, json, times }: Resource): FieldFault | null {
  if (type === undefined) return null;
  const at = ['fields', path, 'type'];
  if (typeof id === 'string' && fieldPathText(id) === path && type !== 'text') {
    return { path: at, message: 'expected text or none, because keys are texts' };
  }
  if (type !== 'json' && json.some((one) => fieldPathText(one) === path)) {
    return { path: at, message: 'expected json, because the field is in the list `json`' };
  }
  const isMoment = type === 'date' || type === 'timestamp';
  if (!isMoment || times[path] !== LOCAL) return null;
  return { path: at, message: 'expected text, because its times are of a zone that nobody tells (`times`: local)' };
}

/** Returns a fault if two fields have the same name: unique in the resource, because its tables are not known yet. */
function nameFaults({ fields, id }: Resource): FieldFault[] {
  const names = new Map<string, string>(typeof id === 'string' && fields[id]?.rename === undefined ? [[id, id]] : []);
  return Object.entries(fields).flatMap(([path, { rename }]) => {
    if (rename === undefined) return [];
    const other = names.get(rename);
    names.set(rename, path);
    if (other === undefined || other === path) return [];
    return [{ path: ['fields', path, 'rename'], message: `expected a name of its own, got that of ${other}` }];
  });
}
