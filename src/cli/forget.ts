// `content-sync forget`: erases records and all their traces, and keeps only hashes that block them later.
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
      const inSource = { ...options, source: soleSource(context, options, resource) };
      await forEachSource(context, inSource, [resource], (chosen) => forget(context, chosen, resource, ids, options));
    });
}

/** Returns the one source with this resource; with several, `--source` is needed, because ids are per source. */
function soleSource(context: CliContext, options: SourceOptions, resource: string): string {
  const sources = Object.values(readSettings(context, options).sources);
  const [found, ...others] = sources.filter(({ resources }) => resources.includes(resource));
  if (found !== undefined && others.length === 0) return found.name;
  if (found === undefined) {
    const known = [...new Set(sources.flatMap(({ resources }) => resources))].join(', ');
    throw new ConfigError('usage', `no source has a resource "${resource}"`, { hint: `there is ${known}` });
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
  // Without a warehouse there is nothing to erase, and none is created.
  await (await openWarehouseToRead(source.warehouse, context.clock)).close();
  return withApp(context, { source, log }, async (app) => {
    const ids = [...new Set(requestedIds)];
    const { counts, waiting } = await findTraces(context, app, resource, ids);
    const found = [...counts.keys()];
    const at = timestampText(context.clock.now());
    const { version } = context;
    let erasure: Erasure | null = null;
    if (options.dryRun !== true) {
      if (!(await isConfirmed(context, options, resource, found))) return EXIT_CODES.usage;
      const { own } = app.warehouse;
      const request = { resource, ids: found, version, at };
      if (found.length > 0) await app.warehouse.apply(requestErasure(own, { source: source.name, key }, request));
      erasure = await eraseCompletely(context, app, resource);
    }
    const unknown = ids.length - found.length;
    const report: ForgetReport = {
      source: source.name,
      resource,
      outcome: outcomeOf(erasure),
      at: `${at.slice(0, 19).replace(' ', 'T')}Z`,
      version,
      records: erasure?.requests.length ?? found.length,
      unknown,
      erased: sumCounts([...counts.values()]),
      fingerprints: (erasure?.requests ?? []).map(({ fingerprint }) => fingerprint),
      todo: remainingWork(erasure, { found: found.length, unknown, waiting }),
      yours: BEYOND_REACH,
    };
    printReport(context, report, formatReport(report));
    if (context.signal.aborted) throw new SyncError('interrupted', 'interrupted', { recovery: 'stop' });
    return report.outcome === 'unfinished' || unknown > 0 ? EXIT_CODES.partial : EXIT_CODES.ok;
  });
}

const IDS_PER_QUERY = 500;

/**
 * Counts the traces of each record by id. Omits records without traces, unless they were erased before: the same command
 * finishes an interrupted erasure.
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
  const traced = { warehouse, resource, shape: await readTables(warehouse, resource), profile };
  const deliveries = await eraseDeliveries(context, app, { resource, ids, isDry: true });
  const forgotten = await readForgotten(warehouse.own, resource, { source: source.name, key: source.privacy_key });
  const counts = new Map<string, TraceCounts>();
  for (const part of inParts(ids, IDS_PER_QUERY)) {
    for (const [id, stored] of await countTraces(traced, part)) {
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
    const many = ids.length === 1 ? `${resource} ${ids[0]}` : `${formatNumber(ids.length)} records of ${resource}`;
    return /^y(es)?$/i.test((await lines.question(`Erase ${many} for good? [y/N] `)).trim());
  } finally {
    lines.close();
  }
}

/** A report for the records of the user; contains no id. */
interface ForgetReport {
  source: string;
  resource: string;
  /** `unfinished`: something is left, which `todo` says; the same command again erases it. */
  outcome: 'erased' | 'unfinished' | 'dry run';
  at: string;
  version: string;
  records: number;
  /** Ids of which nothing is stored. */
  unknown: number;
  /** What was stored of the named records when the command began. */
  erased: TraceCounts;
  /** HMAC-SHA256 under `privacy_key`, by which the records are recognised when they come again. */
  fingerprints: string[];
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

function outcomeOf(erasure: Erasure | null): ForgetReport['outcome'] {
  if (erasure === null) return 'dry run';
  return erasure.remains === null ? 'erased' : 'unfinished';
}

function sumCounts(counts: readonly TraceCounts[]): TraceCounts {
  const sum = { ...NO_TRACES };
  for (const found of counts) for (const [what] of TRACE_NAMES) sum[what] += found[what];
  return sum;
}

/** What the user has to know or do; `erasure` is null for a dry run, which found `found` records. */
function remainingWork(erasure: Erasure | null, more: { found: number; unknown: number; waiting: number }): string[] {
  const todo: string[] = [];
  if (erasure === null && more.found === 0) todo.push('no record matches');
  if (erasure?.requests.length === 0) todo.push('nothing was to be erased');
  if (more.unknown > 0) {
    todo.push(`${formatCount(more.unknown, 'id is', 'ids are')} not in the copy, and not blocked: check the spelling`);
  }
  if (erasure !== null && erasure.remains !== null) todo.push(REMEDIES[erasure.remains]);
  const waiting = erasure?.waiting ?? more.waiting;
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
  const counts = TRACE_NAMES.map(([what, word]) => `${formatNumber(erased[what])} ${word}`).join(', ');
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
