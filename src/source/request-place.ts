import { z } from 'zod';

/** Place of a value in a request. `template`: wherever a template of the resource has the variable. */
export type RequestPlace =
  | { in: 'query'; name: string }
  | { in: 'header'; name: string }
  | { in: 'body'; path: readonly string[] }
  | { in: 'template'; name: string };

/** Headers that the program itself writes. */
const OURS: ReadonlySet<string> = new Set([
  'authorization',
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
]);

const HEADER_NAME = /^[!#$%&'*+.^_`|~\w-]+$/;
const PREFIXED = /^(header|body):(.*)$/s;

/** True for the name of a header that a profile may set. */
export function isOwnHeader(name: string): boolean {
  return HEADER_NAME.test(name) && !OURS.has(name.toLowerCase());
}

/** Where a request takes a value: `name` in the query, `header:Name`, or `body:a.b`. */
export const requestPlace = z
  .string()
  .min(1)
  .refine((text) => faultOf(text) === null, {
    error: (issue) => faultOf(String(issue.input)) ?? 'expected the place of a value in a request',
  })
  .meta({
    description:
      'Where a request takes a value: the name of a query parameter, `header:` and the name of a header, or `body:` and a dotted path in the JSON body.',
    examples: ['cursor', 'header:X-Cursor', 'body:paging.cursor'],
  });

function faultOf(text: string): string | null {
  const [, kind, rest = ''] = PREFIXED.exec(text) ?? [];
  if (kind === 'header' && !isOwnHeader(rest))
    return 'expected the name of a header behind header:, as in header:X-Page';
  const isPath = rest.split('.').every((key) => key !== '' && key !== '__proto__');
  return kind === 'body' && !isPath ? 'expected a path of keys behind body:, as in body:paging.cursor' : null;
}

/** Reads what `requestPlace` admits, and `{name}` for a variable of the templates. */
export function placeOf(text: string): RequestPlace {
  const [, variable] = /^\{(\w+)\}$/.exec(text) ?? [];
  if (variable !== undefined) return { in: 'template', name: variable };
  const [, kind, rest = ''] = PREFIXED.exec(text) ?? [];
  if (kind === 'header') return { in: 'header', name: rest.toLowerCase() };
  return kind === 'body' ? { in: 'body', path: rest.split('.') } : { in: 'query', name: text };
}
