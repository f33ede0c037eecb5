/**
 * The setting `warehouse`: `sqlite:data/{source}.db` is a file per source, `postgres://...` a database with a schema per
 * source. While settings are loaded, this file finds faults and secrets in the setting, and makes the address of each
 * source's database (`sourceAddress`). To open a database, its address is parsed again (`readAddress`).
 */
import { existsSync } from 'node:fs';
import { isIP } from 'node:net';
import { dirname, resolve } from 'node:path';
import { unescape } from 'node:querystring';
import { z } from 'zod';

/** The default that `init` proposes: a file per source, below the working directory. */
export const DEFAULT_WAREHOUSE = 'sqlite:data/{source}.db';

/** The address of the SQLite file of a source. */
interface SqliteAddress {
  readonly kind: 'sqlite';
  readonly file: string;
}

/** The address of the schema of a source in a Postgres database. */
interface PostgresSchemaAddress {
  readonly kind: 'postgres';
  /** The address; it may contain a password. */
  readonly text: string;
  /** Connection string for the driver, without `schema`. */
  readonly connection: string;
  /** The schema of the source. */
  readonly schema: string;
}

export type DatabaseKind = 'sqlite' | 'postgres';

/** The address of one source's database. */
export type WarehouseAddress<Kind extends DatabaseKind = DatabaseKind> = Extract<
  SqliteAddress | PostgresSchemaAddress,
  { kind: Kind }
>;

/** The kind of database by the scheme of the address. */
export const SCHEMES: Readonly<Record<string, DatabaseKind>> = {
  sqlite: 'sqlite',
  postgres: 'postgres',
  postgresql: 'postgres',
};

/** Parses an address that `sourceAddress` returned; null if it is no address of a database. */
export function readAddress(address: string): WarehouseAddress | null {
  const [, scheme = '', rest = ''] = /^([a-z]+):(.*)$/s.exec(address) ?? [];
  const kind = SCHEMES[scheme];
  if (kind === 'sqlite') return { kind, file: rest };
  const url = kind === undefined ? null : URL.parse(`postgres:${rest}`);
  if (kind === undefined || url === null) return null;
  const schema = url.searchParams.get('schema') ?? 'public';
  url.searchParams.delete('schema');
  return { kind, text: `postgres:${rest}`, connection: url.href, schema };
}

/** `{source}` in the path is replaced by the name of the source. */
const SQLITE = /^sqlite:(?!\/\/|:memory:)(?:[^{}]|\{source\})+$/;
/** `{source}` in `?schema=` is replaced by the name of the source. */
const POSTGRES = /^postgres(?:ql)?:\/\//;
const PLACEHOLDER = '{source}';
const EXPECTED = 'postgres://user:password@host:5432/database';

/** Returns the kind of database that the setting names; undefined if it names none. */
function settingKind(address: string): DatabaseKind | undefined {
  if (SQLITE.test(address)) return 'sqlite';
  return POSTGRES.test(address) ? 'postgres' : undefined;
}

/** The setting `warehouse`; its errors contain nothing of the value. */
export const warehouseSchema = z
  .string()
  .superRefine((address, context) => {
    const message = addressFault(address);
    if (message !== null) context.addIssue({ code: 'custom', message });
  })
  .meta({
    description:
      '`sqlite:<path>` or `postgres://user:password@host/database`; {source} in the path or in ?schema= is the name of the source',
    // `${…}` is filled in before the address is read.
    pattern: String.raw`^(sqlite:(?!//|:memory:).+|postgres(ql)?://.+|.*\$\{.+)$`,
  });

/** Returns the fault of the setting as `expected …` without its value; null if it is valid. */
function addressFault(address: string): string | null {
  const kind = settingKind(address);
  if (kind === undefined) return `expected sqlite:<path>, where {source} may stand in the path, or ${EXPECTED}`;
  if (kind === 'sqlite') return null;
  const url = URL.parse(address);
  if (url === null || url.hash !== '' || !isDecodable(address)) {
    return `expected ${EXPECTED} (what is special in a password is percent-encoded: %40 for @, %2F for /)`;
  }
  return postgresFault(url);
}

