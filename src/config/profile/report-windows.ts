/** The field `windows` of a resource: reports that are requested by ranges of days. */
import { z } from 'zod';
import { bodyPath, documented, fieldPath, requestPlace, timeSpan, variablesIn } from './basic-fields.ts';
import { answerRuleFields } from './http-fields.ts';
import { isNamedFormat, parsePattern, zone } from './incremental.ts';

/** What a window is: weeks begin on a monday, months on their first day. */
const GRANULARITIES = ['day', 'week', 'month'] as const;

export type Granularity = (typeof GRANULARITIES)[number];

const DAY_MS = 86_400_000;
const KEEP = /^([1-9]\d{0,3}) (days?|months?|years?)$/;

const format = z.string().refine((text) => text !== 'as_sent' && (isNamedFormat(text) || parsePattern(text) !== null), {
  error: 'expected iso, epoch_s, epoch_ms, or a date pattern such as yyyy-MM-dd or yyyyMMdd',
});

/** How long a window is kept, in calendar days or months. */
const age = z
  .string()
  .regex(KEEP, 'expected an age such as 90 days, 25 months or 2 years')
  .transform((text) => {
    const [, count = '', unit = ''] = KEEP.exec(text) ?? [];
    if (unit.startsWith('day')) return { days: Number(count), months: 0 };
    return { days: 0, months: Number(count) * (unit.startsWith('year') ? 12 : 1) };
  });

/** A status of a refusal, including those with which a proxy gives up. */
const refusal = z
  .int()
  .min(400)
  .max(599)
  .refine((status) => ![401, 408, 429].includes(status), 'expected a status other than 401, 408 and 429');

const windowsSchema = z.strictObject({
  field: documented(fieldPath)(
    'Field with the day or time of a record, which selects its window. `20260131` works too.',
    ['date', 'dimensions.day'],
  ),
  from_param: documented(requestPlace.nullable().default(null))(
    'Where a request takes the first day; null if a template has `{from}`.',
    ['from', 'body:range.start'],
  ),
  to_param: documented(requestPlace.nullable().default(null))(
    'Where a request takes the end, unless a template has `{to}`. Null without `{to}`: one window per request.',
    ['to', 'body:range.end'],
  ),
  to_inclusive: documented(z.boolean().default(true))(
    'True if the end is the last day; false if it is the day after.',
    [false],
  ),
  format: documented(format.default('yyyy-MM-dd'))(
    'Format of days in a request: a date pattern in `zone`, `iso`, `epoch_s` or `epoch_ms`.',
    ['yyyy-MM-dd', 'yyyyMMdd', "yyyy-MM-dd'T'HH:mm:ssXXX"],
  ),
  granularity: documented(z.enum(GRANULARITIES).default('day'))('What a window is; weeks begin on Monday.', [
    'week',
    'month',
  ]),
  start: documented(z.iso.date('expected a date such as 2020-01-01'))('First day with reports.', ['2020-01-01']),
  restate: documented(timeSpan.prefault('72h'))(
    'How long after its end a window can change: until then every run requests it.',
    ['72h', '7d'],
  ),
  largest: documented(
    timeSpan.refine((ms) => ms >= DAY_MS && ms % DAY_MS === 0, 'expected whole days, such as 31d').prefault('31d'),
  )('Largest range of one request.', ['31d', '1d']),
  most: documented(z.int().min(1).nullable().default(null))(
    'Maximum rows per query: a range that reaches it is halved.',
    [1000, 100_000],
  ),
  too_large: z
    .strictObject({ ...answerRuleFields, status: z.array(refusal).min(1) })
    .nullable()
    .default(null)
    .meta({
      description: 'How the service refuses a range that is too large: it is halved.',
      examples: [{ status: [413, 504] }, { status: [400], body: { path: 'error.code', contains: 'too_large' } }],
    }),
  zone: documented(zone.default('UTC'))('Zone of the days.', ['Europe/Zurich']),
  totals: documented(z.record(fieldPath, bodyPath).default({}))(
    'Where a response has the sum of a field over the range, to compare.',
    [{ views: 'totals.views' }],
  ),
  keep: documented(age.nullable().default(null))('Age at which windows leave the copy; null keeps all.', [
    '25 months',
    '90 days',
  ]),
});

/** Reports: the field of a resource. */
export const windowFields = {
  windows: documented(windowsSchema.nullable().default(null))(
    'For reports: the listing is requested by ranges of days, and each window replaced as a whole.',
    [{ field: 'date', from_param: 'from', to_param: 'to', start: '2020-01-01', restate: '72h' }],
  ),
};

export type ReportWindows = z.output<typeof windowsSchema>;

/** The fields of a resource that must agree with its windows. */
interface ReportResource {
  windows: ReportWindows | null;
  incremental: unknown;
  feed: unknown;
  partitions: unknown;
  path: string;
  query: Readonly<Record<string, string>>;
  headers: Readonly<Record<string, string>>;
  body: unknown;
}

/** Why a resource cannot be requested by windows; empty if it can. Paths are within the resource. */
export function windowFaults(resource: ReportResource): { path: string[]; message: string }[] {
  const { windows } = resource;
  const asks = { from: asksFor(resource, 'from'), to: asksFor(resource, 'to') };
  if (windows === null) {
    if (!asks.from && !asks.to) return [];
    return [{ path: ['windows'], message: 'expected windows, because {from} or {to} stands in a template' }];
  }
  const faults = [
    resource.incremental === null && resource.feed === null
      ? null
      : ['incremental', 'expected null, because `windows` says what is asked for again'],
    resource.partitions === null
      ? null
      : ['partitions', 'expected null: several listings cannot be asked for by windows yet'],
    windows.from_param !== null || asks.from
      ? null
      : [
          'windows.from_param',
          'expected the place that takes the first day, or {from} in path, query, headers or body',
        ],
    windows.to_param !== null && asks.to
      ? ['windows.to_param', 'expected null, because {to} stands in a template already']
      : null,
    windows.from_param !== null && windows.from_param === windows.to_param
      ? ['windows.to_param', 'expected another place than that of the first day']
      : null,
  ];
  return faults.flatMap((fault) => {
    const [path, message] = fault ?? [];
    return path === undefined || message === undefined ? [] : [{ path: path.split('.'), message }];
  });
}

/** True if requests say where a range ends: else each asks for one window by its first day. */
export function asksForEnd(resource: ReportResource): boolean {
  return resource.windows?.to_param != null || asksFor(resource, 'to');
}

function asksFor({ path, query, headers, body }: ReportResource, variable: string): boolean {
  return variablesIn([path, query, headers, body]).includes(variable);
}
