import { z } from 'zod';
import { isTimeZone } from '../model/time-zone.ts';
import { CONTRACTS, HISTORY_POLICIES, PROOFS } from '../model/vocabulary.ts';
import { byteSize, duration } from './duration-and-size.ts';
import { outcomeRuleSchema } from './outcome-rule.ts';
import { bodyPath, pageSchema } from './page-style.ts';
import { eventFieldSchema } from './delivery-field.ts';
import { rateDialectSchema } from './rate-dialect.ts';
import { signatureSchema } from './signature-scheme.ts';

/** How to ask for what changed since a moment; null in a resource where the service has no such filter. */
const incrementalSchema = z.strictObject({
  /** Query parameter that takes the moment. */
  param: z.string().min(1),
  /** How the moment is written: as the service writes it itself, or as a Unix time. */
  format: z.enum(['as_sent', 'iso', 'epoch_s', 'epoch_ms']).default('as_sent'),
  /** How far before the cursor the walk starts; covers late commits and ties. */
  overlap: duration.prefault('10m'),
});

/** An IANA name or a fixed offset. */
const zoneName = z.string().refine(isTimeZone, 'expected a time zone such as Europe/Zurich or +02:00');

const resourceFields = z.strictObject({
  /** Collection path below the version prefix. */
  path: z.string().regex(/^\//, 'expected a path that begins with /'),
  /** Where the array of records lies in a page's body; the empty string where the body is the array. */
  records: bodyPath.default('data'),
  /** The field that identifies a record, or several that do so together: of those some may be null or empty. */
  id: z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]).default('id'),
  /** The field that says when a record last changed; null where there is none. */
  updated: z.string().min(1).nullable().default('updated_at'),
  page: pageSchema,
  incremental: incrementalSchema.nullable().default(null),
  /** Further query parameters of every listing request. */
  query: z.record(z.string(), z.string()).default({}),
  /** Path of one record, with `{id}`; null where a record cannot be read alone. */
  item: z
    .string()
    .includes('{id}')
    .regex(/^[^?#]*$/, 'expected a path without ? or #: query parameters of a single record stand in item_query')
    .nullable()
    .default(null),
  /** Query parameters of that request: `inherit` for those of the listing (`query`), or others. */
  item_query: z.union([z.literal('inherit'), z.record(z.string(), z.string())]).default('inherit'),
  /** Where the record lies in the body of that answer; the empty string where the body is the record. */
  item_record: bodyPath.default(''),
  /**
   * What this service can never prove and is believed all the same: then it is a warning in every run, which is `ok`;
   * else such a run is `partial`.
   */
  accept: z.array(z.enum(PROOFS)).default([]),
  history: z.enum(HISTORY_POLICIES).default('latest'),
  contract: z.enum(CONTRACTS).default('evolve'),
  /** Fields kept as one JSON column instead of being flattened or made a child table. */
  json: z.array(z.string().min(1)).default([]),
  /** The zone of times that name none, by field; without it they are read as UTC. A time that has one keeps it. */
  times: z.record(z.string().min(1), zoneName).default({}),
  /** Levels of objects and arrays that become columns and child tables; what lies deeper is a JSON column. */
  depth: z.int().min(1).max(10).default(4),
  /** Columns made from source fields per table; further new fields are kept together in `_overflow`. */
  max_columns: z.int().min(10).max(900).default(200),
});

/** No service knows a path by our key of several fields: it would answer 404, as if every record were gone. */
const resourceSchema = resourceFields.refine(({ id, item }) => typeof id === 'string' || item === null, {
  path: ['item'],
  error: 'expected null, because a record that several fields identify has no id that could stand in a path',
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

/** `content.*`: a star stands for any text. */
const kindPattern = z.string().min(1);

/** How a webhook is proved and what it tells. It is only ever a hint: the record is read again from the service. */
const webhooksSchema = z.strictObject({
  signature: signatureSchema.prefault('standard-webhooks'),
  /** Where the body has its list of events; null where one delivery is one event. */
  events: bodyPath.nullable().default(null),
  /** What happened; within the event, or in a header of the delivery. */
  kind: eventFieldSchema.prefault('json:type'),
  /** Which resource it happened to, in the service's word. */
  resource: eventFieldSchema.nullable().prefault('json:data.resource'),
  /** The service's word for a resource, where it is not the profile's name. */
  resource_names: z.record(z.string(), z.string()).default({}),
  /** Resource by event kind, looked at before `resource`; the first pattern that fits. */
  kinds: z.record(kindPattern, z.string()).default({}),
  /** The record's id. */
  id: eventFieldSchema.prefault('json:data.id'),
  /** The record's time of change after the event, where the event says it: a reading from before it is read again. */
  updated: eventFieldSchema.nullable().prefault('json:data.updated_at'),
  /** Kinds that say that a record is gone. */
  deleted: z.array(kindPattern).default(['*.deleted']),
});

/**
 * What the service's document does not show, as data: `config/profiles/*.yaml`. Every field that is assumed rather
 * than documented is marked there. `z.input` is the file's shape, `z.output` what the program works with.
 */
export const profileSchema = z.strictObject({
  /** Name or path of a profile to start from: its fields hold where this one says nothing. */
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
   * Path that answers only who is known to the service (`/users/me`): asked for at the beginning of each run, so that a
   * credential that is ignored ends the run; null where there is none.
   */
  identity: z.string().regex(/^\//, 'expected a path that begins with /').nullable().default(null),
  resources: z
    .record(z.string().regex(/^[a-z][a-z0-9_]{0,40}$/, 'expected a lower-case name'), resourceSchema)
    .refine((resources) => Object.keys(resources).length > 0, 'expected at least one resource'),
});

export type Profile = z.output<typeof profileSchema>;
export type ResourceProfile = Profile['resources'][string];
export type IncrementalProfile = z.output<typeof incrementalSchema>;
export type HttpProfile = z.output<typeof httpSchema>;
export type WebhookProfile = z.output<typeof webhooksSchema>;
