// Translates errors of Postgres and the network into errors with a code and a hint.
import { ConfigError, errorCode, messageOf, SyncError } from '../../../model/errors.ts';

/**
 * How to recover: `replay` the whole transaction at once after a conflict with another one; wait for the `server` and
 * then replay; or not at all.
 */
type Remedy = 'replay' | 'server' | 'none';

interface ErrorRow {
  /** Prefixes of the SQLSTATE, or of Node's own code. */
  prefixes: readonly string[];
  /** The message must match too, because the code alone is ambiguous. */
  andMessage?: RegExp;
  /** Matches the message of errors of `pg` itself, which have no code. */
  codelessMessage?: RegExp;
  code: string;
  hint: string;
  remedy?: Exclude<Remedy, 'none'>;
  /** True if every run fails until an operator has changed something. */
  config?: true;
}

/** Error codes and their meaning for the operator; the first row that matches counts. Source: Postgres, appendix A. */
const ERRORS: readonly ErrorRow[] = [
  {
    // PgBouncer's message.
    prefixes: ['08P01'],
    andMessage: /statement pooling mode/,
    code: 'warehouse_unusable',
    hint: 'the pooler lends its connections for one statement each, and a page is one transaction: set pool_mode = transaction for this database, or give the address of the server itself',
    config: true,
  },
  {
    prefixes: ['40001', '40P01', '55P03', '23505'],
    code: 'warehouse_busy',
    hint: 'other sessions were in the way again and again: see pg_stat_activity, then run the same command again',
    remedy: 'replay',
  },
  {
    prefixes: ['53100', '53200'],
    code: 'warehouse_full',
    hint: 'the server has no room left (disk or memory): make room and run the same command again: it resumes where it stopped',
  },
  {
    prefixes: ['53300', '53400'],
    code: 'warehouse_busy',
    hint: 'the server has no connection left: raise max_connections, close others, or put a pooler before it',
    remedy: 'server',
  },
  {
    prefixes: ['25006', '25P03', '57P01', '57P02', '57P03', '08', '58'],
    codelessMessage:
      /connection terminated|connection ended|not queryable|timeout exceeded when trying to connect|query read timeout|server closed/i,
    code: 'warehouse_unreachable',
    hint: 'the server is restarting, read-only or gone: see its log; then run the same command again: it resumes where it stopped',
    remedy: 'server',
  },
  {
    prefixes: ['ECONN', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'EAI_AGAIN', 'ENOENT'],
    code: 'warehouse_unreachable',
    hint: 'check host and port in `warehouse`, and that the server runs and accepts this machine',
    remedy: 'server',
  },
  {
    prefixes: ['54'],
    code: 'warehouse_refused',
    hint: 'a value or a row is larger than the server holds, most often in an index that somebody made: drop that index, or index an expression',
  },
  {
    prefixes: ['57014'],
    code: 'warehouse_busy',
    hint: 'a statement took longer than it may: see pg_stat_activity for what holds it up, then run the same command again',
  },
  {
    prefixes: ['ENOTFOUND'],
    code: 'warehouse_unreachable',
    hint: 'check the host name in `warehouse`',
    config: true,
  },
  {
    prefixes: ['CERT_', 'SELF_SIGNED', 'DEPTH_ZERO', 'UNABLE_TO', 'HOSTNAME_MISMATCH', 'ERR_TLS', 'ERR_SSL', 'EPROTO'],
    codelessMessage: /does not support SSL|establishing an SSL connection/,
    code: 'warehouse_unusable',
    hint: 'see `sslmode` in `warehouse`: name the authority of the certificate in sslrootcert or NODE_EXTRA_CA_CERTS, or say sslmode=no-verify or disable where the way to the server is safe',
    config: true,
  },
  {
    prefixes: ['28', '3D000'],
    // For example if the server requests a password and there is none.
    codelessMessage: /^SASL/,
    code: 'warehouse_refused',
    hint: 'check user, password and database name in `warehouse`, and pg_hba.conf on the server',
    config: true,
  },
  {
    prefixes: ['42501'],
    code: 'warehouse_refused',
    hint: 'the role needs CREATE on the database (GRANT CREATE ON DATABASE ... TO ...) and must own the schemas that it writes to; to read alone it needs USAGE on the schema and SELECT on all tables in it',
    config: true,
  },
];

/** Translates errors of Postgres and the network; returns any other error (a bug) unchanged. */
export function databaseError(error: unknown, shown: string): unknown {
  const row = findErrorRow(error);
  if (row === undefined || error instanceof SyncError) return error;
  const message = `${shown}: ${messageOf(error)} (${errorCode(error) || 'no code'})`;
  return row.config === true
    ? new ConfigError(row.code, message, { hint: row.hint, cause: error })
    : new SyncError(row.code, message, { recovery: 'stop', hint: row.hint, cause: error });
}

export function remedyOf(error: unknown): Remedy {
  return findErrorRow(error)?.remedy ?? 'none';
}

function findErrorRow(error: unknown): ErrorRow | undefined {
  const code = errorCode(error);
  if (code === '') return ERRORS.find(({ codelessMessage }) => codelessMessage?.test(messageOf(error)));
  return ERRORS.find(
    ({ prefixes, andMessage }) =>
      prefixes.some((prefix) => code.startsWith(prefix)) &&
      (andMessage === undefined || andMessage.test(messageOf(error))),
  );
}
