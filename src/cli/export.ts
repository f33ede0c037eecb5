import { Command } from 'commander';
import type { CliContext } from './command/context.ts';
import { dbtCommand } from './export/dbt/dbt.ts';
import { deploymentCommand } from './export/deployment.ts';
import { monitoringCommand } from './export/monitoring.ts';
import { exportTablesCommand } from './export-tables.ts';

/** What can be exported, in the order of the help. A new kind is a command in a file of its own and a line here. */
const EXPORTS: readonly ((context: CliContext) => Command)[] = [
  (context) => exportTablesCommand(context, 'parquet'),
  (context) => exportTablesCommand(context, 'csv'),
  (context) => exportTablesCommand(context, 'ndjson'),
  dbtCommand,
  deploymentCommand,
  monitoringCommand,
];

/** `content-sync export`: the warehouse for other tools, as files; the warehouse itself is only read. */
export function exportCommand(context: CliContext): Command {
  const command = new Command('export').helpCommand(false);
  for (const make of EXPORTS) command.addCommand(make(context));
  return command;
}
