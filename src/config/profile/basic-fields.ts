/**
 * The kinds of values in settings and profiles, each with its schema and its parser: paths in a JSON body (`meta.next`),
 * durations (`10m`), sizes (`64MiB`), the place of a value in a request (`header:X-Page`), and templates (`/posts/{id}`).
 */
import { z } from 'zod';
import { fieldPathText, isEach, keysOfPath, parseBodyPath } from '../../model/body-path.ts';
import { SyncError } from '../../model/errors.ts';

/** Adds a description and examples for the reference to a schema: `documented(schema)(description, examples)`. */
export function documented<T extends z.ZodType>(schema: T): (description: string, examples?: readonly unknown[]) => T {
  return (description, examples) => schema.meta(examples === undefined ? { description } : { description, examples });
}

/** Adds examples to a schema that the reference describes elsewhere. */
export function withExamples<T extends z.ZodType>(schema: T, examples: readonly unknown[]): T {
  return schema.meta({ examples });
}

/** One value or a list of them, parsed to a list. */
export function oneOrMore<T extends z.ZodType>(item: T, list: z.ZodArray<T>) {
  return z.union([item.transform((one) => [one]), list]);
}

const PATH_EXPECTED =
  'expected a path such as meta.next, items[0], items[-1] or "a.b".c (a key with a dot or a bracket is quoted)';

/** A path in a JSON body: keys joined by dots (`meta.next`), `[0]`, `"a.b"`; the empty string for the body itself. */
export const bodyPath = z.string().refine((text) => parseBodyPath(text)?.some(isEach) === false, PATH_EXPECTED);

/** A path in a JSON body that may contain `[*]` for each element of an array, and `*` for each value of a map. */
export const recordsPath = z
  .string()
  .refine(
    (text) => parseBodyPath(text) !== null,
    `${PATH_EXPECTED}, with [*] for each element and * for each value of a map`,
  );

/** A path from a record to one of its fields, only through objects. */
export const fieldPath = z
  .string()
  .min(1)
  .refine(
    (text) => parseBodyPath(text) !== null && keysOfPath(text) !== null,
    'expected a field such as author.id; a key with a dot or a bracket is quoted: "a.b".id',
  );

/** The path of a column, in normal form. */
export const columnPath = z.string().min(1).transform(fieldPathText);

const DURATION_EXPECTED = 'expected a duration such as 500ms, 30s, 10m or 1h';
const SIZE_EXPECTED = 'expected a size such as 64MiB, 500kB or 2GB';
/** Node's timers fire at once if they are set for longer than this. */
const MAX_TIMER_MS = 2_147_483_647;

const DURATION_UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const SIZE_UNITS = {
  B: 1,
  kB: 1_000,
  KiB: 1_024,
  MB: 1_000_000,
  MiB: 1_048_576,
  GB: 1_000_000_000,
  GiB: 1_073_741_824,
} as const;

/** A duration in a YAML file (`500ms`, `30s`, `10m`, `1h`, `2d`), read as milliseconds. */
export const timeSpan = z
  .string(DURATION_EXPECTED)
  .regex(/^\d+(\.\d+)?(ms|s|m|h|d)$/, DURATION_EXPECTED)
  .transform((text) => measure(text, DURATION_UNITS));

/** A duration of a timer, which has an upper limit. */
export const duration = timeSpan.refine((ms) => ms <= MAX_TIMER_MS, 'expected a duration of at most 24d');

/** A size in a YAML file (`64MiB`, `500kB`), read as bytes. */
export const byteSize = z
  .string(SIZE_EXPECTED)
  .regex(/^\d+(\.\d+)?(B|kB|KiB|MB|MiB|GB|GiB)$/, SIZE_EXPECTED)
  .transform((text) => measure(text, SIZE_UNITS));

function measure(text: string, units: Readonly<Record<string, number>>): number {
  const unit = text.replace(/^[\d.]+/, '');
  return Math.round(Number.parseFloat(text) * (units[unit] ?? 1));
}

/** The place of a value in a request. `template`: wherever a template of the resource contains the variable. */
type RequestPlace =
  | { in: 'query'; name: string }
  | { in: 'header'; name: string }
  | { in: 'body'; path: readonly string[] }
  | { in: 'template'; name: string };

/** Headers that only content-sync sets. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  'authorization',
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
]);

const HEADER_NAME = /^[!#$%&'*+.^_`|~\w-]+$/;
const PREFIXED = /^(header|body):(.*)$/s;

/** True for the name of a header that a profile may set. */
export function isAllowedHeader(name: string): boolean {
  return HEADER_NAME.test(name) && !RESERVED_HEADERS.has(name.toLowerCase());
}

/** The place of a value in a request: `name` in the query, `header:Name`, or `body:a.b`. */
export const requestPlace = z
  .string()
  .min(1)
  .refine((text) => findPlaceFault(text) === null, {
    error: (issue) => findPlaceFault(String(issue.input)) ?? 'expected the place of a value in a request',
  })
  .meta({
    description:
      'Where a request takes a value: the name of a query parameter, `header:` and the name of a header, or `body:` and a dotted path in the JSON body.',
    examples: ['cursor', 'header:X-Cursor', 'body:paging.cursor'],
  });

