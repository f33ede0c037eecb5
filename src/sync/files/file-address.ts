// Reads the addresses of a record's files.
import type { KeptFile } from '../../config/profile/file-fields.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { isEach, type PathStep, stepsOf } from '../../model/body-path.ts';
import { messageOf } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { type ListingTarget, singleRequest } from '../../pagination/page-styles/listing-request.ts';
import { keyParts } from '../../pagination/read-item.ts';
import { isExact } from '../../rows/json/parse-json.ts';
import { fieldAt, isObject, stepInto } from '../../rows/records/as-record.ts';

/** A file as its record names it. */
export interface FileAddress {
  field: string;
  position: number;
  /** A whole address; the record's text if it is not an address. */
  url: string;
  /** Why it cannot be requested; null if it can. */
  fault: string | null;
  declared: DeclaredFile;
}

/** The size and hash that the record states for the file; null if it does not. */
export interface DeclaredFile {
  bytes: number | null;
  /** Lower-case hex digits. */
  sha256: string | null;
}

export interface AddressContext {
  profile: ResourceProfile;
  listing: ListingTarget;
}

/** All files of a record. Pure. */
export function fileAddresses(
  context: AddressContext,
  files: readonly KeptFile[],
  key: string,
  record: JsonValue,
): FileAddress[] {
  return files.flatMap((file) => findAddresses(context, file, key, record));
}

function findAddresses(context: AddressContext, file: KeptFile, key: string, record: JsonValue): FileAddress[] {
  const { field, at, when, bytes, sha256 } = file;
  if (when !== null && isUnset(fieldAt(record, when))) return [];
  const sizes = bytes === null ? [] : valuesAt(record, bytes);
  const hashes = sha256 === null ? [] : valuesAt(record, sha256);
  const found =
    at.kind === 'path' ? [addressByPath(context, at.path, key)] : addressesInRecord(context, record, at.place);
  return found.flatMap((address, position) => {
    if (address === null) return [];
    const declared = { bytes: sizeIn(sizes[position]), sha256: hashIn(hashes[position]) };
    return [{ field, position, ...address, declared }];
  });
}

/** Neither false, null, zero nor empty. */
function isUnset(value: JsonValue | undefined): boolean {
  if (value === undefined || value === null || value === false || value === 0 || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && Object.keys(value).length === 0;
}

type Found = Pick<FileAddress, 'url' | 'fault'>;

function addressByPath({ profile, listing }: AddressContext, path: string, key: string): Found {
  const { id, partition } = keyParts(profile, key);
  try {
    const { url } = singleRequest({ target: listing, templates: { path, query: {} }, values: { id, partition } });
    return { url: url.href, fault: null };
  } catch (error) {
    return { url: path, fault: messageOf(error) };
  }
}

/** Null for an element of a list that has no address, so that the following ones keep their position. */
function addressesInRecord({ listing }: AddressContext, record: JsonValue, place: string): (Found | null)[] {
  return valuesAt(record, place).map((value) =>
    typeof value === 'string' && value.trim() !== '' ? addressIn(value.trim(), listing.baseUrl) : null,
  );
}

/** An address without scheme or host is resolved against the base URL. */
function addressIn(text: string, baseUrl: URL): Found {
  const url = URL.parse(text, baseUrl.href);
  if (url === null) return { url: text, fault: 'it is no address' };
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return { url: text, fault: `its scheme is ${url.protocol}, and only http: and https: are fetched` };
  }
  if (url.username !== '' || url.password !== '') {
    url.username = '';
    url.password = '';
    return { url: url.href, fault: 'it holds a user name or a password' };
  }
  url.hash = '';
  return { url: url.href, fault: null };
}

/**
 * True for an address at or below a base URL. The author of a record chooses its addresses, so the credential must not
 * go to other paths of the origin, nor to one that a server could resolve to those (`..%2f`, `..;/`).
 */
export function isBelow({ origin, pathname }: URL, base: URL): boolean {
  const folder = `${base.pathname.replace(/\/+$/, '')}/`;
  return origin === base.origin && `${pathname}/`.startsWith(folder) && !/(?:\.|%2e){2}/i.test(pathname);
}

/** The values that a path leads to, in order; undefined for one that is missing where the path leads to many. */
export function valuesAt(value: JsonValue, path: string): (JsonValue | undefined)[] {
  let found: (JsonValue | undefined)[] = [value];
  for (const step of stepsOf(path)) found = found.flatMap((one) => into(one, step));
  return found;
}

function into(value: JsonValue | undefined, step: PathStep): (JsonValue | undefined)[] {
  if (!isEach(step)) return [stepInto(value, step)];
  if (Array.isArray(value)) return value;
  return isObject(value) ? Object.values(value) : [];
}

function sizeIn(value: JsonValue | undefined): number | null {
  const size = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof size === 'number' && Number.isSafeInteger(size) && size >= 0 ? size : null;
}

function hashIn(value: JsonValue | undefined): string | null {
  if (typeof value !== 'string' || isExact(value)) return null;
  const hash = value.replace(/^sha-?256[:-]/i, '').toLowerCase();
  return /^[0-9a-f]{64}$/.test(hash) ? hash : null;
}

/** Query parameters that sign an address for a while, as the clouds and CDNs write them. */
const SIGNING =
  /^(?:x-amz-.*|x-goog-.*|awsaccesskeyid|googleaccessid|signature|expires|key-pair-id|policy|sig|se|st|sp|spr|sr|sv|skoid|sktid|skt|ske|sks|skv|hmac|exp|token|verify)$/i;

/** The address without signature and expiry: two that are equal then lead to the same file. */
export function withoutSignature(address: string): string {
  const url = URL.parse(address);
  if (url === null) return address;
  for (const name of new Set(url.searchParams.keys())) if (SIGNING.test(name)) url.searchParams.delete(name);
  url.searchParams.sort();
  url.hash = '';
  return url.href;
}
