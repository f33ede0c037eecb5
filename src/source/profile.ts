import { z } from 'zod';
import { isTimeZone } from '../model/time-zone.ts';
import { CONTRACTS, HISTORY_POLICIES, PROOFS } from '../model/vocabulary.ts';
import { eventFieldSchema } from './delivery-field.ts';
import { byteSize, duration } from './duration-and-size.ts';
import { outcomeRuleSchema } from './outcome-rule.ts';
import { bodyPath, pageSchema } from './page-style.ts';
import { rateDialectSchema } from './rate-dialect.ts';
import { signatureSchema } from './signature-scheme.ts';

/** How to request what changed since a moment; null in a resource that has no such filter. */
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
  /** Path of the array of records in a page's body; the empty string if the body is the array. */
  records: bodyPath.default('data'),
  /** The field that identifies a record, or several that do so together: of those some may be null or empty. */
  id: z.union([z.string().min(1), z.array(z.string().min(1)).min(1)]).default('id'),
  /** The field with the time of a record's last change; null if there is none. */
  updated: z.string().min(1).nullable().default('updated_at'),
  page: pageSchema,
  incremental: incrementalSchema.nullable().default(null),
  /** Further query parameters of every listing request. */
  query: z.record(z.string(), z.string()).default({}),
  /** Path of one record, with `{id}`; null if a record cannot be read alone. */
  item: z
    .string()
    .includes('{id}')
    .regex(/^[^?#]*$/, 'expected a path without ? or #: query parameters of a single record stand in item_query')
    .nullable()
    .default(null),
  /** Query parameters of that request: `inherit` for those of the listing (`query`), or others. */
  item_query: z.union([z.literal('inherit'), z.record(z.string(), z.string())]).default('inherit'),
  /** Path of the record in the body of that answer; the empty string if the body is the record. */
  item_record: bodyPath.default(''),
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

/** `content.*`: a star matches any text. */
const kindPattern = z.string().min(1);

/** How a webhook is verified and read. It is only ever a hint: the record is read again from the service. */
const webhooksSchema = z.strictObject({
  signature: signatureSchema.prefault('standard-webhooks'),
  /** Path of the body's list of events; null if one delivery is one event. */
  events: bodyPath.nullable().default(null),
  /** The kind of event; within the event, or in a header of the delivery. */
  kind: eventFieldSchema.prefault('json:type'),
  /** The resource, by the service's own name. */
  resource: eventFieldSchema.nullable().prefault('json:data.resource'),
  /** The service's name for a resource, if it is not the profile's. */
  resource_names: z.record(z.string(), z.string()).default({}),
  /** Resource by event kind, checked before `resource`; the first pattern that matches. */
  kinds: z.record(kindPattern, z.string()).default({}),
  /** The record's id. */
  id: eventFieldSchema.prefault('json:data.id'),
  /** The record's time of change after the event, if the event holds it: an older reading is read again. */
  updated: eventFieldSchema.nullable().prefault('json:data.updated_at'),
  /** Kinds that mean that a record is gone. */
  deleted: z.array(kindPattern).default(['*.deleted']),
});

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
  resources: z
    .record(z.string().regex(/^[a-z][a-z0-9_]{0,40}$/, 'expected a lower-case name'), resourceSchema)
    .refine((resources) => Object.keys(resources).length > 0, 'expected at least one resource'),
});

export type Profile = z.output<typeof profileSchema>;
export type ResourceProfile = Profile['resources'][string];
export type IncrementalProfile = z.output<typeof incrementalSchema>;
export type HttpProfile = z.output<typeof httpSchema>;
export type WebhookProfile = z.output<typeof webhooksSchema>;
