import { existsSync } from 'node:fs';
import { unescape } from 'node:querystring';
import { suggestion } from '../file/did-you-mean.ts';
import { isLoopback } from '../loopback.ts';
import type { AddressGrammar } from './grammar.ts';

const POSTGRES = /^postgres(?:ql)?:\/\//;
const EXPECTED = 'postgres://user:password@host:5432/database';

/** Parameters that `pg` reads, and others that it ignores but providers write into the addresses that they hand out. */
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

const SCHEMA_NAME = /^[a-z_][a-z0-9_]*$/;
/** Bytes of an identifier; Postgres cuts off more without a word. */
const LONGEST_NAME = 63;
/** Postgres's own schemas, and those that all processes of content-sync share. */
const TAKEN_SCHEMA = /^(?:pg_.*|information_schema|content_sync.*)$/;
const PLACEHOLDER = '{source}';

/** `postgres://user:password@host/database`; `{source}` in `?schema=` stands for the name of the source. */
export const postgresGrammar: AddressGrammar = {
  pattern: POSTGRES,
  editorPattern: 'postgres(ql)?://.+',
  expected: EXPECTED,
  fault: (address) => {
    const url = URL.parse(address);
    if (url === null || url.hash !== '' || !isDecodable(address)) {
      return `expected ${EXPECTED} (what is special in a password is percent-encoded: %40 for @, %2F for /)`;
    }
    return RULES.map((rule) => rule(url)).find((fault) => fault !== null) ?? null;
  },
  ofSource: (address, source) => {
    const url = urlOf(address);
    const { searchParams } = url;
    if (!searchParams.has('uselibpqcompat') && CHECKED_FULLY.has(searchParams.get('sslmode') ?? '')) {
      searchParams.set('sslmode', 'verify-full');
    }
    searchParams.set('schema', schemaOf(searchParams.get('schema'), source));
    return url.href;
  },
  folder: () => null,
  place: { what: 'schema', where: 'schema' },
  hasPlacePerSource: (address) => templateOf(address)?.includes(PLACEHOLDER) ?? true,
  sourceFault: (address, source, all) => {
    const template = templateOf(address);
    const schema = schemaOf(template, source);
    // Only an address that says `public` means it.
    const isTaken = TAKEN_SCHEMA.test(schema) || (schema === 'public' && template !== 'public');
    if (isTaken) return `expected another name, because the schema ${schema} is not for sources`;
    if (schema.length > LONGEST_NAME) {
      return `expected a shorter name, because a schema has at most ${LONGEST_NAME} characters`;
    }
    const other = all.find((name) => name !== source && schemaOf(template, name) === schema);
    return other === undefined ? null : `expected another name, because ${other} has the schema ${schema} too`;
  },
  transportFault: (address, env) => {
    const { hostname, searchParams } = urlOf(address);
    const isSaid = ['sslmode', 'ssl'].some((name) => searchParams.has(name)) || (env['PGSSLMODE'] ?? '') !== '';
    const host = searchParams.get('host') || decodeURIComponent(hostname) || env['PGHOST'] || 'localhost';
    // A socket has a path for its name.
    if (isSaid || host.startsWith('/') || isLoopback(host)) return null;
    return 'expected sslmode in the address, because rows and password would go readable over the network: sslmode=verify-full, or sslmode=disable where the way to the server is safe';
  },
  secrets: (address, env) => {
    const own = passwordForms(address);
    const passwords = [...own, env['PGPASSWORD'] ?? ''].filter((text) => text !== '' && !OUR_WORDS.has(text));
    return [...new Set([...passwords, ...(own.length === 0 ? [] : [address])])];
  },
};

const RULES: readonly ((url: URL) => string | null)[] = [
  ({ pathname }) => (/^\/[^/]+$/.test(pathname) ? null : `expected ${EXPECTED}, with one database`),
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
  ({ searchParams }) => {
    const name = searchParams.get('schema')?.replaceAll(PLACEHOLDER, 'a');
    if (name === undefined) return null;
    if (!SCHEMA_NAME.test(name)) return 'expected a schema of lower-case letters, digits, _ and {source}';
    return TAKEN_SCHEMA.test(name) ? 'expected a schema other than those of Postgres and of content-sync itself' : null;
  },
];

/** Words that stand in every message about Postgres, also if somebody took one of them for a password. */
const OUR_WORDS = new Set(['postgres', 'postgresql']);

/** The password in each spelling that the address may lead to, also if it is no valid address. */
function passwordForms(address: string): string[] {
  const url = URL.parse(address);
  const asWritten = [
    /^[^:]+:\/\/[^:/?#]*:([^/?#]*)@/.exec(address)?.[1] ?? '',
    /[?&]password=([^&]*)/.exec(address)?.[1] ?? '',
  ];
  const decoded = [url?.password ?? '', url?.searchParams.get('password') ?? ''];
  return [...asWritten, ...asWritten.map(unescape), ...decoded].filter((form) => form !== '');
}

/** How the schemas of sources are named; null if the address does not say. */
function templateOf(address: string): string | null {
  return urlOf(address).searchParams.get('schema');
}

/** The schema of a source: by default its own name, as SQL writes it without quotes. */
function schemaOf(template: string | null, source: string): string {
  return (template ?? PLACEHOLDER).replaceAll(PLACEHOLDER, source.replaceAll('-', '_'));
}

function urlOf(address: string): URL {
  return new URL(address.replace(POSTGRES, 'postgres://'));
}

/** `unescape` puts U+FFFD where `decodeURIComponent`, which `pg` calls, would throw. */
function isDecodable(text: string): boolean {
  return !/%(?![0-9a-f]{2})/i.test(text) && !unescape(text).includes('\uFFFD');
}
