import { Command } from 'commander';
import { createInterface } from 'node:readline/promises';
import type { App } from '../../app.ts';
import { ConfigError, SyncError } from '../../model/errors.ts';
import { timestampText } from '../../model/timestamp-text.ts';
import { countText } from '../../observe/figures.ts';
import { readTables } from '../../state/column-catalog.ts';
import { askToForget, openRequests } from '../../state/forget-requests.ts';
import { countTraces } from '../../sync/forget/count-traces.ts';
import { findRecords, type FieldValue } from '../../sync/forget/find-records.ts';
import { inParts } from '../../state/in-parts.ts';
import { openWarehouseToRead } from '../../warehouse/databases.ts';
import type { CliContext } from '../command/context.ts';
import { EXIT_CODES, type ExitCode } from '../command/exit-code.ts';
import { print } from '../command/output.ts';
import {
  forEachSource,
  readSettings,
  withSourceOptions,
  type ChosenSource,
  type SourceOptions,
} from '../command/sources.ts';
import { withApp } from '../command/with-app.ts';
import { finishForgetting, withInbox } from './finish-forgetting.ts';
import { eraseWhenFree } from './erase-when-free.ts';
import { reportOf, reportText, type ForgetReport } from './report.ts';

type ForgetOptions = SourceOptions & { where?: string[]; dryRun?: true; yes?: true; json?: true };

/** `content-sync forget`: erases records and their traces, and keeps only fingerprints that tell them when they come again. */
export function forgetCommand(context: CliContext): Command {
  return withSourceOptions(new Command('forget'))
    .argument('<resource>', 'a resource of the profile')
    .argument('[id...]', 'ids of its records; without any, and without --where, what was interrupted is finished')
    .option('--where <field=value...>', 'records of which a field has this value; repeated: all of them')
    .option('--dry-run', 'only count what would be erased')
    .option('--yes', 'do not ask, on a terminal')
    .option('--json', 'print the report as one JSON object on stdout')
    .action(async (resource: string, ids: string[], options: ForgetOptions) => {
      const named = { ...options, source: soleSource(context, options, resource) };
      await forEachSource(context, named, [resource], (chosen) => forget(context, chosen, resource, ids, options));
    });
}

/** The same id in another source is another record. */
function soleSource(context: CliContext, options: SourceOptions, resource: string): string {
  const sources = Object.values(readSettings(context, options).sources);
  const found = sources.filter(({ resources }) => resources.includes(resource));
  const [first] = found;
  if (first !== undefined && found.length === 1) return first.name;
  const known = [...new Set(sources.flatMap(({ resources }) => resources))].join(', ');
  if (first === undefined)
    throw new ConfigError('usage', `no source has a resource "${resource}"`, { hint: `there is ${known}` });
  throw new ConfigError('usage', `several sources have a resource "${resource}"`, {
    hint: `name one of ${found.map(({ name }) => name).join(', ')} with --source`,
  });
}

async function forget(
  context: CliContext,
  { source, log }: ChosenSource,
  resource: string,
  ids: readonly string[],
  options: ForgetOptions,
): Promise<ExitCode> {
  const { privacy_key: key } = source;
  if (key === undefined) throw noPrivacyKey();
  const where = (options.where ?? []).map(fieldValue);
  if (ids.includes('')) throw emptyId();
  // Without a warehouse there is nothing to erase, and none is created.
  await (await openWarehouseToRead(source.warehouse, context.clock)).close();
  return withApp(context, { source, log }, async (app) => {
    const { warehouse } = app;
    const chosen = await chosenIds(app, resource, ids, where);
    const about = { source: source.name, resource, version: context.version, key };
    if (options.dryRun === true) return tell(context, options, await dryReport(context, app, about, chosen));
    if (!(await isConfirmed(context, options, resource, chosen))) return EXIT_CODES.usage;
    const at = timestampText(context.clock.now());
    if (chosen.length > 0) {
      await warehouse.apply(askToForget(warehouse.own, { source: source.name, key }, { ...about, ids: chosen, at }));
    }
    const isErased = await eraseWhenFree(context, app, resource);
    const end = isErased
      ? await finishForgetting(context, app, resource)
      : { rows: await openRequests(warehouse.own, resource), waiting: 0, isClean: false };
    return tell(context, options, reportOf({ ...about, at, isErased, ...end }));
  });
}

