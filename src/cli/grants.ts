import { Command } from 'commander';
import { visibleText } from '../model/visible-text.ts';
import { countText } from '../observe/figures.ts';
import { changeReaders } from '../database/databases.ts';
import type { Readers, ReadersRequest } from '../database/database.ts';
import type { CliContext } from './command/context.ts';
import { forEachSource, withSourceOptions, type SourceOptions } from './command/sources.ts';
import { print } from './command/output.ts';

/** `content-sync grants`: lets a role of Postgres read the copied tables and views, or the views alone, and nothing that is ours alone. */
export function grantsCommand(context: CliContext): Command {
  return withSourceOptions(new Command('grants'))
    .requiredOption('--role <name>', 'the role that is to read; made, without a login, where it is missing')
    .option('--views-only', 'the views and not the tables, also of what is copied later')
    .option('--revoke', 'take the rights away again; the role itself stays')
    .option('--json', 'print one JSON object per source on stdout')
    .action(async (options: SourceOptions & { role: string; viewsOnly?: true; revoke?: true; json?: true }) => {
      const { role, json } = options;
      const request = { role, viewsOnly: options.viewsOnly === true, revoke: options.revoke === true };
      await forEachSource(context, options, [], async ({ source }) => {
        const readers = await changeReaders(source.warehouse, context.clock, request);
        print(context, json === true ? reportOf(source.name, request, readers) : textOf(source.name, request, readers));
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
