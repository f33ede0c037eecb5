import { z } from 'zod';
import { isTimeZone } from '../model/time-zone.ts';
import { hasOffset, parsePattern } from './date-pattern.ts';
import { duration } from './duration-and-size.ts';
import { isOwnHeader, requestPlace } from './request-place.ts';
import type { BodyPart } from './filter-places.ts';
import { templateSchema } from './template.ts';

/** Forms of a moment that have a name; any other is a pattern. */
export const NAMED_FORMATS = ['as_sent', 'iso', 'epoch_s', 'epoch_ms'] as const;

export type NamedFormat = (typeof NAMED_FORMATS)[number];

const template = templateSchema(['since']);

const format = z.string().refine((text) => isNamedFormat(text) || parsePattern(text) !== null, {
  error:
    `expected ${NAMED_FORMATS.join(', ')}, or a date pattern of yyyy MM dd HH mm ss SSS XXX without gaps, ` +
    "its text in single quotes, such as yyyy-MM-dd'T'HH:mm:ss",
});

/** Maps all the way down: a list is written in the resource's own body, which has the same variables. */
const bodyPart: z.ZodType<BodyPart> = z.lazy(() =>
  z.union([template, z.number(), z.record(z.string().min(1), bodyPart)]),
);

const zone = z.string().refine(isTimeZone, 'expected a time zone such as Europe/Zurich or +02:00');

/** How a service is asked for what changed. */
const MODES = ['filter', 'newest_first'] as const;

const filterFields = z.strictObject({
  mode: z
    .enum(MODES)
    .default('filter')
    .meta({
      description:
        '`filter`: the service lists what changed since a moment. `newest_first`: it cannot, but its listing descends ' +
        'by `updated` (`query` is how it is asked for that): it is read until a page is older than the cursor. ' +
        '`feed`, for a feed of changes, has fields of its own.',
      examples: ['filter', 'newest_first'],
    }),
  param: requestPlace
    .nullable()
    .default(null)
    .meta({
      description:
        'Where a request takes the moment. May be left out where `query`, `headers` or `body`, here or of the resource, have it.',
      examples: ['updated_since', 'filter', 'header:X-Changed-Since', 'body:filter.from'],
    }),
  template: template.default('{since}').meta({
    description: 'The value of `param`, with `{since}` where the moment stands. Quotes are part of the template.',
    examples: ['{since}', "updated_at:>='{since}'"],
  }),
  query: z
    .record(z.string().min(1), template)
    .default({})
    .meta({
      description: 'Query parameters of a request for changes, besides or instead of `param`. Each is a template.',
      examples: [
        {
          'filter[_or][0][date_updated][_gte]': '{since}',
          'filter[_or][1][date_created][_gte]': '{since}',
        },
      ],
    }),
  headers: z
    .record(z.string().refine(isOwnHeader, 'expected the name of a header; Authorization belongs into auth'), template)
    .default({})
    .meta({
      description: 'Headers of a request for changes, besides or instead of `param`. Each is a template.',
      examples: [{ 'X-Changed-Since': '{since}' }],
    }),
  body: z
    .record(z.string().min(1), bodyPart)
    .default({})
    .meta({
      description:
        'Fields of the JSON body of a request for changes, besides those of the resource. A text is a template; a Unix time alone becomes a number.',
      examples: [{ filter: { updated: { from: '{since}' } } }],
    }),
  format: format.default('as_sent').meta({
    description:
      'How the moment is written: as the service writes it itself (`as_sent`), as ISO 8601 in UTC with milliseconds ' +
      '(`iso`), as a Unix time (`epoch_s`, `epoch_ms`), or by a date pattern of Unicode TR35. What a pattern does not ' +
      'show is rounded down, so that nothing is left out.',
    examples: ['as_sent', 'epoch_s', 'yyyy-MM-dd HH:mm:ss', "yyyy-MM-dd'T'HH:mm:ssXXX"],
  }),
  zone: zone
    .nullable()
    .default(null)
    .meta({
      description:
        'Zone of a moment that a date pattern writes without one. By default that of `updated` in `times`, and UTC without any.',
      examples: ['Europe/Zurich', '+02:00'],
    }),
  overlap: duration.prefault('10m').meta({
    description: 'How far before the cursor the walk starts; covers late commits and ties.',
    examples: ['10m', '1d'],
  }),
});

/** How to request what changed since a moment; null in a resource that has no such filter. */
export const incrementalSchema = filterFields
  .refine(({ mode, param }) => mode === 'filter' || param === null, {
    path: ['mode'],
    error: 'expected filter, because a listing that is read newest first takes no moment (put its order into `query`)',
  })
  .refine(({ zone: name, format: form }) => name === null || takesZone(form), {
    path: ['zone'],
    error: 'expected null: only a date pattern without an offset takes a zone (as_sent goes by `times`)',
  });

/** How changes are found: the fields of a resource. */
export const incrementalFields = {
  /** The field with the time of a record's last change; null if there is none. */
  updated: z
    .union([z.string().min(1), z.array(z.string().min(1)).min(1)])
    .nullable()
    .default('updated_at')
    .meta({
      description:
        "The field with the time of a record's last change, or several of which the first that is not null counts; " +
        'null if there is none.',
      examples: ['updated_at', ['date_updated', 'date_created']],
    }),
  incremental: incrementalSchema.nullable().default(null),
};

export type IncrementalProfile = z.output<typeof incrementalSchema>;

export function isNamedFormat(text: string): text is NamedFormat {
  return NAMED_FORMATS.some((name) => name === text);
}

function takesZone(text: string): boolean {
  return !isNamedFormat(text) && !hasOffset(parsePattern(text) ?? []);
}
