// The profile that `init` writes for the collections of one account, in addition to a shipped profile. Example: the
// Directus of one account has `articles` and `authors`, which the service lists and the profile `directus` cannot know.
import { readFileSync, writeFileSync } from 'node:fs';
import { parseDocument, stringify } from 'yaml';
import { escapePlaceholders } from '../../config/file/interpolate.ts';
import { type ProfileFields, readPackagedProfile } from '../../config/load-profile.ts';
import type { Profile } from '../../config/profile/profile.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { shortenText } from '../../http/body/read-body.ts';
import { newMeter } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonObject, JsonValue } from '../../model/json.ts';
import { fieldAt, isObject, meets } from '../../rows/records/as-record.ts';
import { openProbe, type Probe } from '../../server/app.ts';
import type { Section } from '../check.ts';
import { type CliContext, print } from '../command/context.ts';
import { silentLog, whileOpen } from '../command/sources.ts';

/** A profile in the folder of the config that adds an account's own collections to a shipped one. */
export interface OwnProfile {
  path: string;
  /** Name of the shipped profile. */
  base: string;
  /** Fields of each resource by its name. */
  resources: Readonly<Record<string, ProfileFields>>;
  /** Resources by the name that webhooks use, if that is another one. */
  resourceNames: Readonly<Record<string, string>>;
}

/** Its text, as far as it is known. */
export function ownProfileText({ base, resources, resourceNames }: OwnProfile): string {
  const webhooks = Object.keys(resourceNames).length === 0 ? {} : { webhooks: { resource_names: resourceNames } };
  const own = Object.keys(resources).length === 0 ? {} : { resources };
  const text = stringify(escapePlaceholders({ extends: base, ...webhooks, ...own }), { lineWidth: 0 });
  return `# What this account has besides the profile ${base}: see config/profile.md.\n${text}`;
}

/** Fetches the collections of the account and writes them. Prints advice if the credential may not list them. */
export async function findCollections(context: CliContext, source: SourceSettings, own: OwnProfile): Promise<void> {
  const rules = readPackagedProfile(own.base).about?.collections;
  if (rules === undefined) return;
  const { clock, secrets } = context;
  const opened = await openProbe({ source, clock, secrets, log: silentLog(context) }, null);
  const body = await whileOpen(opened, (probe) => requestBody(probe, rules.path, context.signal));
  const listed = body === null ? null : fieldAt(body, rules.records);
  if (!Array.isArray(listed)) {
    const example = stringify({ resources: { posts: rules.resource } })
      .replaceAll('{name}', 'posts')
      .trimEnd();
    print(context, `This credential cannot list collections: add them to ${own.path}, such as\n${example}`);
    return;
  }
  const refused = addCollections(own, rules, listed.filter(isObject));
  if (refused.length > 0) {
    const names = refused.map((name) => shortenText(name, 80)).join(', ');
    print(context, `Not copied, because of their names: ${names}. Add them to ${own.path} if you need them.`);
  }
  writeFileSync(own.path, ownProfileText(own));
}

/** What is removed from a resource if `check` found that it does not work. */
const REMOVED: Readonly<Record<string, readonly string[]>> = {
  filter: ['incremental'],
  updated: ['updated', 'incremental'],
  item: ['item'],
};

/**
 * Removes filters and paths of single records that failed in `check` from the profile at this path: the copy is right
 * without them. True if there are any.
 */
export function dropFailed(path: string, sections: readonly Section[], statuses: readonly string[]): boolean {
  const document = parseDocument(readFileSync(path, 'utf8'));
  const dropped = sections.flatMap(({ resource, findings }) =>
    findings
      .filter(({ status }) => statuses.includes(status) && document.hasIn(['resources', resource]))
      .flatMap(({ check }) => (REMOVED[check] ?? []).map((field) => ['resources', resource, field])),
  );
  for (const field of dropped) document.setIn(field, null);
  if (dropped.length > 0) writeFileSync(path, document.toString({ lineWidth: 0 }));
  return dropped.length > 0;
}

/** Null if the service refuses the request. */
async function requestBody({ client, listing }: Probe, path: string, signal: AbortSignal): Promise<JsonValue> {
  const url = new URL(listing.baseUrl);
  url.pathname = url.pathname.replace(/\/+$/, '') + path;
  try {
    return (await client.get({ url, lane: 'incremental', meter: newMeter(), signal })).json;
  } catch (error) {
    if (error instanceof SyncError && error.code !== 'interrupted') return null;
    throw error;
  }
}

/** A name that stays one segment of a path and is no placeholder of a template. */
const COLLECTION_NAME = /^[\p{L}\p{N}_][\p{L}\p{N} _.~-]*$/u;

type CollectionRules = NonNullable<NonNullable<Profile['about']>['collections']>;

/**
 * Adds the listed collections by the rules of the shipped profile. Returns names that cannot be part of a path, or become
 * the name of another collection's resource.
 */
function addCollections(own: OwnProfile, rules: CollectionRules, listed: readonly JsonObject[]): string[] {
  const resources: Record<string, ProfileFields> = {};
  const resourceNames: Record<string, string> = {};
  const refused: string[] = [];
  for (const entry of listed.filter((each) => meets(each, rules.where))) {
    const name = textAt(entry, rules.name);
    const isLeftOut = (pattern: string): boolean =>
      pattern.endsWith('*') ? name?.startsWith(pattern.slice(0, -1)) === true : name === pattern;
    if (name === null || rules.leave_out.some(isLeftOut)) continue;
    // As names of resources, and so of tables, are written.
    const plain = name
      .toLowerCase()
      .replaceAll(/[^a-z0-9_]+/g, '_')
      .replace(/^[^a-z]+/, '');
    const resource = plain.slice(0, 40) || 'records';
    if (!COLLECTION_NAME.test(name) || Object.hasOwn(resources, resource)) {
      refused.push(name);
      continue;
    }
    const further = rules.also.filter(({ where }) => meets(entry, where)).map((each) => each.resource);
    const fields = JSON.stringify(Object.assign({}, rules.resource, ...further));
    resources[resource] = JSON.parse(fields, (_, value: unknown) =>
      typeof value === 'string' ? value.replaceAll('{name}', name) : value,
    );
    const event = rules.event_name === undefined ? null : textAt(entry, rules.event_name);
    if (event !== null && event !== resource) resourceNames[event] = resource;
  }
  Object.assign(own, { resources, resourceNames });
  return refused;
}

function textAt(entry: JsonObject, path: string): string | null {
  const value = fieldAt(entry, path);
  return typeof value === 'string' && value !== '' ? value : null;
}
