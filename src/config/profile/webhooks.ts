import { z } from 'zod';
import {
  bodyPath,
  documented,
  eventConditionsSchema,
  type EventField,
  eventFieldSchema,
  eventFieldsSchema,
  withExamples,
} from './basic-fields.ts';
import { signatureSchema } from './signature-scheme.ts';

/** `content.*`: a star matches any text. */
const kindPattern = z.string().min(1);
const kindPatterns = z
  .union([kindPattern, z.array(kindPattern).min(1).max(100)])
  .transform((given) => (typeof given === 'string' ? [given] : given));

const resourceName = z.string().regex(/^[a-z][a-z0-9_]{0,40}$/, 'expected the name of a resource of this profile');

/** The reading of events of some kinds. What a rule does not say is read as for all events. */
const ruleSchema = z.strictObject({
  kind: kindPatterns.default(['*']).meta({
    description: 'Pattern of the kind of event, or several of which one has to fit; a star stands for any text.',
    examples: ['post.*', ['entry.publish', 'entry.update']],
  }),
  where: documented(eventConditionsSchema.prefault({}))(
    'Values that the event has to have besides its kind, by their place: one text or several, in which a star stands for any text. A place without a value fits no text.',
    [{ 'json:collection': 'articles' }, { 'json:model': ['article', 'page'] }],
  ),
  resource: z
    .union([resourceName, z.array(resourceName).max(20)])
    .transform((given) => (typeof given === 'string' ? [given] : given))
    .optional()
    .meta({
      description:
        'The resource, by its name in this profile, or several that one event is about. An empty list: such an event is ignored. Absent: as the event says.',
      examples: ['posts', ['posts', 'pages'], []],
    }),
  id: documented(eventFieldsSchema.nullable().optional())(
    'Place of the record’s id, or several that are tried in this order. A list of ids there means as many records. Null: the event names no record, and the resource is walked.',
    ['json:entry.documentId', ['json:post.current.id', 'json:post.previous.id'], null],
  ),
  updated: documented(eventFieldsSchema.nullable().optional())(
    'Place of the record’s time of change after the event, or several that are tried in this order.',
    ['json:entry.updatedAt', null],
  ),
  deleted: documented(z.boolean().optional())(
    'Whether such an event says that the record is gone. Absent: by the patterns in `webhooks.deleted`.',
    [true],
  ),
  continue: documented(z.boolean().default(false))(
    'Whether the rules after this one are looked at as well: for events that tell of several resources.',
    [true],
  ),
});

/** How a webhook is verified and read. It is only ever a hint: the record is read again from the service. */
export const webhooksSchema = z.strictObject({
  signature: signatureSchema.prefault('standard-webhooks'),
  /** Path of the body's list of events; null if one delivery is one event. */
  events: withExamples(bodyPath.nullable().default(null), ['events', '']),
  /** The kind of event; within the event, or in a header of the delivery. */
  kind: eventFieldSchema.prefault('json:type').meta({ examples: ['json:event', 'header:X-Event'] }),
  rules: documented(z.array(ruleSchema).max(200).default([]))(
    'How events of some kinds are read, looked at before `kinds`: the first rule that fits. An event that fits none is read by the fields beside this one.',
    [
      [
        { kind: 'post.*', resource: 'posts', id: ['json:post.current.id', 'json:post.previous.id'] },
        { kind: '*.delete', where: { 'json:collection': 'articles' }, resource: 'articles', id: 'json:keys' },
      ],
    ],
  ),
  /** The resource, by the service's own name. */
  resource: withExamples(eventFieldSchema.nullable().prefault('json:data.resource'), ['json:model', null]),
  /** The service's name for a resource, if it is not the profile's. */
  resource_names: withExamples(z.record(z.string(), z.string()).default({}), [{ article: 'articles' }]),
  /** Resource by event kind, checked before `resource`; the first pattern that matches. */
  kinds: withExamples(z.record(kindPattern, z.string()).default({}), [{ 'post.*': 'posts' }]),
  id: documented(eventFieldsSchema.nullable().prefault('json:data.id'))(
    'Place of the record’s id, or several that are tried in this order. A list of ids there means as many records. Null: events name no record, and their resource is walked.',
    ['json:entry.documentId', ['json:key', 'json:keys']],
  ),
  updated: documented(eventFieldsSchema.nullable().prefault('json:data.updated_at'))(
    'Place of the record’s time of change after the event, if the event holds it, or several that are tried in this order: an older reading is read again.',
    ['json:entry.updatedAt', ['json:post.current.updated_at', 'json:page.current.updated_at']],
  ),
  /** Kinds that mean that a record is gone. */
  deleted: withExamples(z.array(kindPattern).default(['*.deleted']), [['*.delete', '*.unpublish']]),
});

export type WebhookProfile = z.output<typeof webhooksSchema>;
export type WebhookRule = WebhookProfile['rules'][number];

/** All places of an event that are looked at. */
export function eventFieldsOf({ kind, resource, id, updated, rules }: WebhookProfile): EventField[] {
  const ruled = rules.flatMap((rule) => [rule.id, rule.updated, rule.where.map(({ field }) => field)]);
  const single = resource === null ? [kind] : [kind, resource];
  return [single, id, updated, ...ruled].flatMap((fields) => fields ?? []);
}

/** The fields of rules that name no resource of the profile; paths are within `webhooks`. */
export function rulesWithoutResource({ rules }: WebhookProfile, resources: object): (string | number)[][] {
  // Called for rules with faults of their own too.
  return rules.flatMap(({ resource = [] }, at) =>
    [resource].flat().every((name) => Object.hasOwn(resources, name)) ? [] : [['rules', at, 'resource']],
  );
}
