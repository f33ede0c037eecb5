import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { unescape } from 'node:querystring';
import { z } from 'zod';
import { suggestion } from './file/did-you-mean.ts';
import { schemaFault, schemaOf } from './warehouse-schema.ts';

const SQLITE = /^sqlite:(?!\/\/|:memory:)(?:[^{}]|\{source\})+$/;
export const POSTGRES = /^postgres(?:ql)?:\/\//;

/** For editors: `${…}` is filled in before the address is read. */
const ADDRESS_PATTERN = String.raw`^(sqlite:(?!//|:memory:).+|postgres(ql)?://.+|.*\$\{.+)$`;

const POSTGRES_EXPECTED = 'expected postgres://user:password@host:5432/database';
const EXPECTED = `expected sqlite:<path>, where {source} may stand in the path, or ${POSTGRES_EXPECTED.slice('expected '.length)}`;

/** What `pg` reads, and what it leaves alone but providers write into the addresses that they hand out. */
const PARAMETERS = [
  'schema host port user password options application_name fallback_application_name client_encoding',
  'ssl sslmode sslcert sslkey sslrootcert sslnegotiation uselibpqcompat',
  'statement_timeout lock_timeout query_timeout idle_in_transaction_session_timeout connect_timeout',
  'keepalives keepalives_idle target_session_attrs channel_binding gssencmode pgbouncer',
].flatMap((names) => names.split(' '));
const SSL_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full', 'no-verify'];
const SSL_FILES = ['sslcert', 'sslkey', 'sslrootcert'];
/** `pg` checks the certificate and its name in these modes too, and warns that it will no longer do so one day. */
const CHECKED_FULLY = new Set(['prefer', 'require', 'verify-ca']);

/** The setting `warehouse`; its faults show nothing of the value. */
export const warehouseSchema = z
  .string()
  .superRefine((address, context) => {
    const message = addressFault(address);
    if (message !== null) context.addIssue({ code: 'custom', message });
  })
  .meta({
    description:
      'sqlite:<path> or postgres://user:password@host/database; {source} in the path or in ?schema= stands for the name of the source',
    pattern: ADDRESS_PATTERN,
  });

/** Why an address cannot be used, as `expected …` without anything of its value; null where it can. */
export function addressFault(address: string): string | null {
  if (SQLITE.test(address)) return null;
  if (!POSTGRES.test(address)) return EXPECTED;
  const url = URL.parse(address);
  if (url === null || url.hash !== '' || !isDecodable(address)) {
    return `${POSTGRES_EXPECTED} (what is special in a password is percent-encoded: %40 for @, %2F for /)`;
  }
  return POSTGRES_RULES.map((rule) => rule(url)).find((fault) => fault !== null) ?? null;
}

const POSTGRES_RULES: readonly ((url: URL) => string | null)[] = [
  ({ pathname }) => (/^\/[^/]+$/.test(pathname) ? null : `${POSTGRES_EXPECTED}, with one database`),
  ({ host, pathname }) => (/[{}]|%7B/i.test(host + pathname) ? 'expected {source} only in ?schema=' : null),
  ({ searchParams }) => {
    const unknown = [...searchParams.keys()].find((name) => !PARAMETERS.includes(name));
    return unknown === undefined ? null : `expected parameters that are known${suggestion(unknown, PARAMETERS)}`;
  },
  ({ searchParams }) => {
    const mode = searchParams.get('sslmode');
    return mode === null || SSL_MODES.includes(mode) ? null : `expected sslmode as one of ${SSL_MODES.join(', ')}`;
  },
  ({ searchParams }) => {
    const missing = SSL_FILES.find((name) => searchParams.has(name) && !existsSync(searchParams.get(name) ?? ''));
    return missing === undefined ? null : `expected a readable file in ${missing}`;
  },
  ({ searchParams }) => schemaFault(searchParams.get('schema')),
];

/** Where one source's rows go: `sqlite:` and an absolute path, or `postgres://…?schema=…`. */
export function sourceAddress(address: string, source: string, cwd: string): string {
  if (!POSTGRES.test(address)) {
    return `sqlite:${resolve(cwd, address.slice('sqlite:'.length).replaceAll('{source}', source))}`;
  }
  const url = postgresUrl(address);
  const { searchParams } = url;
  if (!searchParams.has('uselibpqcompat') && CHECKED_FULLY.has(searchParams.get('sslmode') ?? '')) {
    searchParams.set('sslmode', 'verify-full');
  }
  searchParams.set('schema', schemaOf(searchParams.get('schema'), source));
  return url.href;
}

/** How the schemas of sources are named; undefined for a database without them, null where nothing is said. */
export function schemaTemplate(address: string): string | null | undefined {
  return POSTGRES.test(address) ? postgresUrl(address).searchParams.get('schema') : undefined;
}

/** Words that stand in every message about Postgres, also where somebody took one of them for a password. */
const OUR_WORDS = new Set(['postgres', 'postgresql']);

/** All of an address that must not be written, also of one that is no address: the password in each form, and the whole. */
export function addressSecrets(address: string, env: NodeJS.ProcessEnv): string[] {
  if (!POSTGRES.test(address)) return [];
  const url = URL.parse(address);
  const asWritten = [
    /^[^:]+:\/\/[^:/?#]*:([^/?#]*)@/.exec(address)?.[1] ?? '',
    /[?&]password=([^&]*)/.exec(address)?.[1] ?? '',
  ];
  const forms = [
    ...asWritten,
    ...asWritten.map(unescape),
    url?.password ?? '',
    url?.searchParams.get('password') ?? '',
  ];
  const own = forms.filter((form) => form !== '');
  const outside = env['PGPASSWORD'] ?? '';
  const passwords = [...own, outside].filter((text) => text !== '' && !OUR_WORDS.has(text));
  return [...new Set([...passwords, ...(own.length === 0 ? [] : [address])])];
}

/** An address for a message: without whatever may be a credential in it, also where it is written wrongly. */
export function shownAddress(address: string): string {
  const scheme = /^([a-z][a-z0-9+]*):/i.exec(address)?.[1];
  if (scheme === 'sqlite' || (scheme === undefined && /^[\w./{}-]*$/.test(address))) return address;
  if (scheme === undefined) return '***';
  if (!address.startsWith(`${scheme}://`) || URL.parse(address) === null) return `${scheme}:***`;
  // To the last @: one that belongs to the password may stand there as it is.
  return address.replace(/\/\/.*@/s, '//***@').replace(/[?#].*$/s, '?***');
}

export function postgresUrl(address: string): URL {
  return new URL(address.replace(POSTGRES, 'postgres://'));
}

/** `unescape` puts U+FFFD where `decodeURIComponent`, which `pg` calls, would throw. */
function isDecodable(text: string): boolean {
  return !/%(?![0-9a-f]{2})/i.test(text) && !unescape(text).includes('\uFFFD');
}