/** Parameters that `pg` reads, and those that it ignores but that addresses from providers contain. */
const PARAMETERS = [
  'schema host port user password options application_name fallback_application_name client_encoding',
  'ssl sslmode sslcert sslkey sslrootcert sslnegotiation uselibpqcompat',
  'statement_timeout lock_timeout query_timeout idle_in_transaction_session_timeout connect_timeout',
  'keepalives keepalives_idle target_session_attrs channel_binding gssencmode pgbouncer',
].flatMap((names) => names.split(' '));
const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];
const SSL_FILES = ['sslcert', 'sslkey', 'sslrootcert'];
/** `pg` treats these modes as `verify-full`, and warns that a later version will not. */
const FULLY_VERIFIED_MODES = new Set(['prefer', 'require', 'verify-ca']);

const SCHEMA_NAME = /^[a-z_][a-z0-9_]*$/;
/** Postgres truncates longer identifiers without an error. */
const MAX_SCHEMA_NAME_LENGTH = 63;
/** Schemas of Postgres, and those that processes of content-sync share. */
const RESERVED_SCHEMA = /^(?:pg_.*|information_schema|content_sync.*)$/;

function postgresFault({ host, pathname, searchParams }: URL): string | null {
  if (!/^\/[^/]+$/.test(pathname)) return `expected ${EXPECTED}, with one database`;
  if (/[{}]|%7B/i.test(host + pathname)) return 'expected {source} only in ?schema=';
  if (!searchParams.keys().every((name) => PARAMETERS.includes(name))) {
    return `expected only the parameters ${PARAMETERS.join(', ')}`;
  }
  const mode = searchParams.get('sslmode');
  if (mode !== null && !SSL_MODES.includes(mode)) return `expected sslmode as one of ${SSL_MODES.join(', ')}`;
  const missing = SSL_FILES.find((name) => searchParams.has(name) && !existsSync(searchParams.get(name) ?? ''));
  if (missing !== undefined) return `expected a readable file in ${missing}`;
  const schema = searchParams.get('schema')?.replaceAll(PLACEHOLDER, 'a');
  if (schema === undefined) return null;
  if (!SCHEMA_NAME.test(schema)) return 'expected a schema of lower-case letters, digits, _ and {source}';
  return RESERVED_SCHEMA.test(schema)
    ? 'expected a schema other than those of Postgres and of content-sync itself'
    : null;
}

/** True if `decodeURIComponent`, which `pg` calls, does not throw: then `unescape` has no replacement character. */
function isDecodable(text: string): boolean {
  return !/%(?![0-9a-f]{2})/i.test(text) && !unescape(text).includes('\uFFFD');
}

/** Returns the address of the database of a source: `sqlite:` and an absolute path, or `postgres://…?schema=…`. */
export function sourceAddress(address: string, source: string, cwd: string): string {
  const kind = settingKind(address);
  if (kind === 'sqlite') return `sqlite:${resolve(cwd, sqlitePath(address).replaceAll(PLACEHOLDER, source))}`;
  if (kind === undefined) return address;
  const url = toUrl(address);
  const { searchParams } = url;
  if (!searchParams.has('uselibpqcompat') && FULLY_VERIFIED_MODES.has(searchParams.get('sslmode') ?? '')) {
    searchParams.set('sslmode', 'verify-full');
  }
  searchParams.set('schema', schemaName(searchParams.get('schema'), source));
  return url.href;
}

function sqlitePath(address: string): string {
  return address.slice('sqlite:'.length);
}

/** Returns the folder with the SQLite files of all sources; null for Postgres. */
export function warehouseFolder(address: string, cwd: string): string | null {
  if (settingKind(address) !== 'sqlite') return null;
  const [constant = ''] = sqlitePath(address).split(PLACEHOLDER);
  return dirname(resolve(cwd, `${constant}_`));
}

/** Returns the fault of a setting by which several sources would share a file or schema; null if there is none. */
export function sharingFault(address: string): string | null {
  const kind = settingKind(address);
  if (kind === undefined) return null;
  const isShared =
    kind === 'sqlite' ? !address.includes(PLACEHOLDER) : schemaTemplate(address)?.includes(PLACEHOLDER) === false;
  if (!isShared) return null;
  const [part, what] = kind === 'sqlite' ? ['path', 'file'] : ['schema', 'schema'];
  return `expected {source} in the ${part}, because each of several sources has its own ${what}, got none`;
}