function findPlaceFault(text: string): string | null {
  const [, kind, rest = ''] = PREFIXED.exec(text) ?? [];
  if (kind === 'header' && !isAllowedHeader(rest))
    return 'expected the name of a header after header:, as in header:X-Page';
  const isPath = rest.split('.').every((key) => key !== '' && key !== '__proto__');
  return kind === 'body' && !isPath ? 'expected a path of keys after body:, as in body:paging.cursor' : null;
}

/** Parses the text of a `requestPlace`, and `{name}` for a variable of the templates. */
export function parsePlace(text: string): RequestPlace {
  const [, variable] = /^\{(\w+)\}$/.exec(text) ?? [];
  if (variable !== undefined) return { in: 'template', name: variable };
  const [, kind, rest = ''] = PREFIXED.exec(text) ?? [];
  if (kind === 'header') return { in: 'header', name: rest.toLowerCase() };
  return kind === 'body' ? { in: 'body', path: rest.split('.') } : { in: 'query', name: text };
}

/** The part of a request that contains a template; it decides how values are escaped. */
export type TemplateLocation = 'path' | 'query' | 'header' | 'body';

/** Values of variables by name; null or undefined for a variable without a value in this request. */
export type TemplateValues = Readonly<Record<string, string | null | undefined>>;

const VARIABLE = /\{([a-z][a-z0-9_]*)\}/g;

/** The schema of a text with these variables, such as `updated_at:>'{since}'`. Blanks make literal braces: `{ id }`. */
export function templateSchema(known: readonly string[]) {
  const names = known.map((name) => `{${name}}`).join(', ');
  return z.string().refine((text) => variablesIn(text).every((name) => known.includes(name)), {
    error: `expected no variables but ${names}; braces that are meant as such are written with blanks inside, as in { id }`,
  });
}

/** Returns the names of the variables in a template, or in all templates of a list or map. */
export function variablesIn(templates: unknown): string[] {
  if (typeof templates === 'string') return Array.from(templates.matchAll(VARIABLE), ([, name = '']) => name);
  return typeof templates === 'object' && templates !== null ? Object.values(templates).flatMap(variablesIn) : [];
}

/**
 * Fills in the variables of a template. Returns null if one has no value: the caller omits the parameter, header or field
 * then. Values are escaped in a path; the caller escapes those in a query or body. Throws `SyncError`
 * (`bad_template_value`, skip) for a value that cannot be sent in this location.
 */
export function fillTemplate(template: string, values: TemplateValues, location: TemplateLocation): string | null {
  let isComplete = true;
  const filled = template.replaceAll(VARIABLE, (_, name: string) => {
    const value = Object.hasOwn(values, name) ? (values[name] ?? null) : null;
    if (value === null) isComplete = false;
    return value === null ? '' : escapeValue(value, name, location);
  });
  if (!isComplete) return null;
  if (location === 'path' && hasDotSegment(filled)) throw badTemplateValue(filled, 'would lead to another path');
  if (location === 'header' && filled !== template && filled.trim() !== filled)
    throw badTemplateValue(filled, 'begins or ends with blanks, which a header loses');
  return filled;
}

/** Fills in several templates, and omits those with a variable that has no value. */
export function fillTemplates(
  templates: Readonly<Record<string, string>>,
  values: TemplateValues,
  location: TemplateLocation,
): Record<string, string> {
  const filled = Object.entries(templates).flatMap(([name, template]): [string, string][] => {
    const text = fillTemplate(template, values, location);
    return text === null ? [] : [[name, text]];
  });
  return Object.fromEntries(filled);
}

const CONTROL = /\p{Cc}/u;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;

function escapeValue(value: string, name: string, location: TemplateLocation): string {
  if (!value.isWellFormed() || (location !== 'body' && CONTROL.test(value))) {
    throw badTemplateValue(value, `of {${name}} holds control characters or half characters`);
  }
  if (location === 'path' && value === '')
    throw badTemplateValue(value, `of {${name}} is empty: it would lead to another path`);
  if (location === 'header' && !HEADER_VALUE.test(value))
    throw badTemplateValue(value, `of {${name}} cannot stand in a header`);
  return location === 'path' ? encodeURIComponent(value) : value;
}

/** True if a segment is `.` or `..`, also encoded: `URL` would resolve it to another path. */
function hasDotSegment(path: string): boolean {
  return path.split('/').some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment));
}

function badTemplateValue(value: string, why: string): SyncError {
  return new SyncError('bad_template_value', `The value ${JSON.stringify(value.slice(0, 100))} ${why}`, {
    recovery: 'skip',
    hint: 'Nothing was requested with it. The service chose this value: look at the record that it comes from.',
  });
}
