import { z } from 'zod';
import { fieldPathText } from '../../model/body-path.ts';
import { LOCAL } from '../../model/time-zone.ts';
import { PROOFS } from '../../model/vocabulary.ts';
import { documented, parsePlace, variablesIn, withExamples } from './basic-fields.ts';
import { changeFeedSchema, deleteFields, itemFields } from './delete-fields.ts';
import { fileFields } from './file-fields.ts';
import { incrementalFields, incrementalSchema, sinceParams, windowFields } from './incremental.ts';
import { pageSchema } from './page-style.ts';
import { type FieldSettings, pendingMask, recordFields, singleFields, tableFields } from './record-fields.ts';
import { findParent, NEEDS_POST, partitionFields, requestFields } from './request-fields.ts';

/**
 * One resource of a profile, such as `posts`: its fields, and the rules between fields. A resource that breaks a rule is
 * refused when the profile is loaded, because a run with it would fail later or copy wrong rows.
 */

const writtenFields = z.strictObject({
  extends: documented(z.string().min(1).nullable().default(null))('Another resource of this profile to start from.', [
    'posts',
  ]),
  ...requestFields,
  ...recordFields,
  ...partitionFields,
  ...incrementalFields,
  incremental: documented(z.discriminatedUnion('mode', [changeFeedSchema, incrementalSchema]).nullable().default(null))(
    'How changes are found; null: every run is a full scan.',
    [{ param: 'updated_since', format: 'iso' }],
  ),
  ...windowFields,
  page: pageSchema,
  ...itemFields,
  ...deleteFields,
  /**
   * Verifications that this service never allows. A run without them has a warning and may be `ok`; without an entry
   * here it is `partial`.
   */
  accept: withExamples(z.array(z.enum(PROOFS)).default([]), [['end'], ['filter', 'item']]),
  unverified: documented(z.array(z.string().min(1)).default([]))(
    'Fields that are guesses: runs are `partial` until one has verified them.',
    [['page.style', 'updated']],
  ),
  ...tableFields,
  ...singleFields,
  ...fileFields,
});

/** Moves a feed of changes from `incremental` to the field `feed`, because settings of a filter do not apply to it. */
const resourceFields = writtenFields.transform(({ incremental: changes, ...fields }) => {
  const incremental = changes?.mode === 'feed' ? null : changes;
  const feed = changes?.mode === 'feed' ? changes : null;
  return { ...fields, incremental, feed, mask: pendingMask(fields) };
});

type ResourceFields = z.output<typeof resourceFields>;

/** The schema of a resource. With partitions, the value of the partition becomes the first part of the key. */
export const resourceSchema = resourceFields
  .superRefine((resource, context) => {
    for (const fault of resourceFaults(resource)) context.addIssue({ code: 'custom', ...fault });
  })
  .transform(withPartitionKey);

/** A rule that a resource breaks: the field to change, within the resource, and what is expected there. */
interface ResourceFault {
  path: string[];
  message: string;
}

function resourceFaults(resource: ResourceFields): ResourceFault[] {
  const withKey = withPartitionKey(resource);
  return [
    ...requestFaults(resource),
    ...recordFaults(resource),
    ...feedFaults(withKey),
    ...windowFaults(resource),
    ...fieldFaults(withKey),
  ];
}

/** Adds the partition field as first part of the key, unless `id` contains it. */
function withPartitionKey(resource: ResourceFields): ResourceFields {
  const { id, partitions } = resource;
  if (partitions === null || [id].flat().includes(partitions.field)) return resource;
  return { ...resource, id: [partitions.field, id].flat() };
}

/** Returns the faults of the rules that are broken. A field below another one is written with a dot. */
function brokenRules(...rules: [isBroken: boolean, field: string, message: string][]): ResourceFault[] {
  return rules.flatMap(([isBroken, field, message]) => (isBroken ? [{ path: field.split('.'), message }] : []));
}

/** Finds parameters that no request can carry, and filters or partitions whose value no request contains. */
function requestFaults(resource: ResourceFields): ResourceFault[] {
  const { method, query, headers, body, incremental, partitions } = resource;
  const isFilter = incremental?.mode === 'filter';
  const sendsTime =
    isFilter && (sinceParams(incremental).length > 0 || variablesIn([query, headers, body]).includes('since'));
  return brokenRules(
    [method !== 'POST' && usesBody(resource), 'method', NEEDS_POST.error],
    [
      isFilter && !sendsTime,
      'incremental.param',
      'expected the place that takes the moment, or {since} in a template of the resource or of incremental',
    ],
    [
      partitions?.param === null && !usesVariable(resource, 'partition'),
      'partitions.param',
      'expected the place that takes the value, or {partition} in path, query, headers or body',
    ],
  );
}

