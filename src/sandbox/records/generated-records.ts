import type { BaseRecords, Sort } from './base-records.ts';
import { sha256 } from './image-files.ts';
import { pictureOf } from './made-pictures.ts';
import { spread } from './record-facts.ts';

/** Steps of the unsorted order: primes, so that one visits every index unless the count is a multiple of it. */
const STRIDE = 7_368_787;
const OTHER_STRIDE = 2_750_159;
const DIGITS = 9;

/**
 * `count` records of a resource, each computed from its index and kept nowhere. `flat` leaves arrays out.
 * The same count gives the same records on every machine.
 */
export function generatedRecords(resource: string, count: number, sort: Sort, flat: boolean): BaseRecords {
  const template = templateFor(resource);
  const order = sort === 'updated' ? identity : shuffle(count);
  const idOf = (index: number) => template.prefix + String(index).padStart(DIGITS, '0');
  const indexOf = (key: string) => indexIn(key, template.prefix, count);
  const positionOf = (key: string) => {
    const index = indexOf(key);
    return index === -1 ? -1 : order.positionOf(index);
  };
  return {
    size: count,
    rankAt: (position) => (sort === 'updated' ? updatedAt(position) : position),
    keyAt: (position) => idOf(order.indexAt(position)),
    timeAt: (position) => updatedAt(order.indexAt(position)),
    textAt: (position) => {
      const index = order.indexAt(position);
      return Buffer.from(template.text(idOf(index), index, flat));
    },
    positionOf,
    rankOf: (key, time) => {
      if (sort === 'updated') return time;
      const position = positionOf(key);
      return position === -1 ? spread(key) % Math.max(count, 1) : position;
    },
    stamped: true,
  };
}

interface Order {
  indexAt(position: number): number;
  positionOf(index: number): number;
}

const identity: Order = { indexAt: (position) => position, positionOf: (index) => index };

/** A fixed permutation: position p shows index p * stride mod count; the way back by the modular inverse. */
function shuffle(count: number): Order {
  if (count < 3) return identity;
  const stride = (count % STRIDE === 0 ? OTHER_STRIDE : STRIDE) % count;
  const inverse = modularInverse(stride, count);
  return {
    indexAt: (position) => (position * stride) % count,
    positionOf: (index) => (index * inverse) % count,
  };
}

function modularInverse(value: number, modulus: number): number {
  let [previous, current] = [modulus, value];
  let [before, now] = [0, 1];
  while (current !== 0) {
    const quotient = Math.floor(previous / current);
    [previous, current] = [current, previous - quotient * current];
    [before, now] = [now, before - quotient * now];
  }
  return before < 0 ? before + modulus : before;
}

function indexIn(key: string, prefix: string, count: number): number {
  if (key.length !== prefix.length + DIGITS || !key.startsWith(prefix)) return -1;
  const digits = key.slice(prefix.length);
  const index = /^\d+$/.test(digits) ? Number(digits) : -1;
  return index < count ? index : -1;
}

/** How the records of a generated resource look: id prefix, and the JSON text of the record with an index. */
export interface RecordTemplate {
  prefix: string;
  text(id: string, index: number, flat: boolean): string;
}

const FIRST_UPDATE = Date.UTC(2020, 0, 1);
const DAY = 86_400_000;
const STATUSES = ['published', 'published', 'published', 'draft', 'archived'] as const;
const REFERRERS = ['"search"', '"mail"', '"social"', '"direct"', 'null'] as const;
const TAGS = ['design', 'policy', 'open source', 'security', 'research', 'data', 'content', 'accessibility'] as const;
const PEOPLE = ['Ada Lovell', 'Björn Åkesson', 'Chidi Okafor', 'Dana Reyes', 'Éva Kovács', 'Farid Haddad'] as const;
const SENTENCES = [
  'The team shipped a small change on Tuesday and watched what people did with it for a week.',
  'Nobody had asked who reads the page, so we did, and the answer was not the one we had planned for.',
  'A table that worked yesterday should work today; that is the whole promise, and it is harder than it looks.',
  'We wrote the question on the wall: “what would have to be true for this to be simple?”',
  'In the second round the form lost four fields, and the number of calls fell by a third.',
  'Every record has a history, and most of the work is to keep it without getting in the way.',
] as const;

