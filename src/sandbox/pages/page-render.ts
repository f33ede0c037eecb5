import type { Answer } from '../answer.ts';
import { json } from '../answer.ts';
import type { PageParts } from './page-parts.ts';
import type { Pagination } from './page-query.ts';

interface Style {
  fields: Readonly<Record<string, string | null>>;
  headers: Readonly<Record<string, string>>;
}

/** Fields and headers that each pagination style adds to a page. */
const STYLES: Readonly<Record<Pagination, (parts: PageParts) => Style>> = {
  cursor: (parts) => ({ fields: { next_cursor: JSON.stringify(parts.next) }, headers: {} }),
  page: () => ({ fields: {}, headers: {} }),
  offset: () => ({ fields: {}, headers: {} }),
  link: (parts) => ({ fields: {}, headers: linkHeader(nextAddress(parts)) }),
  'next-url': (parts) => ({ fields: { next: JSON.stringify(nextAddress(parts)) }, headers: {} }),
};

/** The answer that shows a page, its records byte for byte as they are stored. */
export function renderPage(parts: PageParts, pagination: Pagination): Answer {
  const style = STYLES[pagination](parts);
  const total = parts.total === null ? {} : { total: String(parts.total) };
  const fields: Record<string, string | null> = { ...style.fields, ...total, ...parts.fields };
  const body = joined(parts.records, fields);
  return {
    ...json(200, body, { ...style.headers, ...parts.headers }),
    page: () => parts,
    pageNumber: parts.query.number,
  };
}

function joined(records: readonly Uint8Array[], fields: Record<string, string | null>): Uint8Array {
  const { data, ...others } = fields;
  const tail = Object.entries(others)
    .filter(([, text]) => text !== null)
    .map(([name, text]) => `${JSON.stringify(name)}:${text}`);
  if (data === null) return Buffer.from(`{${tail.join(',')}}`);
  const rest = tail.map((field) => `,${field}`).join('');
  if (data !== undefined) return Buffer.from(`{"data":${data}${rest}}`);
  const pieces: Uint8Array[] = [Buffer.from('{"data":[')];
  for (const [index, record] of records.entries()) {
    if (index > 0) pieces.push(COMMA);
    pieces.push(record);
  }
  pieces.push(Buffer.from(`]${rest}}`));
  return Buffer.concat(pieces);
}

const COMMA = Buffer.from(',');

function nextAddress(parts: PageParts): string | null {
  if (parts.next === null) return null;
  const url = new URL(parts.query.url);
  url.searchParams.set('cursor', parts.next);
  const { search, pathname } = url;
  return parts.nextAddress?.(pathname + search) ?? url.href;
}

function linkHeader(next: string | null): Record<string, string> {
  return next === null ? {} : { link: `<${next}>; rel="next"` };
}
