import { fieldPathText } from '../model/body-path.ts';
import { LOCAL, type ZonesByPath } from '../model/time-zone.ts';
import type { FieldSettings, PublishingState } from './field-settings.ts';

/** The fields of a resource that must agree with what is said of its single fields. */
interface Resource {
  fields: Readonly<Record<string, FieldSettings>>;
  id: string | readonly string[];
  updated: string | readonly string[] | null;
  state: PublishingState | null;
  deleted: Tombstone | readonly Tombstone[] | null;
  partitions: { readonly field: string } | null;
  windows: { readonly field: string; readonly totals: object } | null;
  page: object;
  json: readonly string[];
  times: ZonesByPath;
}

interface Tombstone {
  readonly field: string;
  readonly at?: string | undefined;
}

interface Fault {
  path: string[];
  message: string;
}

/** What is said of single fields and cannot hold; paths are within the resource. */
export function fieldFaults(resource: Resource): Fault[] {
  const faults = Object.entries(resource.fields).flatMap(([path, settings]) =>
    [hiddenFault, doubleFault, typeFault].flatMap((fault) => fault(path, settings, resource) ?? []),
  );
  return [...faults, ...nameFaults(resource)];
}

/** Fields that the sync itself goes by must be copied as they are. */
function hiddenFault(path: string, { exclude, hash }: FieldSettings, resource: Resource): Fault | null {
  if (!exclude && !hash) return null;
  const found = usesOf(resource).find(([used]) => isWithin(used, path) || isWithin(path, used));
  if (found === undefined) return null;
  const message = `expected it to be copied as it is, because it is ${found[1]}`;
  return { path: ['fields', path, exclude ? 'exclude' : 'hash'], message };
}

/** Fields that have a meaning for the sync, and which. */
function usesOf({ id, updated, state, deleted, partitions, windows, page }: Resource): [string, string][] {
  const cursor = 'cursor_field' in page && typeof page.cursor_field === 'string' ? [page.cursor_field] : [];
  const uses: [readonly string[], string][] = [
    [[id].flat(), 'the id of the record'],
    [[updated ?? []].flat(), 'its time of change'],
    [cursor, 'where the next page goes on from'],
    [state === null ? [] : [state.field], 'its state of publishing'],
    [[deleted ?? []].flat().flatMap(({ field, at = field }) => [field, at]), 'a tombstone'],
    [partitions === null ? [] : [partitions.field], 'the listing that it comes from'],
    [windows === null ? [] : [windows.field], 'the day that it is of'],
    [Object.keys(windows?.totals ?? {}), 'compared with a total'],
  ];
  return uses.flatMap(([fields, what]) => fields.map((field): [string, string] => [fieldPathText(field), what]));
}

/** True for the path itself and for one below it. */
function isWithin(path: string, other: string): boolean {
  return path === other || path.startsWith(`${other}.`);
}

function doubleFault(path: string, { exclude, hash, type, rename }: FieldSettings): Fault | null {
  const at = ['fields', path];
  if (exclude && (hash || type !== undefined || rename !== undefined)) {
    return { path: at, message: 'expected nothing but a description beside `exclude`: it has no column' };
  }
  if (!hash || type === undefined || type === 'text' || type === 'json') return null;
  return { path: [...at, 'type'], message: 'expected text or json, because a hash is a text' };
}

function typeFault(path: string, { type }: FieldSettings, { id, json, times }: Resource): Fault | null {
  if (type === undefined) return null;
  const at = ['fields', path, 'type'];
  if (typeof id === 'string' && fieldPathText(id) === path && type !== 'text') {
    return { path: at, message: 'expected text or none, because keys are texts' };
  }
  if (type !== 'json' && json.some((one) => fieldPathText(one) === path)) {
    return { path: at, message: 'expected json, because the field is in the list `json`' };
  }
  const isMoment = type === 'date' || type === 'timestamp';
  if (!isMoment || times[path] !== LOCAL) return null;
  return { path: at, message: 'expected text, because its times are of a zone that nobody tells (`times`: local)' };
}

/** Names are unique, also where the fields lie in different tables: nobody knows yet which become one. */
function nameFaults({ fields, id }: Resource): Fault[] {
  const names = new Map<string, string>(typeof id === 'string' && fields[id]?.rename === undefined ? [[id, id]] : []);
  return Object.entries(fields).flatMap(([path, { rename }]) => {
    if (rename === undefined) return [];
    const other = names.get(rename);
    names.set(rename, path);
    if (other === undefined || other === path) return [];
    return [{ path: ['fields', path, 'rename'], message: `expected a name of its own, got that of ${other}` }];
  });
}