const content: RecordTemplate = {
  prefix: 'cnt_',
  text: (id, index, flat) => {
    const updated = updatedAt(index);
    const words = 120 + (index % 700);
    return (
      `{"id":"${id}","slug":"post-${index}","title":"Post number ${index}: ${pick(TAGS, index)} in practice",` +
      `"status":"${pick(STATUSES, index)}","excerpt":"${pick(SENTENCES, index)}","body":"${body(index, flat ? 4 : 3)}",` +
      `"author":{"id":"usr_${index % 97}","name":"${pick(PEOPLE, index)}","contact":{"email":"user${index % 97}@example.org"}},` +
      (flat ? '' : `"authors":[{"handle":"user${index % 97}","position":0}],"tags":[${tags(index)}],`) +
      `"seo":{"description":"${pick(SENTENCES, index + 1)}","image":{"id":"img_${String(index % 1000).padStart(9, '0')}","caption":null}},` +
      `"word_count":${words},"revision":${1 + (index % 9)},"reading_minutes":${(words / 230).toFixed(2)},` +
      `"featured":${index % 11 === 0},"created_at":"${iso(updated - 30 * DAY)}","updated_at":"${iso(updated)}",` +
      `"published_at":"${iso(updated - 20 * DAY)}","reviewed_at":"${iso(updated - 10 * DAY)}",` +
      `"event_date":"${iso(updated + 5 * DAY).slice(0, 10)}"}`
    );
  },
};

const images: RecordTemplate = {
  prefix: 'img_',
  text: (id, index) => {
    const bytes = pictureOf(id);
    return (
      `{"id":"${id}","file_name":"${id}.png","path":"/assets/${id}.png","mime_type":"image/png",` +
      `"byte_size":${bytes.length},"width":${320 + (index % 1600)},"height":${240 + (index % 900)},` +
      `"sha256":"${sha256(bytes)}","has_file":true,"updated_at":"${iso(updatedAt(index))}"}`
    );
  },
};

const analytics: RecordTemplate = {
  prefix: 'day_',
  text: (id, index) =>
    `{"id":"${id}","content_id":"cnt_${String(index % 1000).padStart(9, '0')}",` +
    `"date":"${iso(updatedAt(index)).slice(0, 10)}","views":${(index * 7) % 5000},"visitors":${(index * 3) % 2000},` +
    `"seconds":${((index % 9000) * 1.7).toFixed(1)},"referrer":${pick(REFERRERS, index)},` +
    `"updated_at":"${iso(updatedAt(index))}"}`,
};

const TEMPLATES: Readonly<Record<string, RecordTemplate>> = { content, images, analytics };

/** The template of a resource; one that has none of its own gets records like those of `content`. */
export function templateFor(resource: string): RecordTemplate {
  return TEMPLATES[resource] ?? { ...content, prefix: `${resource.slice(0, 3)}_` };
}

/** Epoch milliseconds of the last change of the record with this index: two records share each moment, 40 s apart. */
export function updatedAt(index: number): number {
  return FIRST_UPDATE + Math.floor(index / 2) * 40_000;
}

function body(index: number, sentences: number): string {
  let text = '';
  for (let part = 0; part < sentences; part += 1) text += `${pick(SENTENCES, index + 2 + part)} `;
  return `${text}(${index})`;
}

function tags(index: number): string {
  const first = `"${pick(TAGS, index)}"`;
  return index % 3 === 0 ? first : `${first},"${pick(TAGS, index + 3)}"`;
}

function pick(list: readonly string[], index: number): string {
  return list[index % list.length] ?? '';
}

// There are few days and few times of day, and formatting a date costs more than the rest of a record.
const days = new Map<number, string>();
const timesOfDay = new Map<number, string>();

function iso(time: number): string {
  const day = Math.floor(time / DAY) * DAY;
  return cached(days, day, (text) => text.slice(0, 10)) + cached(timesOfDay, time - day, (text) => text.slice(10));
}

function cached(texts: Map<number, string>, time: number, part: (text: string) => string): string {
  const known = texts.get(time);
  if (known !== undefined) return known;
  const text = part(new Date(time).toISOString());
  texts.set(time, text);
  return text;
}
