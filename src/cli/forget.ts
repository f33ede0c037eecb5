// `content-sync forget`: erases records and all their traces, such as versions and deliveries, after a person has asked for
// it. Only keyed hashes of their ids stay: by these, a sync drops the records if the service still lists them.
import { createInterface } from 'node:readline/promises';
import type { Command } from 'commander';
import { openWarehouseToRead } from '../database/databases.ts';
import { readTables } from '../database/state/catalog.ts';
import { readForgotten, requestErasure } from '../database/state/forgotten.ts';
import { inParts } from '../database/state/in-parts.ts';
import { ConfigError, SyncError } from '../model/errors.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { visibleText } from '../model/visible-text.ts';
import { formatCount, formatNumber } from '../observe/format-values.ts';
import type { App } from '../server/app.ts';
import { countTraces, NO_TRACES, type TraceCounts } from '../sync/forget/traces.ts';
import { type CliContext, EXIT_CODES, type ExitCode, printReport } from './command/context.ts';
import {
  type ChosenSource,
  forEachSource,
  readSettings,
  sourceCommand,
  type SourceOptions,
  withApp,
} from './command/sources.ts';
import { eraseCompletely, eraseDeliveries, type Erasure } from './erase-records.ts';

type ForgetCommandOptions = SourceOptions & { dryRun?: true; yes?: true };

export function forgetCommand(context: CliContext): Command {
  return sourceCommand('forget')
    .argument('<resource>', 'Resource of the profile')
    .argument('[id...]', 'Ids of its records; without ids an interrupted erasure is finished')
    .option('--dry-run', 'Only count what would be erased')
    .option('--yes', 'Do not ask; required without a terminal')
    .action(async (resource: string, ids: string[], options: ForgetCommandOptions) => {
      const inSource = { ...options, source: findSource(context, options, resource) };
      await forEachSource(context, inSource, [resource], (chosen) => forget(context, chosen, resource, ids, options));
    });
}

/** Returns the source with this resource. Throws if several have it, because the same id is another record in each. */
function findSource(context: CliContext, options: SourceOptions, resource: string): string {
  const sources = Object.values(readSettings(context, options).sources);
  const [found, ...others] = sources.filter(({ resources }) => resources.includes(resource));
  if (found !== undefined && others.length === 0) return found.name;
  if (found === undefined) {
    const names = [...new Set(sources.flatMap(({ resources }) => resources))].join(', ');
    throw new ConfigError('usage', `no source has a resource "${resource}"`, { hint: `there is ${names}` });
  }
  throw new ConfigError('usage', `several sources have a resource "${resource}"`, {
    hint: `name one of ${[found, ...others].map(({ name }) => name).join(', ')} with --source`,
  });
}

async function forget(
  context: CliContext,
  { source, log }: ChosenSource,
  resource: string,
  requestedIds: readonly string[],
  options: ForgetCommandOptions,
): Promise<ExitCode> {
  const { privacy_key: key } = source;
  if (key === undefined) {
    const why = 'without it nothing could keep erased records from coming back';
    throw new ConfigError('privacy_key', `the settings have no privacy_key: ${why}`, {
      hint: "set privacy_key at the top level of the config, such as privacy_key: '${CONTENT_PRIVACY_KEY}' (openssl rand -hex 32), and keep it for as long as the warehouse",
    });
  }
  if (requestedIds.includes('')) {
    throw new ConfigError('usage', 'an id is empty, and no record has such an id', {
      hint: 'check the ids on the command line, such as a shell variable that is not set',
    });
  }
  // Throws if there is no warehouse: it must not be created by this command.
  await (await openWarehouseToRead(source.warehouse, context.clock)).close();
  return withApp(context, { source, log }, async (app) => {
    const ids = [...new Set(requestedIds)];
    const { traces, waitingDeliveries } = await findTraces(context, app, resource, ids);
    const foundIds = [...traces.keys()];
    const at = timestampText(context.clock.now());
    const { version } = context;
    let erasure: Erasure | null = null;
    if (options.dryRun !== true) {
      if (!(await isConfirmed(context, options, resource, foundIds))) return EXIT_CODES.usage;
      const { own } = app.warehouse;
      const request = { resource, ids: foundIds, version, at };
      if (foundIds.length > 0) await app.warehouse.apply(requestErasure(own, { source: source.name, key }, request));
      erasure = await eraseCompletely(context, app, resource);
    }
    const [found, unknown] = [foundIds.length, ids.length - foundIds.length];
    const report: ForgetReport = {
      source: source.name,
      resource,
      outcome: toOutcome(erasure),
      at: `${at.slice(0, 19).replace(' ', 'T')}Z`,
      version,
      records: erasure?.requests.length ?? found,
      unknown,
      erased: sumCounts([...traces.values()]),
      fingerprints: (erasure?.requests ?? []).map(({ fingerprint }) => fingerprint),
      todo: remainingWork(erasure, { found, unknown, waitingDeliveries }),
      yours: BEYOND_REACH,
    };
    printReport(context, report, formatReport(report));
    if (context.signal.aborted) throw new SyncError('interrupted', 'interrupted', { recovery: 'stop' });
    return report.outcome === 'unfinished' || unknown > 0 ? EXIT_CODES.partial : EXIT_CODES.ok;
  });
}

const IDS_PER_QUERY = 500;

/**
 * Counts the traces of each record by id. Omits records without traces, unless their erasure was interrupted: then the same
 * command finishes it. Also counts the waiting deliveries that name other records too, which are erased later.
 */
