import { z } from 'zod';
import { SyncError } from '../model/errors.ts';

/** The part of a request that a template stands in: it decides how a value is kept from being more than a value. */
export type TemplatePlace = 'path' | 'query' | 'header' | 'body';

/** Values by the name of their variable; null for one that has none in this request. */
export type TemplateValues = Readonly<Record<string, string | null>>;

const VARIABLE = /\{([a-z][a-z0-9_]*)\}/g;

/**
 * A text with variables in braces, such as `updated_at:>'{since}'`. Braces that are meant as such are written with
 * blanks, `{ id }`.
 */
export function templateSchema(known: readonly string[]) {
  const names = known.map((name) => `{${name}}`).join(', ');
  return z.string().refine((text) => variablesIn(text).every((name) => known.includes(name)), {
    error: `expected no variables but ${names}; braces that are meant as such are written with blanks inside, as in { id }`,
  });
}

/** Names of the variables in a template, in their order. */
export function variablesIn(template: string): string[] {
  return Array.from(template.matchAll(VARIABLE), ([, name = '']) => name);
}

/**
 * The template with its variables filled in; null if one of them has no value: then the path, parameter, header or
 * field that it stands in is left out. Whatever a value holds, it stays one segment of a path or one value of a header;
 * a query and a JSON body escape their values themselves. Throws `SyncError` (`bad_template_value`, skip) for a value
 * that cannot be sent in this place.
 */
export function fillTemplate(template: string, values: TemplateValues, place: TemplatePlace): string | null {
  let isWhole = true;
  const filled = template.replaceAll(VARIABLE, (_, name: string) => {
    const value = Object.hasOwn(values, name) ? (values[name] ?? null) : null;
    if (value === null) isWhole = false;
    return value === null ? '' : escaped(value, name, place);
  });
  if (!isWhole) return null;
  if (place === 'path' && hasDotSegment(filled)) throw unfit(filled, 'would lead to another path');
  if (place === 'header' && filled !== template && filled.trim() !== filled)
    throw unfit(filled, 'begins or ends with blanks, which a header loses');
  return filled;
}

const CONTROL = /\p{Cc}/u;
const HEADER_VALUE = /^[\t\x20-\x7e]*$/;

function escaped(value: string, name: string, place: TemplatePlace): string {
  if (!value.isWellFormed() || (place !== 'body' && CONTROL.test(value))) {
    throw unfit(value, `of {${name}} holds control characters or half characters`);
  }
  if (place === 'path' && value === '') throw unfit(value, `of {${name}} is empty: it would lead to another path`);
  if (place === 'header' && !HEADER_VALUE.test(value)) throw unfit(value, `of {${name}} cannot stand in a header`);
  return place === 'path' ? encodeURIComponent(value) : value;
}

/** A URL takes dot segments out, written as such or encoded: another address would be requested. */
function hasDotSegment(path: string): boolean {
  return path.split('/').some((segment) => /^(?:\.|%2e){1,2}$/i.test(segment));
}

function unfit(value: string, why: string): SyncError {
  return new SyncError('bad_template_value', `The value ${JSON.stringify(value.slice(0, 100))} ${why}`, {
    recovery: 'skip',
    hint: 'Nothing was requested with it. The service chose this value: look at the record that it comes from.',
  });
}
