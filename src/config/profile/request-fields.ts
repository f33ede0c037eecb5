/**
 * Schemas of the profile fields about requests and responses, from which `profile.ts` and `resource.ts` build the profile:
 * how a listing is requested (`requestFields`: `path: /posts`), the same listing for several values (`partitionFields`: for
 * each locale), limits (`httpSchema`), what a response means (`outcomeRuleSchema`), and the API version (`versionSchema`).
 */
import { z } from 'zod';
import type { JsonValue } from '../../model/json.ts';
import { OUTCOMES } from '../../model/vocabulary.ts';
import {
  byteSize,
  documented,
  duration,
  fieldPath,
  isAllowedHeader,
  requestPlace,
  templateSchema,
  withExamples,
} from './basic-fields.ts';

/** Variables in templates of a listing request. */
const LISTING_VARIABLES = ['since', 'from', 'to', 'cursor', 'partition'] as const;

const template = templateSchema(LISTING_VARIABLES);

export const headerName = z
  .string()
  .refine(isAllowedHeader, 'expected the name of a header; Authorization belongs into auth');
const PRINTABLE = /^[\t\x20-\x7e]*$/;
const PRINTABLE_EXPECTED = 'expected printable ASCII without line breaks';
export const headerValue = z.string().regex(PRINTABLE, PRINTABLE_EXPECTED);
const headerTemplate = template.regex(PRINTABLE, PRINTABLE_EXPECTED);

/** A JSON value in which all strings are templates; member names are not. */
const bodyTemplate: z.ZodType<JsonValue> = z.lazy(() =>
  z.union([template, z.number(), z.boolean(), z.null(), z.array(bodyTemplate), z.record(z.string(), bodyTemplate)]),
);

/** The fields of a resource that describe the request of a listing. */
export const requestFields = {
  path: template.regex(/^\/[^?#]*$/, 'expected a path that begins with /, without ? or #').meta({
    description: 'Path of the listing below the version prefix; a template.',
    examples: ['/posts', '/sites/{partition}/posts'],
  }),
  method: documented(z.enum(['GET', 'POST']).default('GET'))('Method of a listing request.', ['GET', 'POST']),
  query: documented(z.record(z.string(), template).default({}))('Further query parameters, as templates.', [
    { status: 'any', filter: "updated_at:>'{since}'" },
  ]),
  headers: documented(z.record(headerName, headerTemplate).default({}))('Further headers, as templates.', [
    { 'X-Space': 'blog', 'If-Changed-Since': '{since}' },
  ]),
  body: documented(z.record(z.string(), bodyTemplate).nullable().default(null))(
    'JSON body for method POST; its texts are templates.',
    [{ sort: 'updated', filter: { updated: { from: '{since}' } } }],
  ),
};

/** The error of a listing or feed that has a body, and another method than POST. */
export const NEEDS_POST = { path: ['method'], error: 'expected POST, because a request by GET has no body' };