/** True if a request has a body: `body` itself, or a parameter of the page, the filter or the report that is sent in it. */
function usesBody({ body, page, incremental, windows }: ResourceFields): boolean {
  const ofPage = Object.entries(page).flatMap(([field, place]) => (field.endsWith('_param') ? [place] : []));
  const places: unknown[] = [...ofPage, incremental?.param, windows?.from_param, windows?.to_param];
  return body !== null || places.some((place) => typeof place === 'string' && parsePlace(place).in === 'body');
}

function usesVariable({ path, query, headers, body }: ResourceFields, variable: string): boolean {
  return variablesIn([path, query, headers, body]).includes(variable);
}

/** Finds rules that need the id, the times or the stored body of a record, which the resource does not have. */
function recordFaults({ id, item, times, updated, feed, partitions, files, history }: ResourceFields): ResourceFault[] {
  const zones = new Set([updated].flat().map((path) => times[path ?? '']));
  const hasOneId = typeof id === 'string';
  return brokenRules(
    [
      !hasOneId && item !== null,
      'item',
      'expected null, because a record that several fields identify has no id that could stand in a path',
    ],
    [zones.has(LOCAL), 'times', 'expected a zone for the fields of `updated`: a time of no known zone is no moment'],
    // The stored cursor does not contain the field that it comes from.
    [zones.size > 1, 'times', 'expected the same zone for all fields of `updated`'],
    [
      feed?.record === null && item === null,
      'item',
      'expected the path of a single record, because the entries of the feed only name ids',
    ],
    [
      partitions !== null && feed !== null,
      'partitions',
      'expected none: a feed of changes does not say which of several listings a record is of',
    ],
    [
      files.length > 0 && history === 'none',
      'files',
      'expected history latest or all beside it: where a file is, and whether there is one, is read in the stored bodies',
    ],
    [
      !hasOneId && files.some((file) => file.at.kind === 'path'),
      'files',
      'expected json: and a place in the record, because a record that several fields identify has no id that could stand in a path',
    ],
  );
}

/** Finds feeds whose `id` has another number of fields than the key of the resource. */
function feedFaults({ id, delete_feed, feed }: ResourceFields): ResourceFault[] {
  const expected =
    typeof id === 'string' ? 'one field' : `a list of ${id.length} fields, where an entry names ${id.join(' and ')}`;
  const message = `expected ${expected}, because the key of a row is made of them`;
  const isOther = (feedId: string | string[] | null): boolean =>
    feedId !== null && countKeyFields(feedId) !== countKeyFields(id);
  return brokenRules(
    [isOther(delete_feed?.id ?? null), 'delete_feed.id', message],
    [isOther(feed?.id ?? null), 'incremental.id', message],
  );
}

/** Returns null for one field, because a list with one field makes another key than the field alone. */
function countKeyFields(key: string | string[]): number | null {
  return typeof key === 'string' ? null : key.length;
}

/** Finds settings of a report that contradict each other: `windows` decides which ranges of days are requested. */
function windowFaults(resource: ResourceFields): ResourceFault[] {
  const { windows, incremental, feed, partitions } = resource;
  const usesFrom = usesVariable(resource, 'from');
  const usesTo = usesVariable(resource, 'to');
  if (windows === null) {
    return brokenRules([
      usesFrom || usesTo,
      'windows',
      'expected windows, because {from} or {to} stands in a template',
    ]);
  }
  return brokenRules(
    [
      incremental !== null || feed !== null,
      'incremental',
      'expected null, because `windows` says what is asked for again',
    ],
    [partitions !== null, 'partitions', 'expected null: several listings cannot be asked for by windows yet'],
    [
      windows.from_param === null && !usesFrom,
      'windows.from_param',
      'expected the place that takes the first day, or {from} in path, query, headers or body',
    ],
    [
      windows.to_param !== null && usesTo,
      'windows.to_param',
      'expected null, because {to} stands in a template already',
    ],
    [
      windows.from_param !== null && windows.from_param === windows.to_param,
      'windows.to_param',
      'expected another place than that of the first day',
    ],
  );
}

/** True if requests of a report contain the end of the range; otherwise each requests one window by its first day. */
export function sendsRangeEnd(resource: ResourceFields): boolean {
  return resource.windows?.to_param != null || usesVariable(resource, 'to');
}

/** Finds faults of the settings in `fields`, such as a hidden field that the sync needs. */
function fieldFaults(resource: ResourceFields): ResourceFault[] {
  const faults = Object.entries(resource.fields).flatMap(([path, settings]) =>
    [hiddenFault, doubleFault, typeFault].flatMap((fault) => fault(path, settings, resource) ?? []),
  );
  return [...faults, ...nameFaults(resource)];
}

