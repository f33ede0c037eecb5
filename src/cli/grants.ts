import { Command } from 'commander';
import { visibleText } from '../model/visible-text.ts';
import { countText } from '../observe/figures.ts';
import { changeReaders } from '../database/databases.ts';
import type { Readers, ReadersRequest } from '../database/database.ts';
import type { CliContext } from './command/context.ts';
import { forEachSource, sourceCommand, type SourceOptions } from './command/sources.ts';
import { printReport } from './command/output.ts';

/** `content-sync grants`: lets a role of Postgres read the copied tables and views, or the views alone, and nothing that is ours alone. */
export function grantsCommand(context: CliContext): Command {
  return sourceCommand('grants')
    .requiredOption('--role <name>', 'Role that may read; created without a login if missing')
    .option('--views-only', 'Grant the views and not the tables, for later copies too')
    .option('--revoke', 'Revoke the rights; keeps the role')
    .action(async (options: SourceOptions & { role: string; viewsOnly?: true; revoke?: true }) => {
      const { role } = options;
      const request = { role, viewsOnly: options.viewsOnly === true, revoke: options.revoke === true };
      await forEachSource(context, options, [], async ({ source }) => {
        const readers = await changeReaders(source.warehouse, context.clock, request);
        printReport(context, reportOf(source.name, request, readers), textOf(source.name, request, readers));
      });
    });
}

function reportOf(
  source: string,
  { role, revoke }: ReadersRequest,
  { schema, isNew, readable, others }: Readers,
): object {
  return { source, schema, role, revoked: revoke, role_made: isNew, tables: readable, left_out: others };
}

function textOf(
  source: string,
  { role, viewsOnly, revoke }: ReadersRequest,
  { schema, isNew, readable, others }: Readers,
): string {
  const tables = `${countText(readable.length)} ${viewsOnly ? 'views' : 'tables and views'} of schema ${schema}`;
  const lines = revoke
    ? [`${role} may no longer read the ${tables}`]
    : [
        ...(isNew ? [`${role} was made, without a login: GRANT it to those who are to read`] : []),
        `${role} may read the ${tables}, and those that are copied later`,
      ];
  if (others.length > 0) lines.push(`left as they are, because they belong to other roles: ${others.join(', ')}`);
  return lines.map((line) => visibleText(`${source}: ${line}`)).join('\n');
}
