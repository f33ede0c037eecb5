import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Command, Option } from 'commander';
import { openWarehouseToRead, shownPlace } from '../database/databases.ts';
import { ConfigError, messageOf } from '../model/errors.ts';
import { scrubOwn } from '../observe/scrub.ts';
import {
  countDictionary,
  type Dictionary,
  readDictionary,
  type RowCounts,
} from '../server/dictionary/read-dictionary.ts';
import { renderDictionaryPage } from '../server/page/dictionary-page.ts';
import { scrubTexts } from '../server/status/snapshot.ts';
import type { CliContext } from './command/context.ts';
import { type ChosenSource, forEachSource, type SourceOptions, whileOpen, sourceCommand } from './command/sources.ts';

type Options = SourceOptions & { out?: string };

/** What is known of one source. */
interface Described {
  dictionary: Dictionary;
  counts: RowCounts;
}

/** `content-sync dictionary`: what the warehouse holds, for people and programs; asks only the warehouse. */
export function dictionaryCommand(context: CliContext): Command {
  return sourceCommand('dictionary')
    .addOption(new Option('--html', 'Write one self-contained HTML page (default)').conflicts('json'))
    .option('-o, --out <file>', 'Write to a file instead of stdout')
    .action(async (options: Options) => {
      const described: Described[] = [];
      await forEachSource(context, options, [], async (chosen) => {
        described.push(await describe(chosen, context));
      });
      if (described.length === 0) return;
      const text =
        context.json === true
          ? described.map(({ dictionary, counts }) => `${JSON.stringify(withRows(dictionary, counts))}\n`).join('')
          : renderDictionaryPage(described, { version: context.version, at: context.clock.now() });
      await give(context, text, options.out);
    });
}

async function describe({ source }: ChosenSource, { clock, secrets }: CliContext): Promise<Described> {
  return whileOpen(await openWarehouseToRead(source.warehouse, clock), async (warehouse) => {
    const { name, warehouse: address, resources, profile } = source;
    const about = { source: name, warehouse: shownPlace(address), resources, profile, at: clock.now() };
    const dictionary = await readDictionary(about, warehouse);
    const counts = await countDictionary(dictionary, warehouse);
    return scrubTexts({ dictionary, counts }, (text) => scrubOwn(text, secrets));
  });
}

/** The same with each table's rows beside it, and times that programs read. */
function withRows(dictionary: Dictionary, counts: RowCounts): object {
  const tables = dictionary.tables.map((table) => ({ ...table, rows: counts[table.name] ?? null }));
  return Object(JSON.parse(JSON.stringify({ ...dictionary, tables }, timesAsText)));
}

function timesAsText(key: string, value: unknown): unknown {
  return /(?:_at|_seen)$/.test(key) && typeof value === 'number' ? new Date(value).toISOString() : value;
}

async function give({ stdout, cwd }: CliContext, text: string, out: string | undefined): Promise<void> {
  if (out === undefined) {
    stdout.write(text);
    return;
  }
  const file = path.resolve(cwd, out);
  try {
    await writeFile(file, text);
  } catch (error) {
    throw new ConfigError('usage', `${file} cannot be written: ${messageOf(error)}`, {
      hint: 'name a file in a folder that is there and that this user may write to',
      cause: error,
    });
  }
}
