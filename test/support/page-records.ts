import type { SourceRecord } from '../../src/model/json.ts';
import { parseJson } from '../../src/rows/json/parse-json.ts';
import { selectRecords } from '../../src/rows/records/select-records.ts';
import { profileSchema, type ResourceProfile } from '../../src/config/profile/profile.ts';

/** The fields of a resource's profile that a test sets. */
export type ProfileChoice = Record<string, unknown>;

export function profileWith(choice: ProfileChoice = {}): ResourceProfile {
  const page = { style: 'page', page_param: 'page', size_param: 'limit', size: 100 };
  const { content } = profileSchema.parse({ resources: { content: { path: '/content', page, ...choice } } }).resources;
  if (content === undefined) throw new Error('the profile has a resource');
  return content;
}

/** The part of a `LoadContext` that comes from the profile: the same for all these resources, without relations. */
export function profilesFor(profile: ResourceProfile, resources: readonly string[] = ['content']) {
  return { profile, whole: { resources: Object.fromEntries(resources.map((name) => [name, profile])), relations: {} } };
}

/** Records from their source texts, as if they had been a page. */
export function recordsOf(texts: readonly string[]): SourceRecord[] {
  const bytes = Buffer.from(`[${texts.join(',')}]`);
  const records = selectRecords(bytes, parseJson(bytes.toString()), '');
  if (records === null) throw new Error('the page is no array');
  return records;
}
