import { variablesIn } from './template.ts';

/** JSON of templates without lists. */
export type BodyPart = string | number | { [key: string]: BodyPart };

/** What of `incremental` says how a request asks for changes. */
interface FilterTemplates {
  param: string | null;
  template: string;
  query: Readonly<Record<string, string>>;
  headers: Readonly<Record<string, string>>;
  body: { [key: string]: BodyPart };
}

/** A value of a request for changes: a template, or what stands for itself in a JSON body. */
export type FilterValue = string | number;

/** Values of a request for changes by the place that they stand in, `param` first. */
export function filterPlaces({
  param,
  template: text,
  query,
  headers,
  body,
}: FilterTemplates): [string, FilterValue][] {
  return [
    ...(param === null ? [] : [[param, text] satisfies [string, string]]),
    ...Object.entries(query),
    ...Object.entries(headers).map(([name, value]): [string, string] => [`header:${name}`, value]),
    ...leavesOf(body, 'body:'),
  ];
}

function leavesOf(part: { [key: string]: BodyPart }, prefix: string): [string, FilterValue][] {
  return Object.entries(part).flatMap(([key, value]): [string, FilterValue][] =>
    typeof value === 'object' ? leavesOf(value, `${prefix}${key}.`) : [[`${prefix}${key}`, value]],
  );
}

/** Places of the filter that take the moment: the first is its name for people. */
export function sincePlaces(filter: FilterTemplates): string[] {
  return filterPlaces(filter).flatMap(([place, value]) => (textsIn(value).some(hasSince) ? [place] : []));
}

export function filterName(filter: FilterTemplates): string {
  return sincePlaces(filter)[0] ?? filterPlaces(filter)[0]?.[0] ?? 'the listing';
}

function hasSince(text: string): boolean {
  return variablesIn(text).includes('since');
}

/** The texts in a value, a template or JSON of templates. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

interface Requested {
  incremental: (FilterTemplates & { mode: string }) | null;
  query: unknown;
  headers: unknown;
  body: unknown;
}

function requestTexts({ incremental, query, headers, body }: Requested): string[] {
  const places = incremental === null ? [] : filterPlaces(incremental).map(([, value]) => value);
  return textsIn([places, query, headers, body]);
}

/** True if a request of the resource has a place for the moment from which changes are asked for. */
export function asksSince(resource: Requested): boolean {
  const takesNone = resource.incremental === null || resource.incremental.mode !== 'filter';
  return takesNone || requestTexts(resource).some(hasSince);
}
