/** Fields of a profile about requests and answers: `http`, `outcomes`, headers and API version. */
import { z } from 'zod';
import { OUTCOMES } from '../../model/vocabulary.ts';
import { byteSize, documented, duration, isOwnHeader, withExamples } from './basic-fields.ts';

/** Bounds of requests and answers: the field `http` of a profile. */
export const httpSchema = z.strictObject({
  /** Until the answer's headers have arrived. */
  headers_timeout: duration.prefault('30s').meta({ examples: ['10s'] }),
  /** For one attempt as a whole, body included. */
  timeout: duration.prefault('2m').meta({ examples: ['5m'] }),
  /** Attempts per request, the first one included. */
  attempts: withExamples(z.int().min(1).max(20).default(6), [3]),
  /** Unpacked bytes of one answer. */
  max_body: byteSize.prefault('16MiB').meta({ examples: ['64MiB'] }),
  /** Values of one answer, on all levels together: parsed, each may take a hundred bytes. */
  max_values: withExamples(z.int().min(1).max(100_000_000).default(2_000_000), [5_000_000]),
  /** Characters of all numbers of sixteen digits and more in one answer: they are kept as text. */
  max_digits: withExamples(z.int().min(1).max(1_000_000_000).default(1_000_000), [5_000_000]),
  /** Most requests that one process has in flight at once, per origin. */
  concurrency: withExamples(z.int().min(1).max(64).default(8), [2]),
  /** Most requests in flight of all processes on one database together; null: no limit but that of each process. */
  concurrency_total: withExamples(z.int().min(1).max(4_096).nullable().default(null), [2]),
});

/** Conditions on an answer; all that are present must hold. */
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

const UNFIT_STATUS = 'expected a status other than 401, 408 and 429, which say nothing of what was asked for';

/** Fields of a rule that recognises responses with a special meaning, such as a page past the end. */
export const answerRuleFields = {
  status: z.array(
    z
      .int()
      .min(400)
      .max(499)
      .refine((status) => ![401, 408, 429].includes(status), UNFIT_STATUS),
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

/** Matches answers with one of these statuses whose body meets the condition, if there is one. */
export interface AnswerRule {
  status: readonly number[];
  /** A place that is there and not null; its text contains this, if that is given. */
  body: { path: string; contains: string | null } | null;
}

/**
 * One row of the outcome table. The first row of which all conditions hold decides. The service's own rows come before
 * the built-in ones (`http/outcome/outcome-table.ts`).
 */
export const outcomeRuleSchema = z.strictObject({
  ...answerConditions,
  outcome: z.enum(OUTCOMES).meta({ examples: ['retry'] }),
  /** Shown in logs and errors. */
  reason: withExamples(z.string().optional(), ['the index is being rebuilt']),
});

/** Conditions on an answer, as a profile states them. */
export type AnswerConditions = Pick<z.output<typeof outcomeRuleSchema>, keyof typeof answerConditions>;

export type OutcomeRule = z.output<typeof outcomeRuleSchema>;

function statusPattern() {
  return z.string().regex(/^[1-5](\d\d|xx)$/, 'expected a status such as "404" or "5xx", in quotes');
}

export const headerName = z
  .string()
  .refine(isOwnHeader, 'expected the name of a header; Authorization belongs into auth');
export const headerValue = z.string().regex(/^[\t\x20-\x7e]*$/, 'expected printable ASCII without line breaks');

/** Beginning of every path, below `base_url`. */
export const versionPrefix = z.string().regex(/^(\/[^/]+)*$/, 'expected a prefix such as /v1');

/** The version of the API, which every request names. */
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

type VersionFields = z.output<typeof versionSchema>;

/** The fields of a profile that give the version of the API. */
export interface Versioned {
  version_prefix: string;
  version: VersionFields;
}

/** The version as requests name it. */
export interface RequestedVersion {
  /** Empty, or such as `/v1`. */
  prefix: string;
  /** Keyed by lower-case name. */
  headers: Readonly<Record<string, string>>;
  query: Readonly<Record<string, string>>;
}

export function requestedVersion({ version_prefix: prefix, version: { header, query } }: Versioned): RequestedVersion {
  const headers = header === null ? {} : { [header.name.toLowerCase()]: header.value };
  return { prefix, headers, query };
}

/** True if the profile names the version otherwise than by `version_prefix` alone. */
export function isVersionDeclared({ version: { header, query } }: Versioned): boolean {
  return header !== null || Object.keys(query).length > 0;
}

/** The version as text, such as `/v1, accept-version: v6.0`; also the key of what is stored about a service. */
export function versionText(profile: Versioned): string {
  const { prefix, headers, query } = requestedVersion(profile);
  const parts = [
    ...(prefix === '' ? [] : [prefix]),
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...Object.entries(query).map(([name, value]) => `${name}=${value}`),
  ];
  return parts.length === 0 ? 'no version' : parts.join(', ');
}
