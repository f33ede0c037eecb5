import { Command } from 'commander';
import { ConfigError } from '../model/errors.ts';
import { countText } from '../observe/figures.ts';
import { interpolate } from '../config/file/interpolate.ts';
import { readSecretFile } from '../config/file/secret-fields.ts';
import {
  warehouseTransportFault,
  addressFault,
  addressSecrets,
  shownAddress,
  sourceAddress,
} from '../config/warehouse-address.ts';
import { copyWarehouse, type CopiedTable } from '../sync/copy-warehouse.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES } from './command/exit-code.ts';
import { forEachSource, type ChosenSource, withSourceOptions, type SourceOptions } from './command/sources.ts';
import { alignedLines, print } from './command/output.ts';
import { findDatabase } from '../database/databases.ts';

/** `content-sync copy`: a SQLite warehouse becomes one on Postgres, so that nobody has to backfill again. */
export function copyCommand(context: CliContext): Command {
  return withSourceOptions(new Command('copy'))
    .requiredOption(
      '--to <address>',
      "where to: postgres://host/database, a schema per source; '${VAR}' and '${file:/path}' are filled in, which keeps a password off the command line",
    )
    .option('--json', 'print one JSON object per source on stdout')
    .action(async (options: SourceOptions & { to: string; json?: true }) => {
      const to = filledIn(context, options.to);
      refuseTarget(to, context.env);
      const code = await forEachSource(context, options, [], async (chosen) => {
        const tables = await copySource(context, chosen, to);
        if (options.json === true) print(context, { source: chosen.source.name, tables });
        else print(context, formatReport(chosen.source.name, tables));
      });
      if (code === EXIT_CODES.ok && options.json === undefined) print(context, nextSteps(to));
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