const partitionValue = {
  field: documented(z.string().regex(/^[^.[\]"'*]+$/, 'expected the plain name of a field'))(
    'Field that holds the value; it is added to records that lack it. A record with another value is rejected.',
    ['locale', 'post_id'],
  ),
  param: documented(requestPlace.nullable().default(null))(
    'Where a request takes the value; null if a template has `{partition}`.',
    ['locale', 'header:X-Locale', null],
  ),
};

const valuesSchema = z.strictObject({
  values: z
    .array(z.union([z.string().min(1), z.number()]).transform(String))
    .min(1)
    .refine((values) => new Set(values).size === values.length, 'expected each value once')
    .meta({ description: 'The values, in order.', examples: [['en', 'de']] }),
  ...partitionValue,
});

const parentSchema = z.strictObject({
  parent: documented(z.string())('Resource whose live rows each have a listing; it is synced first.', ['posts']),
  parent_id: fieldPath
    .nullable()
    .default(null)
    .meta({ description: 'Field of the parent that is the value; null for its id.', examples: ['slug', null] }),
  changed_only: documented(z.boolean().default(false))(
    'True if a changed child changes its parent: a sync then requests only listings of changed parents. Deletes need a full scan.',
    [true],
  ),
  ...partitionValue,
});

/** The field `partitions` of a resource: its listing is requested once for each value, such as each locale. */
export const partitionFields = {
  partitions: z
    .union([valuesSchema, parentSchema], { error: 'expected { values, field } or { parent, field }' })
    .nullable()
    .default(null)
    .meta({
      description:
        'The same listing for each of several values, or for each live row of a parent. `{partition}` in templates, or `param`, takes the value.',
      examples: [
        { values: ['en', 'de'], param: 'locale', field: 'locale' },
        { parent: 'posts', field: 'post_id', changed_only: true },
      ],
    }),
};

export type PartitionProfile = NonNullable<z.output<typeof partitionFields.partitions>>;

/** Returns the parent resource, such as the posts of comments: each of its rows has a listing. Null if there is none. */
export function findParent(resource: { partitions: PartitionProfile | null } | undefined): string | null {
  const partitions = resource?.partitions ?? null;
  return partitions !== null && 'parent' in partitions ? partitions.parent : null;
}

/**
 * The field `http` of a profile: limits of requests and responses. `max_body` is applied while a body is received
 * (`http/exchange.ts`), `max_values` and `max_digits` before it is parsed (`http/outcome/read-answer.ts`). Webhook deliveries
 * have `webhook.max_body` in the settings, files have `max_bytes`.
 */
export const httpSchema = z.strictObject({
  /** Timeout for the response headers. */
  headers_timeout: duration.prefault('30s').meta({ examples: ['10s'] }),
  /** Timeout of one attempt, including the body. */
  timeout: duration.prefault('2m').meta({ examples: ['5m'] }),
  /** Max attempts per request, including the first. */
  attempts: withExamples(z.int().min(1).max(20).default(6), [3]),
  /** Max decompressed bytes of one answer. */
  max_body: byteSize.prefault('16MiB').meta({ examples: ['64MiB'] }),
  /** Max values of one answer on all levels; a parsed value may take 100 bytes. */
  max_values: withExamples(z.int().min(1).max(100_000_000).default(2_000_000), [5_000_000]),
  /** Max characters of all numbers with 16 digits or more in one answer, which are stored as text. */
  max_digits: withExamples(z.int().min(1).max(1_000_000_000).default(1_000_000), [5_000_000]),
  /** Max requests in flight of one process, per origin. */
  concurrency: withExamples(z.int().min(1).max(64).default(8), [2]),
  /** Max requests in flight of all processes on one database; null: only the limit of each process. */
  concurrency_total: withExamples(z.int().min(1).max(4_096).nullable().default(null), [2]),
});

/** Conditions of an outcome rule on a response; all that are present must hold. */
export const answerConditions = {
  status: z
    .union([statusPattern(), z.array(statusPattern()).min(1)])
    .optional()
    .meta({ description: '`"404"`, `"5xx"`, or a list of such', examples: ['404', ['409', '5xx']] }),
  header: z
    .strictObject({
      name: documented(z.string().min(1))('a header that must be there', ['x-cache']),
      contains: documented(z.string().optional())('text that its value must contain, in any case', ['stale']),
    })
    .optional()
    .meta({ description: 'a condition on a header', examples: [{ name: 'x-cache', contains: 'stale' }] }),
  body: z
    .strictObject({
      path: documented(z.string())('a place in the body that must be there and not null', ['error']),
      contains: documented(z.string().optional())('text that it must contain', ['quota']),
    })
    .optional()
    .meta({ description: 'a condition on the body', examples: [{ path: 'error.code', contains: 'quota' }] }),
};

/** Statuses about the caller, or a temporary state. */
const CALLER_STATUSES: ReadonlySet<number> = new Set([401, 408, 429]);
const OTHER_STATUS_EXPECTED = 'expected a status other than 401, 408 and 429, which say nothing of what was asked for';

/** Fields of a rule that recognises refusals with one special meaning, such as a page past the end (404). */
export const answerRuleFields = {
  status: z.array(
    z
      .int()
      .min(400)
      .max(499)
      .refine((status) => !CALLER_STATUSES.has(status), OTHER_STATUS_EXPECTED),
  ),
  body: z
    .strictObject({
      path: documented(z.string())('A place in the body that must be there and not null.', ['code']),
      contains: documented(z.string().nullable().default(null))('Text that it must contain, in any case.', [
        'invalid_page_number',
      ]),
    })
    .nullable()
    .default(null),
};

/** Matches responses with one of these statuses, whose body meets the condition if there is one. */
export type AnswerRule = z.output<z.ZodObject<typeof answerRuleFields>>;

/** A row of the outcome table. The first row whose conditions hold decides, before the built-in rows (`outcome-table.ts`). */
export const outcomeRuleSchema = z.strictObject({
  ...answerConditions,
  outcome: z.enum(OUTCOMES).meta({ examples: ['retry'] }),
  /** Shown in logs and errors. */
  reason: withExamples(z.string().optional(), ['the index is being rebuilt']),
});

export type AnswerConditions = Pick<z.output<typeof outcomeRuleSchema>, keyof typeof answerConditions>;

export type OutcomeRule = z.output<typeof outcomeRuleSchema>;

function statusPattern() {
  return z.string().regex(/^[1-5](\d\d|xx)$/, 'expected a status such as "404" or "5xx", in quotes');
}

/** Prefix of every path, after `base_url`. */
export const versionPrefix = z.string().regex(/^(\/[^/]+)*$/, 'expected a prefix such as /v1');

/** The API version, which every request contains. */
export const versionSchema = z.strictObject({
  header: documented(
    z
      .strictObject({
        name: headerName.meta({ description: 'Name of that header.', examples: ['Accept-Version'] }),
        value: headerValue.meta({ description: 'Its value, the version.', examples: ['v6.0'] }),
      })
      .nullable()
      .default(null),
  )('Header that names the version.', [{ name: 'Accept-Version', value: 'v6.0' }]),
  query: documented(z.record(z.string().min(1), z.string()).default({}))('Query parameters that name the version.', [
    { 'api-version': '2024-01-01' },
  ]),
});

/** The fields of a profile that give the version of the API. */
export interface Versioned {
  version_prefix: string;
  version: z.output<typeof versionSchema>;
}

/** The API version as sent in requests. */
export interface RequestedVersion {
  /** Empty, or such as `/v1`. */
  prefix: string;
  /** Values by lower-case name. */
  headers: Readonly<Record<string, string>>;
  query: Readonly<Record<string, string>>;
}

export function requestedVersion({ version_prefix: prefix, version: { header, query } }: Versioned): RequestedVersion {
  const headers = header === null ? {} : { [header.name.toLowerCase()]: header.value };
  return { prefix, headers, query };
}

/** True if the profile has `version` besides `version_prefix`. */
export function isVersionDeclared({ version: { header, query } }: Versioned): boolean {
  return header !== null || Object.keys(query).length > 0;
}

/** Formats the version, such as `/v1, accept-version: v6.0`. */
export function formatVersion(profile: Versioned): string {
  const { prefix, headers, query } = requestedVersion(profile);
  const texts = [
    ...(prefix === '' ? [] : [prefix]),
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...Object.entries(query).map(([name, value]) => `${name}=${value}`),
  ];
  return texts.join(', ') || 'no version';
}
