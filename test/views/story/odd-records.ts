import { jsonSuite, naughtyStrings } from '../../support/corpora.ts';
import type { Records } from './records.ts';

/** Records of strings, JSON texts and field names that break software; each has what links posts, images and readings. */
export function oddRecords(): Records {
  const strings = naughtyStrings();
  const values = [...jsonSuite('test_parsing')].flatMap(([name, text]) =>
    name.startsWith('y_') ? readable(text) : [],
  );
  const posts = strings.map((text, at) => ({
    id: `odd_${at}`,
    slug: text,
    title: text,
    body: text,
    status: at % 3 === 0 ? 'published' : text,
    authors: at % 4 === 0 ? [] : [{ handle: text, position: at }],
    tags: [text, null, ''],
    seo: { description: text, image: { id: text, caption: null } },
    image_ids: [text, `odd_${at}`],
    word_count: at % 5 === 0 ? null : at,
    reading_minutes: at / 7,
    created_at: '2024-10-01T00:00:00Z',
    updated_at: `2024-10-02T00:00:${String(at % 60).padStart(2, '0')}Z`,
    published_at: at % 2 === 0 ? null : '2024-10-03T00:00:00.5Z',
    ...(at % 25 === 0 ? { [text]: at, more: { [text]: [text] } } : {}),
    ...(at < values.length ? { odd: values[at], odd_list: [values[at]], null: [at], NULL: [text] } : {}),
  }));
  const images = strings.map((text, at) => ({ id: `odd_${at}`, file_name: text, byte_size: at }));
  const readings = strings.map((text, at) => ({
    id: `odd_${at}`,
    content_id: at % 3 === 0 ? text : `odd_${at}`,
    date: '2024-10-05',
    views: at,
    referrer: text,
  }));
  return { content: byId(posts), images: byId(images), analytics: byId(readings) };
}

function byId<T extends { id: string }>(records: readonly T[]): Map<string, T> {
  return new Map(records.map((record) => [record.id, record]));
}

function readable(text: Buffer): unknown[] {
  try {
    return [JSON.parse(text.toString())];
  } catch {
    return [];
  }
}
