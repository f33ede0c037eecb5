import type { JsonObject } from '../../model/json.ts';
import type { Answer } from '../answer.ts';
import type { PageParts } from '../pages/page-parts.ts';
import { cursorAtStart } from '../pages/page-query.ts';
import { isObject, parseExactly } from '../records/record-facts.ts';
import type { Fault, FaultContext } from './fault.ts';
import { fault } from './fault.ts';

/** Faults of a listing: pages that lie. They leave every other answer alone. */
export const PAGE_FAULTS = {
  'repeated-cursor': onPage('the next cursor is the one that was asked with', {}, (page) => ({
    ...page,
    next: page.query.cursor ?? page.next,
  })),
  'cursor-cycle': onPage(
    'after `length` pages the first next cursor comes again',
    { length: 3 },
    (page, { length }, { memory }) => {
      if (page.query.number === 1 && page.next !== null) memory.set('first', page.next);
      return page.query.number > length ? { ...page, next: memory.get('first') ?? page.next } : page;
    },
  ),
  'same-page': onPage('every page holds what the first one holds', {}, (page, _none, { list }) => ({
    ...page,
    records: list({ ...page.query, start: { offset: 0 } }).records,
  })),
  'empty-page': onPage('a page without records though others follow; with cursors none is lost', {}, (page) => ({
    ...page,
    records: [],
    next: cursorAtStart(page.query),
  })),
  'missing-records': onPage('the last `count` records of the page are left out', { count: 1 }, (page, { count }) => ({
    ...page,
    records: page.records.slice(0, Math.max(0, page.records.length - count)),
  })),
  'short-page': onPage(
    '`count` records fewer than asked for; with cursors none is lost',
    { count: 1 },
    (page, { count }, { list }) => list({ ...page.query, limit: Math.max(1, page.query.limit - count) }),
  ),
  'oversize-page': onPage('`factor` times as many records as asked for', { factor: 10 }, (page, { factor }, { list }) =>
    list({ ...page.query, limit: page.query.limit * factor }),
  ),
  'duplicate-ids': onPage('the first `count` records again at the end, changed', { count: 1 }, (page, { count }) => ({
    ...page,
    records: [...page.records, ...page.records.slice(0, count).map(changedCopy)],
  })),
  'wrong-total': onPage('another total, as JSON text', { total: '0' }, (page, { total }) =>
    withFields(page, { total }),
  ),
  'wrong-count': onPage('says `more` records than the page holds', { more: 5 }, (page, { more }) => {
    const count = page.records.length + more;
    const range = { 'content-range': `items 0-${count - 1}/${page.total ?? '*'}` };
    return { ...withFields(page, { count: String(count) }), headers: { ...page.headers, ...range } };
  }),
  field: onPage(
    'a field of the page as JSON text (`data`, `next_cursor`, `has_more`, ...); `absent` takes it away',
    { name: 'data', value: 'null' },
    (page, { name, value }) => withFields(page, { [name]: value === 'absent' ? null : value }),
  ),
  'foreign-next': onPage(
    'the next link leads to `to`; {path} stands for the right path and query',
    { to: 'http://other.invalid{path}' },
    (page, { to }) => ({ ...page, nextAddress: (path) => to.replace('{path}', path) }),
  ),
  'link-header': fault(
    'a Link header as given; {url} stands for the right next address, two headers are parted by a line feed',
    { value: '<{url}>; rel="next"' },
    (answer, { value }) => {
      const url = /<([^>]*)>/.exec(String(answer.headers['link'] ?? ''))?.[1];
      const lines = value.replaceAll('{url}', url ?? '').split('\n');
      return url === undefined ? answer : { ...answer, headers: { ...answer.headers, link: lines } };
    },
  ),
} satisfies Record<string, Fault>;

function onPage<P extends Record<string, string | number>>(
  about: string,
  defaults: P,
  change: (
    page: PageParts,
    parameters: Parameters<Parameters<typeof fault<P>>[2]>[1],
    context: FaultContext,
  ) => PageParts,
): Fault {
  return fault(about, defaults, (answer: Answer, parameters, context) => {
    const page = answer.page?.();
    if (page === undefined) return answer;
    const rendered = context.render(change(page, parameters, context));
    return { ...rendered, headers: { ...answer.headers, ...rendered.headers }, delayMs: answer.delayMs ?? 0 };
  });
}

function withFields(page: PageParts, fields: Record<string, string | null>): PageParts {
  return { ...page, fields: { ...page.fields, ...fields } };
}

/** The same id with another content, as a service answers that changes a record while it lists. */
function changedCopy(text: Uint8Array): Uint8Array {
  const record = parseExactly(new TextDecoder().decode(text));
  const copy: JsonObject = isObject(record) ? { ...record, title: 'A second copy' } : {};
  return Buffer.from(JSON.stringify(copy));
}
