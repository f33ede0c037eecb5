import { dirname, resolve } from 'node:path';
import { z } from 'zod';
import type { AddressGrammar } from './address/grammar.ts';
import { postgresGrammar } from './address/postgres.ts';

/** For somebody who has not chosen yet: a file per source, below the folder in which content-sync is started. */
export const USUAL_WAREHOUSE = 'sqlite:data/{source}.db';

/** Parts of an address, by the kind of database. */
interface AddressKinds {
  sqlite: { readonly file: string };
  postgres: {
    /** The address itself; may hold a password. */
    readonly text: string;
    /** The same as a connection string that the driver takes, without anything of ours. */
    readonly connection: string;
    /** The schema of the source. */
    readonly schema: string;
  };
}

export type DatabaseKind = keyof AddressKinds;

/** The place of one source's rows. */
export type WarehouseAddress<Kind extends DatabaseKind = DatabaseKind> = {
  [Each in Kind]: { readonly kind: Each } & AddressKinds[Each];
}[Kind];

const READERS: { readonly [Kind in DatabaseKind]: (rest: string) => WarehouseAddress<Kind> | null } = {
  sqlite: (file) => ({ kind: 'sqlite', file }),
  postgres: (rest) => {
    const url = URL.parse(`postgres:${rest}`);
    if (url === null) return null;
    const schema = url.searchParams.get('schema') ?? 'public';
    url.searchParams.delete('schema');
    return { kind: 'postgres', text: `postgres:${rest}`, connection: url.href, schema };
  },
};

/** The part before the colon. */
export const SCHEMES: Readonly<Record<string, DatabaseKind>> = {
  sqlite: 'sqlite',
  postgres: 'postgres',
  postgresql: 'postgres',
};

/** Reads an address as `sourceAddress` writes it; null if no database is known by it. The only place that does so. */
export function readAddress(address: string): WarehouseAddress | null {
  const [, scheme = '', rest = ''] = /^([a-z]+):(.*)$/s.exec(address) ?? [];
  const kind = SCHEMES[scheme];
  return kind === undefined ? null : READERS[kind](rest);
}

/** `sqlite:<path>`; `{source}` in the path stands for the name of the source. */
const sqliteGrammar: AddressGrammar = {
  pattern: /^sqlite:(?!\/\/|:memory:)(?:[^{}]|\{source\})+$/,
  editorPattern: 'sqlite:(?!//|:memory:).+',
  expected: 'sqlite:<path>, where {source} may stand in the path',
  fault: () => null,
  ofSource: (address, source, cwd) =>
    `sqlite:${resolve(cwd, address.slice('sqlite:'.length).replaceAll('{source}', source))}`,
  folder: (address, cwd) => {
    const [constant = ''] = address.slice('sqlite:'.length).split('{source}');
    return dirname(resolve(cwd, `${constant}_`));
  },
  place: { what: 'file', where: 'path' },
  hasPlacePerSource: (address) => address.includes('{source}'),
  sourceFault: () => null,
  transportFault: () => null,
  secrets: () => [],
};

/** How the setting is written, by kind: a further database is a further entry. */
const GRAMMARS: Readonly<Record<DatabaseKind, AddressGrammar>> = { sqlite: sqliteGrammar, postgres: postgresGrammar };
const ALL = Object.values(GRAMMARS);

/** The grammar of the kind of database that an address is meant for; undefined if it is meant for none. */
export function grammarOf(address: string): AddressGrammar | undefined {
  return ALL.find(({ pattern }) => pattern.test(address));
}

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
    // `${…}` is filled in before the address is read.
    pattern: String.raw`^(${ALL.map(({ editorPattern }) => editorPattern).join('|')}|.*\$\{.+)$`,
  });

/** Why an address cannot be used, as `expected …` without anything of its value; null if it can. */
export function addressFault(address: string): string | null {
  const grammar = grammarOf(address);
  if (grammar === undefined) return `expected ${ALL.map(({ expected }) => expected).join(', or ')}`;
  return grammar.fault(address);
}

/** Where one source's rows go: `sqlite:` and an absolute path, or `postgres://…?schema=…`. */
export function sourceAddress(address: string, source: string, cwd: string): string {
  return grammarOf(address)?.ofSource(address, source, cwd) ?? address;
}

/**
 * Why rows and password would go readable over the network, as `expected …` without anything of the address; null if
 * they would not, or if the address says that they may. `env` as the driver reads it.
 */
export function warehouseTransportFault(address: string, env: NodeJS.ProcessEnv): string | null {
  return grammarOf(address)?.transportFault(address, env) ?? null;
}

/** All of an address that must not be written, also of one that is no address: the password in each form, and the whole. */
export function addressSecrets(address: string, env: NodeJS.ProcessEnv): string[] {
  return grammarOf(address)?.secrets(address, env) ?? [];
}

/** An address for a message: without whatever may be a credential in it, also if it is written wrongly. */
export function shownAddress(address: string): string {
  const scheme = /^([a-z][a-z0-9+]*):/i.exec(address)?.[1];
  if (scheme === 'sqlite' || (scheme === undefined && /^[\w./{}-]*$/.test(address))) return address;
  if (scheme === undefined) return '***';
  if (!address.startsWith(`${scheme}://`) || URL.parse(address) === null) return `${scheme}:***`;
  // To the last @: one that belongs to the password may stand there as it is.
  return address.replace(/\/\/.*@/s, '//***@').replace(/[?#].*$/s, '?***');
}