async function findTraces(
  context: CliContext,
  app: App,
  resource: string,
  ids: readonly string[],
): Promise<{ traces: Map<string, TraceCounts>; waitingDeliveries: number }> {
  const { warehouse, source } = app;
  const profile = source.profile.resources[resource];
  const traces = new Map<string, TraceCounts>();
  if (profile === undefined || ids.length === 0) return { traces, waitingDeliveries: 0 };
  const traced = { warehouse, resource, shape: await readTables(warehouse, resource), profile };
  const deliveries = await eraseDeliveries(context, app, { resource, ids, isDry: true });
  const forgotten = await readForgotten(warehouse.own, resource, { source: source.name, key: source.privacy_key });
  for (const part of inParts(ids, IDS_PER_QUERY)) {
    for (const [id, stored] of await countTraces(traced, part)) {
      const counts = { ...stored, deliveries: deliveries?.erased.get(id) ?? 0 };
      if (forgotten.has(id) || Object.values(counts).some((count) => count > 0)) traces.set(id, counts);
    }
  }
  return { traces, waitingDeliveries: deliveries?.waiting ?? 0 };
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
    const records = ids.length === 1 ? `${resource} ${ids[0]}` : `${formatNumber(ids.length)} records of ${resource}`;
    return /^y(es)?$/i.test((await lines.question(`Erase ${records} for good? [y/N] `)).trim());
  } finally {
    lines.close();
  }
}

/** The report, which the user may file as evidence; it contains no id. */
interface ForgetReport {
  source: string;
  resource: string;
  /** `unfinished`: `todo` says what remains; the same command again erases it. */
  outcome: 'erased' | 'unfinished' | 'dry run';
  at: string;
  version: string;
  records: number;
  /** The number of ids of which nothing is stored. */
  unknown: number;
  /** What was stored of the records when the command began. */
  erased: TraceCounts;
  /** HMAC-SHA256 of the ids under `privacy_key`, by which the records are recognised when they come again. */
  fingerprints: string[];
  /** What the user has to know or do. */
  todo: string[];
  /** What content-sync cannot reach. */
  yours: string[];
}

const BEYOND_REACH = [
  'exports (content-sync export): content-sync does not know where they are; export again, and remove the older files, also older versions of objects in a bucket',
  'backups of the warehouse and its inbox (after one is put back, erase the record again), replicas and snapshots of disks; on Postgres also archived logs (WAL), what the server keeps in pg_wal until it is written over, and dead rows of pg_statistic, which hold sample values until an administrator runs VACUUM FULL pg_statistic',
  'derived data: external tables and materialised views, extracts in BI tools',
  'references to the id in other records, which stay as the service sends them; the service itself, if it is to forget the record too',
];

function toOutcome(erasure: Erasure | null): ForgetReport['outcome'] {
  if (erasure === null) return 'dry run';
  return erasure.remains === null ? 'erased' : 'unfinished';
}

function sumCounts(counts: readonly TraceCounts[]): TraceCounts {
  const sum = { ...NO_TRACES };
  for (const each of counts) for (const [kind] of TRACE_NAMES) sum[kind] += each[kind];
  return sum;
}

/** Returns what the user has to know or do; `erasure` is null for a dry run. */
function remainingWork(
  erasure: Erasure | null,
  { found, unknown, waitingDeliveries }: { found: number; unknown: number; waitingDeliveries: number },
): string[] {
  const todo: string[] = [];
  if (erasure === null && found === 0) todo.push('no record matches');
  if (erasure?.requests.length === 0) todo.push('nothing was to be erased');
  if (unknown > 0) {
    todo.push(`${formatCount(unknown, 'id is', 'ids are')} not in the copy, and not blocked: check the spelling`);
  }
  if (erasure !== null && erasure.remains !== null) todo.push(REMEDIES[erasure.remains]);
  const waiting = erasure?.waiting ?? waitingDeliveries;
  if (waiting > 0) {
    todo.push(
      `${formatNumber(waiting)} waiting deliveries name other records too: the next content-sync serve reads those and erases the deliveries`,
    );
  }
  return todo;
}

const REMEDIES: Readonly<Record<NonNullable<Erasure['remains']>, string>> = {
  rows: 'another process owns the resource: a serve erases the records within seconds, any other process leaves them to this command; run it again',
  files:
    'contents of files are still in their store, because files are being fetched, the store cannot be used, or the settings do not name it any more; run the command again, or content-sync files prune',
  pages: 'run the command again: a reader of the old data keeps the log or dead rows from being removed',
};

const TRACE_NAMES = [
  ['rows', 'rows'],
  ['children', 'rows of lists'],
  ['versions', 'versions'],
  ['rejects', 'rejected records'],
  ['deletes', 'delete entries'],
  ['files', 'files'],
  ['deliveries', 'deliveries'],
] as const satisfies readonly (readonly [keyof TraceCounts, string])[];

function formatReport(report: ForgetReport): string {
  const { source, resource, outcome, at, version, records, erased, fingerprints, todo, yours } = report;
  const counts = TRACE_NAMES.map(([kind, name]) => `${formatNumber(erased[kind])} ${name}`).join(', ');
  const verb = outcome === 'dry run' ? 'would be erased' : outcome === 'erased' ? 'erased' : 'not erased completely';
  const lines = [
    `${source}: ${formatNumber(records)} ${records === 1 ? 'record' : 'records'} of ${resource} ${verb}`,
    `  when          ${at}, by content-sync ${version}`,
    `  what          ${counts}`,
    ...fingerprints.map((fingerprint, row) => `  ${row === 0 ? 'fingerprints  ' : ' '.repeat(14)}${fingerprint}`),
    ...todo.map((line) => `  → ${line}`),
    ...(outcome === 'dry run' || records === 0
      ? []
      : ['', '  Clean these yourself, because content-sync cannot reach them:', ...yours.map((line) => `  - ${line}`)]),
  ];
  return lines.map(visibleText).join('\n');
}
