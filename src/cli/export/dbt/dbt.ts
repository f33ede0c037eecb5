import path from 'node:path';
import { Command } from 'commander';
import { ConfigError, messageOf } from '../../../model/errors.ts';
import { visibleText } from '../../../model/visible-text.ts';
import { countOf } from '../../../observe/figures.ts';
import { scrubOwn } from '../../../observe/scrub.ts';
import { readDictionary } from '../../../serve/dictionary/read-dictionary.ts';
import { scrubTexts } from '../../../serve/dictionary/scrub-texts.ts';
import { databaseAt, openWarehouseToRead } from '../../../warehouse/databases.ts';
import type { CliContext } from '../../command/context.ts';
import { EXIT_CODES } from '../../command/exit-code.ts';
import { print } from '../../command/output.ts';
import { forEachSource, withSourceOptions, type ChosenSource, type SourceOptions } from '../../command/sources.ts';
import { whileOpen } from '../../command/with-app.ts';
import type { DbtSource } from './described-source.ts';
import { maxAge } from './max-age.ts';
import { plainName } from './names.ts';
import { readStates } from './read-states.ts';
import { writeOwnedFiles, type WrittenFiles } from '../owned-files.ts';
import { projectFiles } from './project-files.ts';

type Options = SourceOptions & { force?: true; json?: true };

/** `content-sync export dbt`: a dbt project on the views of the copy; asks only the warehouse. */
export function dbtCommand(context: CliContext): Command {
  return withSourceOptions(new Command('dbt'))
    .description('a dbt project on the live views: sources, staging models, tests, freshness')
    .argument('<dir>', 'its folder; files in it that were changed by hand are left alone')
    .option('--force', 'write the files of the project whatever stands in their places')
    .option('--json', 'print one JSON object on stdout')
    .action(async (dir: string, options: Options) => {
      const sources: DbtSource[] = [];
      const code = await forEachSource(context, options, [], async (chosen) => {
        sources.push(await describe(chosen, context));
      });
      if (sources.length === 0) return;
      const folder = path.resolve(context.cwd, dir);
      const choice = { force: options.force === true, isWhole: code === EXIT_CODES.ok };
      const done = await writeOwnedFiles(folder, projectFiles(sources), choice).catch((error: unknown) => {
        throw new ConfigError('usage', `${folder} cannot be written: ${messageOf(error)}`, {
          hint: 'name a folder that this user may write to',
          cause: error,
        });
      });
      const leftOut = sources.flatMap((source) => source.leftOut);
      const report = { ...done, ...(leftOut.length === 0 ? {} : { left_out: leftOut }) };
      print(context, options.json === true ? { folder, ...report } : summary(folder, done, leftOut));
    });
}

async function describe({ source }: ChosenSource, { clock, secrets }: CliContext): Promise<DbtSource> {
  const database = databaseAt(source.warehouse);
  return whileOpen(await openWarehouseToRead(source.warehouse, clock), async (warehouse) => {
    const { name, resources, profile } = source;
    const about = { source: name, warehouse: database.shown, resources, profile, at: clock.now() };
    const read = await readDictionary(about, warehouse);
    const states = await readStates(read, profile, warehouse);
    const { dictionary, ...scrubbed } = scrubTexts({ dictionary: read, states }, (text) => scrubOwn(text, secrets));
    // A file has no schema: programs attach it under a name, which is the source's.
    const schema = database.shared?.namespace ?? plainName(source.name);
    const tables = dictionary.tables.filter((table) => table.is_copied !== false);
    const leftOut = dictionary.tables.filter(({ kind, is_copied }) => kind === 'live' && is_copied === false);
    return {
      ...scrubbed,
      dictionary: { ...dictionary, tables },
      leftOut: leftOut.map((view) => view.name),
      schema,
      isFile: database.shared === null,
      maxAge: (resource) => maxAge(source, resource, about.at),
    };
  });
}

function summary(
  folder: string,
  { written, unchanged, kept, removed }: WrittenFiles,
  leftOut: readonly string[],
): string {
  const lines = [
    `${folder}: ${countOf(written.length, 'file')} written, ${unchanged.length} as they were`,
    ...removed.map((name) => `removed, because its table is gone: ${name}`),
    ...leftOut.map((name) => `left out, because it is no longer copied: ${name}`),
    ...kept.map((name) => `left alone, because it was changed by hand: ${name}`),
    ...(kept.length === 0 ? [] : ['  → move your changes to a file of your own, or write them over with --force']),
  ];
  return lines.map(visibleText).join('\n');
}
