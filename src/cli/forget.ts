import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { databaseAt, openWarehouseToRead } from '../database/databases.ts';
import { readTables } from '../database/state/catalog.ts';
import { askToForget, openRequests, readForgotten } from '../database/state/forgotten.ts';
import { inParts } from '../database/state/in-parts.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { visibleText } from '../model/visible-text.ts';
import { countOf, countText } from '../observe/figures.ts';
import type { App } from '../server/app.ts';
import { countTraces, type FieldValue, findRecords, NO_TRACES, type TraceCounts } from '../sync/forget/traces.ts';
import { type CliContext, EXIT_CODES, type ExitCode } from './command/context.ts';
import { printReport } from './command/output.ts';
import {
  type ChosenSource,
  forEachSource,
  readSettings,
  type SourceOptions,
  withApp,
  sourceCommand,
} from './command/sources.ts';
import { eraseWhenFree, finishForgetting, withInbox } from './forget-again.ts';

type ForgetCommandOptions = SourceOptions & { where?: string[]; dryRun?: true; yes?: true };

/** `content-sync forget`: erases records and their traces, and keeps only hashes by which they are recognised later. */
export function forgetCommand(context: CliContext): Command {
  return sourceCommand('forget')
    .argument('<resource>', 'Resource of the profile')
    .argument('[id...]', 'Ids of its records; without ids and --where an interrupted erasure is finished')
    .option('--where <field=value...>', 'Records whose field has this value; all conditions must hold')
    .option('--dry-run', 'Only count what would be erased')
    .option('--yes', 'Do not ask; required without a terminal')
    .action(async (resource: string, ids: string[], options: ForgetCommandOptions) => {
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
  options: ForgetCommandOptions,
): Promise<ExitCode> {
  const { privacy_key: key } = source;
  if (key === undefined) {
    const why = 'without it nothing could keep erased records from coming back';
    throw new ConfigError('privacy_key', `the settings have no privacy_key: ${why}`, {
      hint: "set privacy_key at the top level of the config, such as privacy_key: '${CONTENT_PRIVACY_KEY}' (openssl rand -hex 32), and keep it for as long as the warehouse",
    });
  }
  const where = (options.where ?? []).map(fieldValue);
  if (ids.includes('')) {
    throw new ConfigError('usage', 'an id is empty, and no record has such an id', {
      hint: 'check the ids on the command line, such as a shell variable that is not set',
    });
  }
  // Without a warehouse there is nothing to erase, and none is created.
  await (await openWarehouseToRead(source.warehouse, context.clock)).close();
  return withApp(context, { source, log }, async (app) => {
    const { warehouse } = app;
    const chosen = await chosenIds(app, resource, ids, where);
    const leftovers = databaseAt(source.warehouse).restoreLeftovers();
    const traces = await findTraces(context, app, resource, chosen);
    const at = timestampText(context.clock.now());
    const unknown = chosen.length - traces.counts.size;
    const about = { source: source.name, resource, version: context.version, at, unknown, leftovers };
    if (options.dryRun === true) {
      const rows = [...traces.counts.values()].map((found) => ({ fingerprint: null, counts: JSON.stringify(found) }));
      const end = { isErased: false, isClean: false, waiting: traces.waiting };
      return printForgetReport(context, reportOf({ ...about, rows, isDry: true, ...end }));
    }
    const found = [...traces.counts.keys()];
    if (!(await isConfirmed(context, options, resource, found))) return EXIT_CODES.usage;
    if (found.length > 0) {
      await warehouse.apply(askToForget(warehouse.own, { source: source.name, key }, { ...about, ids: found }));
    }
    const isErased = await eraseWhenFree(context, app, resource);
    const end = isErased
      ? await finishForgetting(context, app, resource)
      : { rows: await openRequests(warehouse.own, resource), waiting: 0, isClean: false };
    return printForgetReport(context, reportOf({ ...about, isErased, ...end }));
  });
}

function fieldValue(text: string): FieldValue {
  const at = text.indexOf('=');
  if (at > 0) return { field: text.slice(0, at), value: text.slice(at + 1) };
  throw new ConfigError('usage', `--where must be field=value, not "${text}"`, {
    hint: "such as --where 'author.email=jane@example.org'",
  });
}

/** The ids that meet the conditions; without ids those of all records that do. */
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

const IDS_PER_QUERY = 500;

/**
 * Counts the traces of each record by id. Omits records without traces, unless their erasure was requested before: the
 * same command finishes an interrupted erasure.
 */
async function findTraces(
  context: CliContext,
  app: App,
  resource: string,
  ids: readonly string[],
): Promise<{ counts: Map<string, TraceCounts>; waiting: number }> {
  const { warehouse, source } = app;
  const profile = source.profile.resources[resource];
  if (profile === undefined || ids.length === 0) return { counts: new Map(), waiting: 0 };
  const place = { warehouse, resource, shape: await readTables(warehouse, resource), profile };
  const deliveries = await withInbox(context, app, resource, ids, true);
  const forgotten = await readForgotten(warehouse.own, resource, { source: source.name, key: source.privacy_key });
  const counts = new Map<string, TraceCounts>();
  for (const part of inParts(ids, IDS_PER_QUERY)) {
    for (const [id, stored] of await countTraces(place, part)) {
      const found = { ...stored, deliveries: deliveries?.erased.get(id) ?? 0 };
      if (forgotten.has(id) || Object.values(found).some((n) => n > 0)) counts.set(id, found);
    }
  }
  return { counts, waiting: deliveries?.waiting ?? 0 };
}

/** Asks for confirmation on a terminal, because erasing cannot be undone. Throws `ConfigError` without a terminal. */
async function isConfirmed(
  { stdin, stderr, stdout, json }: CliContext,
  { yes }: ForgetCommandOptions,
  resource: string,
  ids: readonly string[],
): Promise<boolean> {
  if (yes === true || ids.length === 0) return true;
  if (json === true || stdin.isTTY !== true || stdout.isTTY !== true) {
    throw new ConfigError('usage', 'records are erased for good, and without a terminal nobody can confirm that', {
      hint: 'add --yes; --dry-run counts what would be erased',
    });
  }
  const lines = createInterface({ input: stdin, output: stderr });
  try {
    const many = ids.length === 1 ? `${resource} ${ids[0]}` : `${countText(ids.length)} records of ${resource}`;
    return /^y(es)?$/i.test((await lines.question(`Erase ${many} for good? [y/N] `)).trim());
  } finally {
    lines.close();
  }
}

function printForgetReport(context: CliContext, report: ForgetReport): ExitCode {
  printReport(context, report, reportText(report));
  if (context.signal.aborted) throw new SyncError('interrupted', 'interrupted', { recovery: 'stop' });
  return report.outcome === 'unfinished' || report.unknown > 0 ? EXIT_CODES.partial : EXIT_CODES.ok;
}

/** A report for the records of the user; contains no id. */
interface ForgetReport {
  source: string;
  resource: string;
  /** `unfinished`: something is left, which `todo` says; the same command again does it. */
  outcome: 'erased' | 'unfinished' | 'dry run';
  /** UTC. */
  at: string;
  /** Of content-sync. */
  version: string;
  records: number;
  /** Ids of which nothing is stored. */
  unknown: number;
  /** What was erased, or would be. */
  erased: TraceCounts;
  /** HMAC-SHA256 under `privacy_key`, by which the records are known when they come again. */
  fingerprints: string[];
  todo: string[];
  /** What content-sync cannot reach. */
  yours: string[];
}

interface ForgetResult {
  source: string;
  resource: string;
  version: string;
  at: string;
  unknown: number;
  rows: readonly { counts: string | null; fingerprint: string | null }[];
  /** True if nothing was to be erased, but only counted. */
  isDry?: boolean;
  /** False while another process owns the resource. */
  isErased: boolean;
  isClean: boolean;
  waiting: number;
  /** True if contents of files are still in a store. */
  areFilesLeft?: boolean;
  /** Files of a killed restore. */
  leftovers: readonly string[];
}

const BEYOND_REACH = [
  'exports (content-sync export): content-sync does not know where they lie; export again, and remove the older files, also older versions of objects in a bucket',
  'backups of the warehouse and its inbox, replicas and snapshots of disks; on Postgres also archived logs (WAL), what the server keeps in pg_wal until it is written over, and dead rows of pg_statistic, which hold sample values until an administrator runs VACUUM FULL pg_statistic',
  'derived data: external tables and materialised views, extracts in BI tools',
  'references to the id in other records, which stay as the service sends them; the service itself, if it is to forget the record too',
];

export function reportOf(reported: ForgetResult): ForgetReport {
  const { source, resource, version, at, unknown, rows, isDry = false, isErased, isClean, leftovers } = reported;
  const erased = { ...NO_TRACES };
  for (const { counts } of rows) {
    const found: Partial<TraceCounts> = { ...NO_TRACES, ...parsed(counts) };
    for (const [what] of TRACE_NAMES) erased[what] += found[what] ?? 0;
  }
  return {
    source,
    resource,
    outcome: isDry ? 'dry run' : isErased && isClean && leftovers.length === 0 ? 'erased' : 'unfinished',
    at: `${at.slice(0, 19).replace(' ', 'T')}Z`,
    version,
    records: rows.length,
    unknown,
    erased,
    fingerprints: rows.flatMap(({ fingerprint }) => (fingerprint === null ? [] : [fingerprint])),
    todo: listWhatIsLeft(reported),
    yours: BEYOND_REACH,
  };
}

function listWhatIsLeft(reported: ForgetResult): string[] {
  const { resource, unknown, rows, isDry = false, isErased, isClean, waiting, leftovers } = reported;
  const { areFilesLeft = false } = reported;
  const isRead = isErased && !isClean && !areFilesLeft;
  const lines: readonly (readonly [applies: boolean, line: string])[] = [
    [rows.length === 0, isDry ? 'no record matches' : 'nothing was to be erased'],
    [unknown > 0, `${countOf(unknown, 'id is', 'ids are')} not in the copy, and not blocked: check the spelling`],
    [
      !isErased && !isDry,
      `another process owns ${resource}: a serve erases the records within seconds, any other process leaves them to this command; run it again`,
    ],
    [
      areFilesLeft,
      'contents of files are still in their store, because files are being fetched, the store cannot be used, or the settings do not name it any more; run the command again, or content-sync files prune',
    ],
    [isRead, 'run the command again: a reader of the old data keeps the log or dead rows from being removed'],
    ...leftovers.map((file) => {
      const line = `${file} is left of a restore that was killed, with the records in it: run the restore again, or delete the file`;
      return [true, line] as const;
    }),
    [
      waiting > 0,
      `${countText(waiting)} waiting deliveries name other records too: the next content-sync serve reads those and erases the deliveries`,
    ],
  ];
  return lines.flatMap(([applies, line]) => (applies ? [line] : []));
}

const TRACE_NAMES = [
  ['rows', 'rows'],
  ['children', 'rows of lists'],
  ['versions', 'versions'],
  ['rejects', 'rejected records'],
  ['deletes', 'delete entries'],
  ['files', 'files'],
  ['deliveries', 'deliveries'],
] as const satisfies readonly (readonly [keyof TraceCounts, string])[];

function parsed(counts: string | null): Partial<TraceCounts> {
  const value: unknown = JSON.parse(counts ?? '{}');
  return typeof value === 'object' && value !== null ? value : {};
}

/** The report as text. */
function reportText(report: ForgetReport): string {
  const { source, resource, outcome, at, version, records, erased, fingerprints, todo, yours } = report;
  const counts = TRACE_NAMES.map(([what, word]) => `${countText(erased[what])} ${word}`).join(', ');
  const verb = outcome === 'dry run' ? 'would be erased' : outcome === 'erased' ? 'erased' : 'not erased completely';
  const lines = [
    `${source}: ${countText(records)} ${records === 1 ? 'record' : 'records'} of ${resource} ${verb}`,
    `  when          ${at}, by content-sync ${version}`,
    `  what          ${counts}`,
    ...fingerprints.map((fingerprint, at_) => `  ${at_ === 0 ? 'fingerprints  ' : ' '.repeat(14)}${fingerprint}`),
    ...todo.map((line) => `  → ${line}`),
    ...(outcome === 'dry run' || records === 0
      ? []
      : ['', '  Clean these yourself, because content-sync cannot reach them:', ...yours.map((line) => `  - ${line}`)]),
  ];
  return lines.map(visibleText).join('\n');
}
