// Removes or hashes the fields that the profile hides, such as `author.email`, before a record is compared or stored
// (`fieldMask`), and removes the fields whose changes do not count (`comparedPart`).
import { createHmac } from 'node:crypto';
import type { JsonObject, JsonValue, SourceRecord } from '../model/json.ts';
import { keysOfText } from './columns/column-name.ts';
import { isExact, parseJson } from './json/parse-json.ts';
import { isObject, limitRejection } from './records/as-record.ts';

/** How a field is hidden: it is removed, or each value is replaced by a hash. */
export interface HiddenField {
  exclude: boolean;
  hash: boolean;
}

/** Digits of a hash: 128 bits, so that no two values collide. */
const HASH_DIGITS = 32;
/** Deeper levels of a hidden field become null; such a record is rejected in any case. */
const MAX_LEVELS = 110;

/** Hidden paths as a tree. A list needs no node, because a path applies to each element. */
interface MaskNode {
  /** How the field itself is hidden; null if only fields in it are. */
  mode: 'exclude' | 'hash' | null;
  /** The fields in it that are hidden, or contain hidden ones, by key. */
  children: Map<string, MaskNode>;
}

type Hash = (text: string) => string;

/**
 * Returns a function that hides fields of records. The record's bytes are encoded again without them; `asSent` has the
 * original bytes. A record that is no object is hashed whole, because its content is unknown.
 */
export function fieldMask(
  fields: Readonly<Record<string, HiddenField>>,
  key: string,
): (record: SourceRecord) => SourceRecord {
  const root = maskTree(fields);
  const hash: Hash = (text) => createHmac('sha256', key).update(text).digest('hex').slice(0, HASH_DIGITS);
  return (record) => {
    const { value, bytes } = record;
    const isReadable = record.rejection === undefined && isObject(value);
    if (isReadable && limitRejection(value, 0) !== null) {
      // Its fields cannot be searched, so a hash replaces its text. The loader rejects it by its value.
      return { ...record, bytes: toJsonBytes({ left_out: hash(bytes.toString()) }) };
    }
    const masked = isReadable ? maskValue(value, root, hash) : hashScalars(parseJson(bytes.toString()), hash, 0);
    return {
      ...record,
      value: record.rejection === undefined ? masked : null,
      bytes: toJsonBytes(masked),
      asSent: bytes,
    };
  };
}

/** Returns a function that removes the fields whose changes do not count (`compare: false`). */
export function comparedPart(fields: Readonly<Record<string, { compare: boolean }>>): (value: JsonValue) => JsonValue {
  const uncompared = Object.entries(fields).filter(([, { compare }]) => !compare);
  if (uncompared.length === 0) return (value) => value;
  const root = maskTree(Object.fromEntries(uncompared.map(([path]) => [path, { exclude: true, hash: false }])));
  return (value) => maskValue(value, root, String);
}

/** Identifies the key without revealing it. */
export function hashKeyMark(key: string): string {
  return createHmac('sha256', key).update('content-sync hash_key').digest('hex').slice(0, HASH_DIGITS);
}

function toJsonBytes(value: JsonValue): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function maskTree(fields: Readonly<Record<string, HiddenField>>): MaskNode {
  const root: MaskNode = { mode: null, children: new Map() };
  for (const [path, { exclude, hash }] of Object.entries(fields)) {
    if (!exclude && !hash) continue;
    let node = root;
    for (const key of keysOfText(path)) {
      const next: MaskNode = node.children.get(key) ?? { mode: null, children: new Map() };
      node.children.set(key, next);
      node = next;
    }
    node.mode = exclude ? 'exclude' : 'hash';
  }
  return root;
}

/** The value without its hidden fields; the same object if it has none. */
function maskValue(value: JsonValue, node: MaskNode, hash: Hash): JsonValue {
  if (Array.isArray(value)) return value.map((element) => maskValue(element, node, hash));
  return isObject(value) ? maskObject(value, node, hash) : value;
}

function maskObject(object: JsonObject, { children }: MaskNode, hash: Hash): JsonObject {
  const members = Object.entries(object);
  if (!members.some(([key]) => children.has(key))) return object;
  return Object.fromEntries(
    members.flatMap(([key, member]): [string, JsonValue][] => {
      const node = children.get(key);
      if (node?.mode === 'exclude') return [];
      if (node?.mode === 'hash') {
        const included = node.children.size === 0 ? member : maskValue(member, withoutHashes(node), hash);
        return [[key, hashScalars(included, hash, 0)]];
      }
      return [[key, node === undefined ? member : maskValue(member, node, hash)]];
    }),
  );
}

/** The node without its hashes: a field around it is hashed with all that is in it. */
function withoutHashes({ mode, children }: MaskNode): MaskNode {
  const nodes = Array.from(children, ([key, node]) => [key, withoutHashes(node)] as const);
  return { mode: mode === 'hash' ? null : mode, children: new Map(nodes) };
}

/** Hashes each scalar; a number and a text of the same digits get the same hash, as they are the same key. */
function hashScalars(value: JsonValue, hash: Hash, level: number): JsonValue {
  if (value === null || level > MAX_LEVELS) return null;
  if (Array.isArray(value)) return value.map((element) => hashScalars(element, hash, level + 1));
  if (!isObject(value)) return hash(isExact(value) ? value.rawJSON : String(value));
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, hashScalars(member, hash, level + 1)]));
}

/**
 * True if the profile hides the field at the path, something around it or something in it; `path` as `pathText` writes
 * it.
 */
export function isHidden(path: string | null, fields: Readonly<Record<string, HiddenField>>): boolean {
  const keys = path === null ? [] : keysOfText(path);
  return Object.entries(fields).some(([field, { exclude, hash }]) => {
    const hidden = keysOfText(field).slice(0, keys.length);
    return (exclude || hash) && keys.length > 0 && hidden.every((key, at) => key === keys[at]);
  });
}
