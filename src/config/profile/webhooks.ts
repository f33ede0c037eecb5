// The grammar of `webhooks` in a profile: signature, and where an event names its record.
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
    description: 'Pattern of the kind of event, or several; a star is any text.',
    examples: ['post.*', ['entry.publish', 'entry.update']],
  }),
  where: documented(eventConditionsSchema.prefault({}))(
    'Values that the event must have, by place: one text or several; a star is any text.',
    [{ 'json:collection': 'articles' }, { 'json:model': ['article', 'page'] }],
  ),
  resource: z
    .union([resourceName, z.array(resourceName).max(20)])
    .transform((given) => (typeof given === 'string' ? [given] : given))
    .optional()
    .meta({
      description: 'Resource of the event, or several. An empty list ignores it.',
      examples: ['posts', ['posts', 'pages'], []],
    }),
  id: documented(eventFieldsSchema.nullable().optional())(
    'Place of the id, or several in order; a list means several records. Null: the resource is scanned.',
    ['json:entry.documentId', ['json:post.current.id', 'json:post.previous.id'], null],
  ),
  updated: documented(eventFieldsSchema.nullable().optional())('Place of the time of change, or several in order.', [
    'json:entry.updatedAt',
    null,
  ]),
  deleted: documented(z.boolean().optional())('Whether the record is deleted. By default by `webhooks.deleted`.', [
    true,
  ]),
  continue: documented(z.boolean().default(false))('Whether later rules read the same event too.', [true]),
});

/** How a webhook is verified and read. It is only ever a hint: the record is read again from the service. */
export const webhooksSchema = z.strictObject({
  signature: signatureSchema.prefault('standard-webhooks'),
  /** Path of the body's list of events; null if one delivery is one event. */
  events: withExamples(bodyPath.nullable().default(null), ['events', '']),
  /** The kind of event; within the event, or in a header of the delivery. */
  kind: eventFieldSchema.prefault('json:type').meta({ examples: ['json:event', 'header:X-Event'] }),
  rules: documented(z.array(ruleSchema).max(200).default([]))(
    'Rules by kind of event, before `kinds`; the first that fits decides.',
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
    'Place of the id, or several in order; a list means several records. Null: the resource is scanned.',
    ['json:entry.documentId', ['json:key', 'json:keys']],
  ),
  updated: documented(eventFieldsSchema.nullable().prefault('json:data.updated_at'))(
    'Place of the time of change, or several in order: an older fetch is repeated.',
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
