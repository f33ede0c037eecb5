import { existsSync, readdirSync, readFileSync } from 'node:fs';

const DATA = new URL('../../../shared/data/', import.meta.url);

/** True if the data beside the repository is there; prints why tests are left out if it is not. */
export function hasCorpus(): boolean {
  const there = existsSync(DATA);
  if (!there) console.warn('left out: the folder shared/data is not beside the repository');
  return there;
}

/** The files of one folder of the JSON test suite, by name. */
export function jsonSuite(folder: 'test_parsing' | 'test_transform'): Map<string, Buffer> {
  const at = new URL(`corpora/json-test-suite/${folder}/`, DATA);
  return new Map(readdirSync(at).map((name) => [name, readFileSync(new URL(encodeURIComponent(name), at))]));
}

export function naughtyStrings(): string[] {
  const strings: string[] = JSON.parse(readFileSync(new URL('corpora/naughty-strings/blns.json', DATA), 'utf8'));
  return strings;
}

/** The lines of one of the blog's NDJSON files. */
export function blogLines(resource: 'content' | 'images' | 'analytics'): string[] {
  return readFileSync(new URL(`blog/${resource}.ndjson`, DATA), 'utf8')
    .trimEnd()
    .split('\n');
}
