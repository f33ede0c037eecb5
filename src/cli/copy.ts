import { Command } from 'commander';
import { interpolate, readSecretFile } from '../config/file/interpolate.ts';
import {
  addressFault,
  addressSecrets,
  shownAddress,
  sourceAddress,
  warehouseTransportFault,
} from '../config/warehouse-address.ts';
import { findDatabase } from '../database/databases.ts';
import { ConfigError } from '../model/errors.ts';
import { countText } from '../observe/figures.ts';
import { type CopiedTable, copyWarehouse } from '../sync/copy/copy-warehouse.ts';
import { type CliContext, EXIT_CODES } from './command/context.ts';
import { alignedLines, print, printReport } from './command/output.ts';
import { type ChosenSource, forEachSource, sourceCommand, type SourceOptions } from './command/sources.ts';

/** `content-sync copy`: a SQLite warehouse becomes one on Postgres, so that nobody has to backfill again. */
export function copyCommand(context: CliContext): Command {
  return sourceCommand('copy')
    .requiredOption(
      '--to <address>',
      "Target, such as postgres://host/database, with a schema per source; '${VAR}' and '${file:/path}' keep a password off the command line",
    )
    .action(async (options: SourceOptions & { to: string }) => {
      const to = filledIn(context, options.to);
      refuseTarget(to, context.env);
      const code = await forEachSource(context, options, [], async (chosen) => {
        const tables = await copySource(context, chosen, to);
        const source = chosen.source.name;
        printReport(context, { source, tables }, formatReport(source, tables));
      });
      if (code === EXIT_CODES.ok && context.json !== true) print(context, nextSteps(to));
    });
}

/** The address with its variables and files filled in as in the config; none of its secrets is written from here on. */
function filledIn({ env, secrets, stderr }: CliContext, given: string): string {
  const filled = interpolate(given, { env, readSecret: readSecretFile });
  const to = String(filled.value);
  secrets.push(...filled.secrets, ...addressSecrets(to, env));
  const [finding] = filled.findings;
  if (finding !== undefined) throw new ConfigError('usage', `--to: ${finding.message}`);
  if (filled.paths.size === 0 && addressSecrets(to, {}).length > 0) {
    stderr.write(
      "content-sync: --to: every user of this machine can read a password on the command line; write --to '${DATABASE_URL}' in single quotes, or '${file:/path}'\n",
    );
  }
  return to;
}

function refuseTarget(address: string, env: NodeJS.ProcessEnv): void {
  if (typeof findDatabase(address)?.file === 'string') {
    throw new ConfigError('usage', '--to: a SQLite warehouse is a file: it needs no copy command', {
      hint: 'stop content-sync, copy the .db files (with their -wal files, if any), and set `warehouse` to the new path',
    });
  }
  const fault = addressFault(address) ?? warehouseTransportFault(address, env);
  if (fault === null) return;
  throw new ConfigError('usage', `--to: ${fault}, got ${shownAddress(address)}`, {
    hint: "such as --to '${DATABASE_URL}'; the schema is named after the source, or by ?schema=",
  });
}

async function copySource(context: CliContext, { source, log }: ChosenSource, to: string): Promise<CopiedTable[]> {
  const { clock, signal, cwd, stderr } = context;
  return copyWarehouse({
    from: source.warehouse,
    to: sourceAddress(to, source.name, cwd),
    resources: source.resources,
    whole: { ...source.profile, copied: source.resources },
    clock,
    signal,
    onTable: ({ table, rows }) => {
      log.info({ table, rows }, 'copied');
      if (stderr.isTTY === true) stderr.write(`${source.name}: ${table} is copied\n`);
    },
  });
}

function formatReport(source: string, tables: readonly CopiedTable[]): string {
  const lines = alignedLines(tables.map(({ table, rows }) => [`  ${table}`, `${countText(rows)} rows`]));
  return [`${source}: copied, every value compared`, ...lines].join('\n');
}

function nextSteps(to: string): string {
  const lines = [
    'The copy is a warehouse of its own now. To go on there, set in the config:',
    '',
    "  warehouse: '${DATABASE_URL}'",
    '',
    `with DATABASE_URL being ${shownAddress(to)}, and run \`content-sync sync\`. The SQLite files stay as they are.`,
  ];
  return lines.join('\n');
}
