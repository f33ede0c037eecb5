import { writeFileSync } from 'node:fs';
import { stringify } from 'yaml';
import { escapePlaceholders } from '../../config/file/interpolate.ts';
import { type ProfileFields, readPackagedProfile } from '../../config/load-profile.ts';
import type { Profile } from '../../config/profile/profile.ts';
import type { SourceSettings } from '../../config/settings.ts';
import { snippet } from '../../http/body/safe-text.ts';
import { newMeter } from '../../http/client.ts';
import { SyncError } from '../../model/errors.ts';
import type { JsonObject, JsonValue } from '../../model/json.ts';
import { fieldAt, isObject, meets } from '../../rows/records/as-record.ts';
import { openProbe, type Probe } from '../../server/app.ts';
import type { Section } from '../check.ts';
import type { CliContext } from '../command/context.ts';
import { print } from '../command/output.ts';
import { silentLog, whileOpen } from '../command/sources.ts';

/** A profile in the folder of the config that adds an account's own collections to a shipped one. */
export interface OwnProfile {
  path: string;
  /** Name of the shipped profile. */
  base: string;
  /** ProfileFields of each resource by its name. */
  resources: Readonly<Record<string, ProfileFields>>;
  /** Resources by the name that webhooks use, where that is another one. */
  resourceNames: Readonly<Record<string, string>>;
}

/** Its text, as it is known so far. */
export function ownProfileText({ base, resources, resourceNames }: OwnProfile): string {
  const webhooks = Object.keys(resourceNames).length === 0 ? {} : { webhooks: { resource_names: resourceNames } };
  const own = Object.keys(resources).length === 0 ? {} : { resources };
  const text = stringify(escapePlaceholders({ extends: base, ...webhooks, ...own }), { lineWidth: 0 });
  return `# What this account has besides the profile ${base}: see config/profile.md.\n${text}`;
}

/** Fetches the collections of the account and writes them. Prints advice if the credential may not list them. */
export async function findCollections(context: CliContext, source: SourceSettings, own: OwnProfile): Promise<void> {
  const place = readPackagedProfile(own.base).about?.collections;
  if (place === undefined) return;
  const { clock, secrets } = context;
  const opened = await openProbe({ source, clock, secrets, log: silentLog(context) }, null);
  const answer = await whileOpen(opened, (probe) => askFor(probe, place.path, context.signal));
  const found = answer === null ? null : ownCollections(place, answer);
  if (found === null) {
    const example = stringify({ resources: { posts: place.resource } })
      .replaceAll('{name}', 'posts')
      .trimEnd();
    const advice = `add them to ${own.path}, such as\n${example}`;
    print(context, `This credential cannot list collections: ${advice}`);
    return;
  }
  const { refused, ...known } = found;
  if (refused.length > 0) {
    const names = refused.map((name) => snippet(name, 80)).join(', ');
    print(context, `Not copied, because of their names: ${names}. Add them to ${own.path} if you need them.`);
  }
  writeFileSync(own.path, ownProfileText(Object.assign(own, known)));
}

/** Removes the filter of resources for which `check` found that it does not work; true if there are any. */
export function dropFilters(own: OwnProfile, sections: readonly Section[]): boolean {
  const failed = sections.filter(
    ({ resource, findings }) =>
      Object.hasOwn(own.resources, resource) &&
      findings.some(({ check, status }) => status !== 'ok' && ['filter', 'updated'].includes(check)),
  );
  if (failed.length === 0) return false;
  const without = failed.map(({ resource }) => [
    resource,
    { ...own.resources[resource], updated: null, incremental: null },
  ]);
  own.resources = { ...own.resources, ...Object.fromEntries(without) };
  writeFileSync(own.path, ownProfileText(own));
  return true;
}

/** Null if the service refuses the request. */
async function askFor({ client, listing }: Probe, path: string, signal: AbortSignal) {
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

type CollectionsPlace = NonNullable<NonNullable<Profile['about']>['collections']>;

interface OwnCollections {
  resources: OwnProfile['resources'];
  resourceNames: OwnProfile['resourceNames'];
  /** Names that cannot be part of a path, or become the name of another collection's resource. */
  refused: readonly string[];
}

/** The collections in an answer of the service, by what the profile says of them; null if there is no list in it. */
function ownCollections(place: CollectionsPlace, answer: JsonValue): OwnCollections | null {
  const listed = fieldAt(answer, place.records);
  if (!Array.isArray(listed)) return null;
  const resources: Record<string, ProfileFields> = {};
  const resourceNames: Record<string, string> = {};
  const refused: string[] = [];
  for (const entry of listed.filter(isObject).filter((each) => meets(each, place.where))) {
    const name = textAt(entry, place.name);
    if (name === null || place.leave_out.some((pattern) => fits(pattern, name))) continue;
    const resource = toResourceName(name);
    if (!COLLECTION_NAME.test(name) || Object.hasOwn(resources, resource)) {
      refused.push(name);
      continue;
    }
    const further = place.also.filter(({ where }) => meets(entry, where)).map((each) => each.resource);
    resources[resource] = filled(Object.assign({}, place.resource, ...further), name);
    const event = place.event_name === undefined ? null : textAt(entry, place.event_name);
    if (event !== null && event !== resource) resourceNames[event] = resource;
  }
  return { resources, resourceNames, refused };
}

function textAt(entry: JsonObject, path: string): string | null {
  const value = fieldAt(entry, path);
  return typeof value === 'string' && value !== '' ? value : null;
}

function fits(pattern: string, name: string): boolean {
  return pattern.endsWith('*') ? name.startsWith(pattern.slice(0, -1)) : name === pattern;
}

/** As names of resources, and so of tables, are written. */
function toResourceName(name: string): string {
  const plain = name.toLowerCase().replaceAll(/[^a-z0-9_]+/g, '_');
  return plain.replace(/^[^a-z]+/, '').slice(0, 40) || 'records';
}

/** The fields with `{name}` in their texts replaced, on every level. */
function filled(fields: Readonly<Record<string, unknown>>, name: string): Record<string, unknown> {
  const fill = (value: unknown): unknown => {
    if (typeof value === 'string') return value.replaceAll('{name}', name);
    if (Array.isArray(value)) return value.map(fill);
    if (typeof value !== 'object' || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, below]) => [key, fill(below)]));
  };
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, fill(value)]));
}
