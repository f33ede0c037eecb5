import { z } from 'zod';
import { isTimeZone } from '../model/time-zone.ts';
import { CONTRACTS, HISTORY_POLICIES, PROOFS } from '../model/vocabulary.ts';
import { byteSize, duration } from './duration-and-size.ts';
import { asksSince, asksUntil } from './filter-places.ts';
import { incrementalFields } from './incremental.ts';
import { itemFields } from './item-fields.ts';
import { outcomeRuleSchema } from './outcome-rule.ts';
import { pageSchema } from './page-style.ts';
import { rateDialectSchema } from './rate-dialect.ts';
import { recordFields } from './record-fields.ts';
import { requestFields, withPostBodies } from './request-fields.ts';
import { webhooksSchema } from './webhooks.ts';

/** An IANA name or a fixed offset. */
const zoneName = z.string().refine(isTimeZone, 'expected a time zone such as Europe/Zurich or +02:00');

const resourceFields = z.strictObject({
  extends: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .meta({
      description:
        'Another resource of this profile to start from: its fields hold unless they are given here. A page of another style replaces its page.',
      examples: ['posts'],
    }),
  ...requestFields,
  ...recordFields,
  ...incrementalFields,
  page: pageSchema,
  ...itemFields,
  /**
   * Proofs that this service can never give and that are done without: a warning in every run, which may be `ok`.
   * Without an entry here such a run is `partial`.
   */
  accept: z.array(z.enum(PROOFS)).default([]),
  history: z.enum(HISTORY_POLICIES).default('latest'),
  contract: z.enum(CONTRACTS).default('evolve'),
  /** Fields kept as one JSON column instead of being flattened or made a child table. */
  json: z.array(z.string().min(1)).default([]),
  /** Zone of the times that name none, by field; without it they are read as UTC. A time that has one keeps it. */
  times: z.record(z.string().min(1), zoneName).default({}),
  /** Levels of objects and arrays that become columns and child tables; deeper ones become a JSON column. */
  depth: z.int().min(1).max(10).default(4),
  /** Columns made from source fields per table; further new fields are kept together in `_overflow`. */
  max_columns: z.int().min(10).max(900).default(200),
});

/** No service has a path for our key of several fields: it would answer 404, as if every record were gone. */
const resourceSchema = withPostBodies(resourceFields)
  .refine(({ id, item }) => typeof id === 'string' || item === null, {
    path: ['item'],
    error: 'expected null, because a record that several fields identify has no id that could stand in a path',
  })
  // A cursor does not tell which of them it comes from.
  .refine(({ times, updated }) => new Set([updated].flat().map((path) => times[path ?? ''])).size === 1, {
    path: ['times'],
    error: 'expected the same zone for all fields of `updated`',
  })
  .refine(asksSince, {
    path: ['incremental', 'param'],
    error: 'expected the place that takes the moment, or {since} in a template of the resource or of incremental',
  })
  .refine(asksUntil, {
    path: ['incremental', 'until_param'],
    error:
      'expected the place that takes the end of a window, or {until} in a template, where `window` is set, and only there',
  });

const httpSchema = z.strictObject({
  /** Until the answer's headers are there. */
  headers_timeout: duration.prefault('30s'),
  /** For one attempt as a whole, body included. */
  timeout: duration.prefault('2m'),
  /** Attempts per request, the first one included. */
  attempts: z.int().min(1).max(20).default(6),
  /** Unpacked bytes of one answer. */
  max_body: byteSize.prefault('16MiB'),
  /** Values of one answer, on all levels together: parsed, each may take a hundred bytes. */
  max_values: z.int().min(1).max(100_000_000).default(2_000_000),
  /** Characters of all numbers of sixteen digits and more in one answer: they are kept as text. */
  max_digits: z.int().min(1).max(1_000_000_000).default(1_000_000),
  /** Requests under way at once, to one origin. */
  concurrency: z.int().min(1).max(64).default(8),
});

const oauthSchema = z.strictObject({
  token_path: z.string().regex(/^\//).default('/oauth/token'),
  /** How the client proves itself to the token endpoint. */
  client_auth: z.enum(['body', 'basic']).default('body'),
});

const headerName = z.string().regex(/^[!#$%&'*+.^_`|~\w-]+$/, 'expected the name of a header');
const headerValue = z.string().regex(/^[\t\x20-\x7e]*$/, 'expected printable ASCII without line breaks');

/**
 * Everything that the service's document does not show, as data: `config/profiles/*.yaml`. Every field that is assumed
 * rather than documented is marked there. `z.input` is the file's shape, `z.output` what the program works with.
 */
export const profileSchema = z.strictObject({
  /** Name or path of a profile to start from: its fields hold unless they are given here. */
  extends: z.string().min(1).optional(),
  version_prefix: z
    .string()
    .regex(/^(\/[^/]+)*$/, 'expected a prefix such as /v1')
    .default('/v1'),
  /** Sent with every request besides Authorization. */
  headers: z.record(headerName, headerValue).default({}),
  oauth: oauthSchema.prefault({}),
  http: httpSchema.prefault({}),
  outcomes: z.array(outcomeRuleSchema).default([]),
  rate_limit: rateDialectSchema.prefault('auto'),
  webhooks: webhooksSchema.prefault({}),
  /**
   * Path that needs a valid credential (`/users/me`): requested at the beginning of each run, so that a
   * credential that is ignored ends the run; null if there is none.
   */
  identity: z.string().regex(/^\//, 'expected a path that begins with /').nullable().default(null),
  defaults: z
    .record(z.string(), z.unknown())
    .optional()
    .meta({
      description:
        'Fields of all resources that do not say otherwise. In the texts of a resource, `{resource}` stands for its name.',
      examples: [{ path: '/{resource}', records: '{resource}', page: { style: 'page', size: 50 } }],
    }),
  resources: z
    .record(z.string().regex(/^[a-z][a-z0-9_]{0,40}$/, 'expected a lower-case name'), resourceSchema)
    .refine((resources) => Object.keys(resources).length > 0, 'expected at least one resource'),
});

export type Profile = z.output<typeof profileSchema>;
export type ResourceProfile = Profile['resources'][string];
export type HttpProfile = z.output<typeof httpSchema>;
