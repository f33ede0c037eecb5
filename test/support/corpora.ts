import { existsSync, readdirSync, readFileSync } from 'node:fs';

const CORPORA = new URL('../corpora/', import.meta.url);
/** Real content of some size stands beside the repository, not in it. */
const BLOG = new URL('../../../shared/data/blog/', import.meta.url);
const CAPTURED = new URL('../../../shared/data/webhooks_captured/', import.meta.url);

/** The files of one folder of the JSON test suite, by name. */
export function jsonSuite(folder: 'test_parsing' | 'test_transform'): Map<string, Buffer> {
  const at = new URL(`json-test-suite/${folder}/`, CORPORA);
  return new Map(readdirSync(at).map((name) => [name, readFileSync(new URL(encodeURIComponent(name), at))]));
}

/** Strings that break software. */
export function naughtyStrings(): string[] {
  const strings: string[] = JSON.parse(text('naughty-strings/blns.json'));
  return strings;
}

/** A field value and how it is to be read. */
export interface FieldVector {
  name: string;
  raw?: string[];
  header_type: string;
  must_fail?: boolean;
}

/** Values of structured fields of HTTP (RFC 9651), good and bad ones. */
export function fieldVectors(): FieldVector[] {
  const names = readdirSync(new URL('structured-fields/', CORPORA)).filter((name) => name.endsWith('.json'));
  return names.flatMap((name): FieldVector[] => JSON.parse(text(`structured-fields/${name}`)));
}

/** Signed webhooks of many schemes; see the README of the corpora. */
export function webhookVectors(): unknown {
  return JSON.parse(text('webhook-vectors.json'));
}

/** A webhook request as a real service sent it; `at` is the time of its arrival, header names are in lower case. */
export interface CapturedWebhook {
  at: string;
  method: string;
  url: string;
  headers: Record<string, string>;
  bytes: number;
  body: string;
}

/**
 * Real deliveries of a service: the few that are in the repository, and all from the folder beside it where it is
 * there. Prints why some are left out.
 */
export function capturedWebhooks(service: 'ghost' | 'strapi' | 'directus'): CapturedWebhook[] {
  const name = `webhooks-${service}.json`;
  const own: CapturedWebhook[] = JSON.parse(text(`webhooks-captured/${name}`));
  const others = new URL(name, CAPTURED);
  if (!existsSync(others)) {
    console.warn('left out: the folder shared/data/webhooks_captured is not beside the repository');
    return own;
  }
  const all: CapturedWebhook[] = JSON.parse(readFileSync(others, 'utf8'));
  return own.concat(all.filter(({ at }) => !own.some((one) => one.at === at)));
}

function text(file: string): string {
  return readFileSync(new URL(file, CORPORA), 'utf8');
}

/** True if the blog is beside the repository; prints why tests are left out if it is not. */
export function hasBlog(): boolean {
  const isThere = existsSync(BLOG);
  if (!isThere) console.warn('left out: the folder shared/data/blog is not beside the repository');
  return isThere;
}

/** The lines of one of the blog's NDJSON files. */
export function blogLines(resource: 'content' | 'images' | 'analytics'): string[] {
  return readFileSync(new URL(`${resource}.ndjson`, BLOG), 'utf8')
    .trimEnd()
    .split('\n');
}