/** Returns a fault if the field is hidden although the sync needs it. */
function hiddenFault(path: string, { exclude, hash }: FieldSettings, resource: ResourceFields): ResourceFault | null {
  if (!exclude && !hash) return null;
  const found = neededFields(resource).find(([needed]) => isWithin(needed, path) || isWithin(path, needed));
  if (found === undefined) return null;
  const message = `expected it to be copied as it is, because it is ${found[1]}`;
  return { path: ['fields', path, exclude ? 'exclude' : 'hash'], message };
}

/** Returns the paths of the fields that the sync needs, and what for. */
function neededFields(resource: ResourceFields): [path: string, purpose: string][] {
  const { id, updated, state, deleted, partitions, windows, page } = resource;
  const needed: [string | readonly string[], string][] = [
    [id, 'the id of the record'],
    [updated ?? [], 'its time of change'],
    ['cursor_field' in page ? page.cursor_field : [], 'where the next page goes on from'],
    [state?.field ?? [], 'its state of publishing'],
    [[deleted ?? []].flat().flatMap(({ field, at = field }) => [field, at]), 'a tombstone'],
    [partitions?.field ?? [], 'the listing that it comes from'],
    [windows?.field ?? [], 'the day that it is of'],
    [Object.keys(windows?.totals ?? {}), 'compared with a total'],
  ];
  return needed.flatMap(([fields, purpose]) =>
    [fields].flat().map((field): [string, string] => [fieldPathText(field), purpose]),
  );
}

/** True if `path` is `other` or below it. */
function isWithin(path: string, other: string): boolean {
  return path === other || path.startsWith(`${other}.`);
}

/** Returns a fault if two settings of the field exclude each other. */
function doubleFault(path: string, { exclude, hash, type, rename }: FieldSettings): ResourceFault | null {
  const at = ['fields', path];
  if (exclude && (hash || type !== undefined || rename !== undefined)) {
    return { path: at, message: 'expected nothing but a description beside `exclude`: it has no column' };
  }
  if (!hash || type === undefined || type === 'text' || type === 'json') return null;
  return { path: [...at, 'type'], message: 'expected text or json, because a hash is a text' };
}

/** Returns a fault if the column cannot have the type. */
function typeFault(path: string, { type }: FieldSettings, { id, json, times }: ResourceFields): ResourceFault | null {
  if (type === undefined) return null;
  const at = ['fields', path, 'type'];
  if (typeof id === 'string' && fieldPathText(id) === path && type !== 'text') {
    return { path: at, message: 'expected text or none, because keys are texts' };
  }
  if (type !== 'json' && json.includes(path)) {
    return { path: at, message: 'expected json, because the field is in the list `json`' };
  }
  const isTime = type === 'date' || type === 'timestamp';
  if (!isTime || times[path] !== LOCAL) return null;
  return { path: at, message: 'expected text, because its times are of a zone that nobody tells (`times`: local)' };
}

/** Finds two fields with one name. Names are unique in the resource, because its tables are not known yet. */
function nameFaults({ fields, id }: ResourceFields): ResourceFault[] {
  const names = new Map<string, string>(typeof id === 'string' && fields[id]?.rename === undefined ? [[id, id]] : []);
  return Object.entries(fields).flatMap(([path, { rename }]) => {
    if (rename === undefined) return [];
    const other = names.get(rename);
    names.set(rename, path);
    if (other === undefined || other === path) return [];
    return [{ path: ['fields', path, 'rename'], message: `expected a name of its own, got that of ${other}` }];
  });
}

/** Returns the fault of `partitions.parent`, the resource whose rows each have a listing; null if there is none. */
export function parentFault(name: string, resources: Readonly<Record<string, ResourceFields>>): string | null {
  const passed = new Set([name]);
  for (let parent = findParent(resources[name]); parent !== null; parent = findParent(resources[parent])) {
    if (passed.has(parent)) return 'expected parents that do not lead back to this resource';
    if (resources[parent] === undefined) return `expected a resource of this profile, got ${parent}`;
    passed.add(parent);
  }
  const partitions = resources[name]?.partitions ?? null;
  if (partitions === null || !('parent' in partitions)) return null;
  const { parent, parent_id: field } = partitions;
  if (field === null) {
    const hasOneId = typeof resources[parent]?.id === 'string';
    return hasOneId ? null : 'expected parent_id, because several fields identify a record of the parent';
  }
  const settings = resources[parent]?.fields[fieldPathText(field)];
  const isHidden = settings?.hash === true || settings?.exclude === true;
  return isHidden ? `expected ${field} of the parent to be copied as it is` : null;
}
