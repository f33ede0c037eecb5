import type { QueryParams } from '../ask/answer.ts';
import type { FilterForm } from '../stage.ts';

const plain = (name: string): FilterForm => ({ params: () => ({ [name]: '{since}' }) });
const named = (name: (u: string) => string): FilterForm => ({ params: (u) => ({ [name(u)]: '{since}' }) });
const worded = (param: string, text: (u: string) => string): FilterForm => ({ params: (u) => ({ [param]: text(u) }) });

/** Parameters of their own, in the order in which they are tried. */
const PLAIN_NAMES = [
  'updated_since',
  'modified_after',
  'updated_after',
  'since',
  'modified_since',
  'updatedSince',
  'updatedAfter',
  'modifiedSince',
  'modifiedAfter',
  'changed_since',
  'changed_after',
  'updated_from',
  'last_modified_after',
  'last_updated_after',
  'start_date',
  'from',
  'start_time',
  'after_time',
];

/** A field and an operator, in one name. */
const FIELD_NAMES: ((u: string) => string)[] = [
  (u) => `${u}_gte`,
  (u) => `${u}__gte`,
  (u) => `${u}_since`,
  (u) => `${u}_after`,
  (u) => `${u}_min`,
  (u) => `${u}_from`,
  (u) => `min_${u}`,
  (u) => `${u}_gt`,
  (u) => `${u}.gte`,
];

const BRACKETS: ((u: string) => string)[] = [
  (u) => `filters[${u}][$gte]`,
  (u) => `filter[${u}][_gte]`,
  (u) => `${u}[gte]`,
  (u) => `where[${u}][greater_than_equal]`,
  (u) => `filter[${u}][gte]`,
  (u) => `filter[${u}][$gte]`,
  (u) => `filters[${u}][gte]`,
  (u) => `where[${u}][$gte]`,
  (u) => `${u}[$gte]`,
  (u) => `${u}[after]`,
  () => 'filter[updated_since]',
  () => 'filter[modified_since]',
  () => 'filter[since]',
];

/** Expressions in one parameter: each is tried alone. */
export const EXPRESSIONS: readonly FilterForm[] = [
  worded('filter', (u) => `${u}:>='{since}'`),
  worded('filter', (u) => `${u} ge {since}`),
  worded('filter', (u) => `${u}>='{since}'`),
  worded('filter', (u) => `${u}>={since}`),
  worded('$filter', (u) => `${u} ge {since}`),
  worded('filter', (u) => `{"${u}":{"_gte":"{since}"}}`),
  worded('filter', (u) => `{"${u}":{"$gte":"{since}"}}`),
  worded('where', (u) => `{"${u}":{"$gte":"{since}"}}`),
  worded('q', (u) => `${u}:>={since}`),
  worded('q', (u) => `${u}>={since}`),
];

/** The same where the time of change is null until the first change: either field, or both at once. */
const EITHER: readonly FilterForm[] = [
  { params: (u, c) => ({ [`filter[_or][0][${u}][_gte]`]: '{since}', [`filter[_or][1][${c}][_gte]`]: '{since}' }) },
  { params: (u, c) => ({ [`filters[$or][0][${u}][$gte]`]: '{since}', [`filters[$or][1][${c}][$gte]`]: '{since}' }) },
  {
    params: (u, c) => ({
      [`where[or][0][${u}][greater_than_equal]`]: '{since}',
      [`where[or][1][${c}][greater_than_equal]`]: '{since}',
    }),
  },
];

/** All groups, in the order in which they are tried; `hints` are names that the service or its documents use. */
export function filterGroups(hints: ReadonlySet<string>, isNullable: boolean): FilterForm[][] {
  const told = [...hints].filter(
    (name) =>
      /(?:since|after|from|gte|min)$|updated|modified|changed/i.test(name) &&
      !/before|sort|order|until|_lte?$/i.test(name),
  );
  const isBracketed = [...hints].some((name) => name.includes('['));
  const plainNames = [...new Set([...told.filter((name) => !name.includes('[')), ...PLAIN_NAMES])];
  const groups = [plainNames.map(plain), FIELD_NAMES.map(named), BRACKETS.map(named)];
  if (isBracketed) groups.unshift(...groups.splice(2, 1));
  return isNullable ? [[...EITHER], ...groups] : groups;
}

/** The parameters of several forms at once. */
export function togetherParams(forms: readonly FilterForm[], u: string, c: string): QueryParams {
  return Object.assign({}, ...forms.map((form) => form.params(u, c)));
}

/** Orders that list the newest change first. */
export const NEWEST_FIRST: readonly ((u: string) => QueryParams)[] = [
  (u) => ({ sort: `-${u}` }),
  (u) => ({ sort: `${u}:desc` }),
  (u) => ({ order: `${u} desc` }),
  (u) => ({ ordering: `-${u}` }),
  (u) => ({ sort_by: u, sort_order: 'desc' }),
  (u) => ({ sort: u, order: 'desc' }),
  (u) => ({ order_by: u, order: 'desc' }),
  (u) => ({ orderby: u.replace(/_gmt$/, ''), order: 'desc' }),
  (u) => ({ sortBy: u, sortOrder: 'desc' }),
  (u) => ({ 'sort[0]': `${u}:desc` }),
  (u) => ({ $orderby: `${u} desc` }),
  (u) => ({ order: `-${u}` }),
  (u) => ({ _sort: u, _order: 'desc' }),
];