function noPrivacyKey(): ConfigError {
  return new ConfigError(
    'privacy_key',
    'the settings have no privacy_key: without it nothing could keep erased records from coming back',
    {
      hint: "set privacy_key at the top level of the config, such as privacy_key: '${CONTENT_PRIVACY_KEY}' (openssl rand -hex 32), and keep it for as long as the warehouse",
    },
  );
}

function emptyId(): ConfigError {
  return new ConfigError('usage', 'an id is empty, and no record has such an id', {
    hint: 'check the ids on the command line, such as a shell variable that is not set',
  });
}

function fieldValue(text: string): FieldValue {
  const at = text.indexOf('=');
  if (at > 0) return { field: text.slice(0, at), value: text.slice(at + 1) };
  throw new ConfigError('usage', `--where must be field=value, not "${text}"`, {
    hint: "such as --where 'author.email=jane@example.org'",
  });
}

/** Of the ids those that meet the conditions; without ids all records that do. */
async function chosenIds(
  { warehouse }: App,
  resource: string,
  ids: readonly string[],
  where: readonly FieldValue[],
): Promise<string[]> {
  if (where.length === 0) return [...new Set(ids)];
  const shape = await readTables(warehouse, resource);
  if (shape === null) return [];
  const found = await findRecords(warehouse, shape, where);
  return ids.length === 0 ? found : found.filter((id) => ids.includes(id));
}

const IDS_PER_STEP = 500;

async function dryReport(
  context: CliContext,
  app: App,
  about: { source: string; resource: string; version: string; key: string },
  ids: readonly string[],
): Promise<ForgetReport> {
  const { warehouse, source } = app;
  const { resource } = about;
  const profile = source.profile.resources[resource];
  const shape = await readTables(warehouse, resource);
  const counts = new Map<string, object>();
  if (profile !== undefined) {
    const place = { warehouse, resource, shape, profile };
    for (const part of inParts(ids, IDS_PER_STEP)) {
      for (const [id, found] of await countTraces(place, part)) counts.set(id, found);
    }
  }
  const deliveries = await withInbox(context, app, resource, ids, true);
  for (const [id, n] of deliveries?.erased ?? []) counts.set(id, { ...counts.get(id), deliveries: n });
  const at = timestampText(context.clock.now());
  const rows = [...counts.values()].map((found) => ({ fingerprint: null, counts: JSON.stringify(found) }));
  const end = { isErased: false, isClean: false, waiting: deliveries?.waiting ?? 0 };
  return reportOf({ ...about, at, rows, isDry: true, ...end });
}

/** Erasing cannot be taken back: a person at a terminal is asked. */
async function isConfirmed(
  { stdin, stderr, stdout }: CliContext,
  { yes, json }: ForgetOptions,
  resource: string,
  ids: readonly string[],
): Promise<boolean> {
  if (yes === true || json === true || ids.length === 0 || stdin.isTTY !== true || stdout.isTTY !== true) return true;
  const lines = createInterface({ input: stdin, output: stderr });
  try {
    const many = ids.length === 1 ? `${resource} ${ids[0]}` : `${countText(ids.length)} records of ${resource}`;
    return /^y(es)?$/i.test((await lines.question(`Erase ${many} for good? [y/N] `)).trim());
  } finally {
    lines.close();
  }
}

function tell(context: CliContext, { json }: ForgetOptions, report: ForgetReport): ExitCode {
  print(context, json === true ? report : reportText(report));
  if (context.signal.aborted) throw new SyncError('interrupted', 'interrupted', { recovery: 'stop' });
  return report.outcome === 'unfinished' ? EXIT_CODES.partial : EXIT_CODES.ok;
}
