import { blogLines } from '../../support/corpora.ts';

/** A post as the service tells it. A drift may give any field another form, so that only the oracle's are typed. */
export interface Post extends Record<string, unknown> {
  id: string;
  slug: string;
  title: string;
  body: string;
  status: string;
  authors: readonly { handle: string; position: number }[];
  tags: readonly (string | null)[];
  seo: { description: string | null; image: { id: string | null; caption: string | null } };
  image_ids: readonly (string | null)[];
  word_count: number | null;
  reading_minutes: number | null;
  created_at: string;
  updated_at: string;
  published_at: string | null;
}

/** An image. */
export interface Image extends Record<string, unknown> {
  id: string;
  file_name: string;
  byte_size: number;
  updated_at?: string;
}

/** What a post was read on a day. */
export interface Reading extends Record<string, unknown> {
  id: string;
  content_id: string;
  date: string;
  views: number | null;
  referrer: string | null;
  updated_at?: string;
}

/** What stands in the service, by id. */
export interface Records {
  content: Map<string, Post>;
  images: Map<string, Image>;
  analytics: Map<string, Reading>;
}

export type Resource = keyof Records;

/** The records of the source files. */
export function sourceRecords(): { content: Post[]; images: Image[]; analytics: Reading[] } {
  return {
    content: blogLines('content').map((line): Post => JSON.parse(line)),
    images: blogLines('images').map((line): Image => JSON.parse(line)),
    analytics: blogLines('analytics').map((line): Reading => JSON.parse(line)),
  };
}
