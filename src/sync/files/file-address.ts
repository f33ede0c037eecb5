// Finds the addresses of the files that belong to a record (`fileAddresses`), such as `image.url` of a post or
// `/media/{id}/raw`, by `files` of the profile. An address that must not be requested gets a `fault`.
import type { KeptFile } from '../../config/profile/file-fields.ts';
import type { ResourceProfile } from '../../config/profile/profile.ts';
import { isEach, type PathStep, stepsOf } from '../../model/body-path.ts';
import { messageOf } from '../../model/errors.ts';
import type { JsonValue } from '../../model/json.ts';
import { type ListingTarget, singleRequest } from '../../pagination/page-styles/listing-request.ts';
import { keyParts } from '../../pagination/read-item.ts';
import { isExact } from '../../rows/json/parse-json.ts';
import { fieldAt, isObject, stepInto } from '../../rows/records/as-record.ts';

/** One file of a record. */
export interface FileAddress {
  /** The name of the file in the profile. */
  field: string;
  /** The index in a list of addresses, from 0. */
  position: number;
  /** An absolute URL; the text of the record if it is not an address. */
  url: string;
  /** Why it cannot be requested; null if it can. */
  fault: string | null;
  declared: DeclaredFile;
}

/** The size and the hash of the file in the record; null if it has none. */
export interface DeclaredFile {
  bytes: number | null;
  /** Lower-case hex digits. */
  sha256: string | null;
}

export interface AddressContext {
  profile: ResourceProfile;
  listing: ListingTarget;
}

/** Returns the addresses of all files of a record. */
export function fileAddresses(
  context: AddressContext,
  files: readonly KeptFile[],
  key: string,
  record: JsonValue,
): FileAddress[] {
  return files.flatMap(({ field, at, when, bytes, sha256 }) => {
    if (when !== null && isUnset(fieldAt(record, when))) return [];
    const sizes = bytes === null ? [] : valuesAt(record, bytes);
    const hashes = sha256 === null ? [] : valuesAt(record, sha256);
    const addresses =
      at.kind === 'path' ? [addressByPath(context, at.path, key)] : addressesInRecord(context, record, at.place);
    return addresses.flatMap((address, position) => {
      if (address === null) return [];
      const declared = { bytes: parseSize(sizes[position]), sha256: parseHash(hashes[position]) };
      return [{ field, position, ...address, declared }];
    });
  });
}

/** True for false, null, zero and empty values. */
function isUnset(value: JsonValue | undefined): boolean {
  if (value === undefined || value === null || value === false || value === 0 || value === '') return true;
  if (Array.isArray(value)) return value.length === 0;
  return isObject(value) && Object.keys(value).length === 0;
}

type CheckedUrl = Pick<FileAddress, 'url' | 'fault'>;

/** Returns the address at a path of the service, such as `/media/{id}/raw`. */
function addressByPath({ profile, listing }: AddressContext, path: string, key: string): CheckedUrl {
  const { id, partition } = keyParts(profile, key);
  try {
    const { url } = singleRequest({ target: listing, templates: { path, query: {} }, values: { id, partition } });
    return { url: url.href, fault: null };
  } catch (error) {
    return { url: path, fault: messageOf(error) };
  }
}

/** Returns the addresses in a field; null for an element without one, so that the next ones keep their position. */
function addressesInRecord({ listing }: AddressContext, record: JsonValue, field: string): (CheckedUrl | null)[] {
  return valuesAt(record, field).map((value) =>
    typeof value === 'string' && value.trim() !== '' ? checkUrl(value.trim(), listing.baseUrl) : null,
  );
}

/** Resolves an address against the base URL, and checks it. */
function checkUrl(text: string, baseUrl: URL): CheckedUrl {
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
 * True for an address at or below a base URL: the credential is sent only to these. An author of the service chooses the
 * addresses, and must not direct it to another path, nor to one that a server could resolve to another (`..%2f`, `..;/`).
 */
export function isBelow({ origin, pathname }: URL, base: URL): boolean {
  const folder = `${base.pathname.replace(/\/+$/, '')}/`;
  return origin === base.origin && `${pathname}/`.startsWith(folder) && !/(?:\.|%2e){2}/i.test(pathname);
}

/** Returns the values at a path, in order; undefined for a missing one, as in some elements of a list. */
export function valuesAt(value: JsonValue, path: string): (JsonValue | undefined)[] {
  let values: (JsonValue | undefined)[] = [value];
  for (const step of stepsOf(path)) values = values.flatMap((each) => stepIntoAll(each, step));
  return values;
}

function stepIntoAll(value: JsonValue | undefined, step: PathStep): (JsonValue | undefined)[] {
  if (!isEach(step)) return [stepInto(value, step)];
  if (Array.isArray(value)) return value;
  return isObject(value) ? Object.values(value) : [];
}

function parseSize(value: JsonValue | undefined): number | null {
  const size = typeof value === 'string' && /^\d{1,15}$/.test(value) ? Number(value) : value;
  return typeof size === 'number' && Number.isSafeInteger(size) && size >= 0 ? size : null;
}

function parseHash(value: JsonValue | undefined): string | null {
  if (typeof value !== 'string' || isExact(value)) return null;
  const hash = value.replace(/^sha-?256[:-]/i, '').toLowerCase();
  return /^[0-9a-f]{64}$/.test(hash) ? hash : null;
}

/** The query parameters by which clouds and CDNs sign an address for some time. */
const SIGNATURE_PARAMETER =
  /^(?:x-amz-.*|x-goog-.*|awsaccesskeyid|googleaccessid|signature|expires|key-pair-id|policy|sig|se|st|sp|spr|sr|sv|skoid|sktid|skt|ske|sks|skv|hmac|exp|token|verify)$/i;

/** Removes signature and expiry from an address: two addresses that are then equal lead to the same file. */
export function withoutSignature(address: string): string {
  const url = URL.parse(address);
  if (url === null) return address;
  for (const name of new Set(url.searchParams.keys()))
    if (SIGNATURE_PARAMETER.test(name)) url.searchParams.delete(name);
  url.searchParams.sort();
  url.hash = '';
  return url.href;
}