/** Returns the fault of a source whose schema is reserved or that of another source; `all` are the names of all sources. */
export function sourceNameFault(address: string, source: string, all: readonly string[]): string | null {
  if (settingKind(address) !== 'postgres') return null;
  const template = schemaTemplate(address);
  const schema = schemaName(template, source);
  // `public` is allowed only if the address names it.
  const isReserved = RESERVED_SCHEMA.test(schema) || (schema === 'public' && template !== 'public');
  if (isReserved) return `expected another name, because the schema ${schema} is not for sources`;
  if (schema.length > MAX_SCHEMA_NAME_LENGTH) {
    return `expected a shorter name, because a schema has at most ${MAX_SCHEMA_NAME_LENGTH} characters`;
  }
  const other = all.find((name) => name !== source && schemaName(template, name) === schema);
  return other === undefined ? null : `expected another name, because ${other} has the schema ${schema} too`;
}

/** Returns the fault of a connection to another host if the setting does not say whether it is encrypted; else null. */
export function warehouseTransportFault(address: string, env: NodeJS.ProcessEnv): string | null {
  if (settingKind(address) !== 'postgres') return null;
  const { hostname, searchParams } = toUrl(address);
  const saysEncryption = ['sslmode', 'ssl'].some((name) => searchParams.has(name)) || (env['PGSSLMODE'] ?? '') !== '';
  const host = searchParams.get('host') || decodeURIComponent(hostname) || env['PGHOST'] || 'localhost';
  // The host of a Unix socket is a path.
  if (saysEncryption || host.startsWith('/') || isLoopback(host)) return null;
  return 'expected sslmode in the address, because rows and password would go readable over the network: sslmode=verify-full, or sslmode=disable where the way to the server is safe';
}

/** Returns texts that must not be logged: the password in each encoding and the address, even if that is invalid. */
export function addressSecrets(address: string, env: NodeJS.ProcessEnv): string[] {
  if (settingKind(address) !== 'postgres') return [];
  const passwordsInAddress = passwordSpellings(address);
  const passwords = [...passwordsInAddress, env['PGPASSWORD'] ?? ''].filter(
    (text) => text !== '' && !COMMON_WORDS.has(text),
  );
  return [...new Set([...passwords, ...(passwordsInAddress.length === 0 ? [] : [address])])];
}

/** These are not masked, even if one is the password, because every message about Postgres contains them. */
const COMMON_WORDS = new Set(['postgres', 'postgresql']);

/** Returns the password as it is written and decoded. */
function passwordSpellings(address: string): string[] {
  const url = URL.parse(address);
  const asWritten = [
    /^[^:]+:\/\/[^:/?#]*:([^/?#]*)@/.exec(address)?.[1] ?? '',
    /[?&]password=([^&]*)/.exec(address)?.[1] ?? '',
  ];
  const decoded = [url?.password ?? '', url?.searchParams.get('password') ?? ''];
  return [...asWritten, ...asWritten.map(unescape), ...decoded].filter((form) => form !== '');
}

/** Returns `?schema=` of the address; null if absent. */
function schemaTemplate(address: string): string | null {
  return toUrl(address).searchParams.get('schema');
}

/** Returns the schema of a source; by default its name, as an unquoted SQL identifier. */
function schemaName(template: string | null, source: string): string {
  return (template ?? PLACEHOLDER).replaceAll(PLACEHOLDER, source.replaceAll('-', '_'));
}

function toUrl(address: string): URL {
  return new URL(address.replace(POSTGRES, 'postgres://'));
}

/** Formats an address for a message, without anything that may be a credential, even if it is invalid. */
export function shownAddress(address: string): string {
  const scheme = /^([a-z][a-z0-9+]*):/i.exec(address)?.[1];
  if (scheme === 'sqlite' || (scheme === undefined && /^[\w./{}-]*$/.test(address))) return address;
  if (scheme === undefined) return '***';
  if (!address.startsWith(`${scheme}://`) || URL.parse(address) === null) return `${scheme}:***`;
  // Up to the last @, because a password may contain an unescaped one.
  return address.replace(/\/\/.*@/s, '//***@').replace(/[?#].*$/s, '?***');
}

/** True for host names and addresses of this machine, as URLs write them. */
export function isLoopback(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase();
  if (isIP(bare) === 4) return bare.startsWith('127.');
  return bare === '::1' || bare.startsWith('::ffff:7f') || bare === 'localhost' || bare.endsWith('.localhost');
}
