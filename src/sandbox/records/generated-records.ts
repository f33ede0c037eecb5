// Generated posts, images and analytics for the sandbox.
import type { CollectionEntry } from './collection.ts';
import { generatePng, sha256 } from './image-files.ts';

const ID_DIGITS = 9;

/**
 * Generates `count` records, the same on every machine. Each text is computed from its index when it is read, so that a
 * million records need little memory.
 */
export function generateRecords(resource: string, count: number): CollectionEntry[] {
  const template = templateFor(resource);
  return Array.from({ length: count }, (_, index) => new GeneratedEntry(template, index));
}

class GeneratedEntry implements CollectionEntry {
  readonly key: string;
  readonly time: number;
  readonly #index: number;
  readonly #template: RecordTemplate;

  constructor(template: RecordTemplate, index: number) {
    this.key = numberedId(template.prefix, index);
    this.time = updatedAt(index);
    this.#index = index;
    this.#template = template;
  }

  get text(): Uint8Array {
    return Buffer.from(this.#template.text(this.key, this.#index));
  }
}

/** Such as `cnt_000000042`. */
function numberedId(prefix: string, index: number): string {
  return prefix + String(index).padStart(ID_DIGITS, '0');
}

interface RecordTemplate {
  /** Begins the ids: `cnt_`. */
  prefix: string;
  /** The JSON of the record. */
  text(id: string, index: number): string;
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
  text: (id, index) => {
    const updated = updatedAt(index);
    const words = 120 + (index % 700);
    return (
      `{"id":"${id}","slug":"post-${index}","title":"Post number ${index}: ${pick(TAGS, index)} in practice",` +
      `"status":"${pick(STATUSES, index)}","excerpt":"${pick(SENTENCES, index)}","body":"${body(index)}",` +
      `"author":{"id":"usr_${index % 97}","name":"${pick(PEOPLE, index)}","contact":{"email":"user${index % 97}@example.org"}},` +
      `"authors":[{"handle":"user${index % 97}","position":0}],"tags":[${tags(index)}],` +
      `"seo":{"description":"${pick(SENTENCES, index + 1)}","image":{"id":"${numberedId('img_', index % 1000)}","caption":null}},` +
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
    const bytes = generatePng(id);
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
    `{"id":"${id}","content_id":"${numberedId('cnt_', index % 1000)}",` +
    `"date":"${iso(updatedAt(index)).slice(0, 10)}","views":${(index * 7) % 5000},"visitors":${(index * 3) % 2000},` +
    `"seconds":${((index % 9000) * 1.7).toFixed(1)},"referrer":${pick(REFERRERS, index)},` +
    `"updated_at":"${iso(updatedAt(index))}"}`,
};

const TEMPLATES: Readonly<Record<string, RecordTemplate>> = { content, images, analytics };

/** Resources without a template get records like those of `content`. */
export function templateFor(resource: string): RecordTemplate {
  return TEMPLATES[resource] ?? { ...content, prefix: `${resource.slice(0, 3)}_` };
}

/** Two records share each timestamp; the timestamps are 40 seconds apart. */
function updatedAt(index: number): number {
  return FIRST_UPDATE + Math.floor(index / 2) * 40_000;
}

function body(index: number): string {
  return `${[2, 3, 4].map((part) => pick(SENTENCES, index + part)).join(' ')} (${index})`;
}

function tags(index: number): string {
  const first = `"${pick(TAGS, index)}"`;
  return index % 3 === 0 ? first : `${first},"${pick(TAGS, index + 3)}"`;
}

function pick(list: readonly string[], index: number): string {
  return list[index % list.length] ?? '';
}

function iso(time: number): string {
  return new Date(time).toISOString();
}
