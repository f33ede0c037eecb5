import type { Command } from 'commander';
import { versionText } from '../config/profile/http-fields.ts';
import type { SourceSettings } from '../config/settings.ts';
import { openInboxToRead, openWarehouseToRead, shownPlace } from '../database/databases.ts';
import type { WarehouseReader } from '../database/reading.ts';
import { readCheckpoint } from '../database/state/checkpoints.ts';
import { resourcesNotCopied } from '../database/state/catalog.ts';
import { type Pause, readLifetime, readPauses } from '../database/state/server-state.ts';
import { countWindows, type WindowCounts } from '../database/state/windows.ts';
import { describeApiLifetime } from '../model/service-notice.ts';
import { timestampText } from '../model/timestamp-text.ts';
import { visibleText } from '../model/visible-text.ts';
import { countOf, countText, durationText } from '../observe/figures.ts';
import { createMetrics } from '../observe/metrics.ts';
import { type Attention, attentionOf, headlineOf, lastError, type Severity } from '../server/status/attention.ts';
import { readStatusOnce } from '../server/status/collect.ts';
import type { ApiStatus, FilesStatus, StatusSnapshot, StoredResource } from '../server/status/snapshot.ts';
import { apiStatus, type StatusParts, storedParts } from '../server/status/source-status.ts';
import {
  countRows,
  filesText,
  NO_FILES,
  NOTHING_STORED,
  readFileStatus,
  readResources,
} from '../server/status/stored.ts';
import { type CliContext, EXIT_CODES, type ExitCode } from './command/context.ts';
import {
  alignedLines,
  type Paint,
  painter,
  printReport,
  tellError,
  type TextTone,
  toneOfStatus,
} from './command/output.ts';
import { type ChosenSource, forEachSource, sourceCommand, type SourceOptions, whileOpen } from './command/sources.ts';

/** One resource as the command prints it; times are UTC text, `lag_seconds` counts from the last success. */
interface ResourceSummary {
  resource: string;
  /** Live rows. */
  rows: number;
  deleted: number;
  /** Deletes that wait for a decision. */
  held: number;
  last_success: string | null;
  lag_seconds: number | null;
  last_run: string | null;
  cursor: string | null;
  rejects: number;
  unfinished: StoredResource['unfinished'];
  /** When requests may be sent again; null if they may be now. */
  due: string | null;
  /** Since when the resource is paused, and by whom; null if it is not. */
  paused: { since: string; by: string } | null;
  /** The windows of reports; absent for other resources. */
  windows?: WindowCounts;
  /** Of its records' files that are copied too; absent where there are none. */
  files?: FilesStatus;
  /** Of the last run. */
  error: StoredResource['runs'][number]['error'];
}

/** A resource that is no longer copied. */
interface FormerResource {
  resource: string;
  rows: number;
  last_success: string | null;
}

interface SourceSummary {
  source: string;
  warehouse: string;
  api: ApiStatus;
  resources: ResourceSummary[];
  /** Resources with tables that the profile or the settings no longer name; absent if there are none. */
  not_copied?: FormerResource[];
  /** With `--exit-code`. */
  attention?: Attention[];
}

interface StatusOptions extends SourceOptions {
  exitCode?: true;
}

/** `content-sync status`: what is in the warehouse and how old it is, with no request to the service. */
export function statusCommand(context: CliContext): Command {
  return sourceCommand('status')
    .option(
      '--exit-code',
      'Exit with 3 if something needs attention, 1 if a run failed or nothing can be read, 0 if all is fresh',
    )
    .action(async (options: StatusOptions) => {
      await forEachSource(context, options, [], async (chosen) => {
        try {
          const { status, code } = await readSourceSummary(chosen, context, options.exitCode === true);
          const now = context.clock.now();
          printReport(context, status, formatTable(status, now, painter(context)).trimEnd());
          return code;
        } catch (error) {
          if (options.exitCode !== true) throw error;
          await tellError(context, error, chosen.source.name);
          return EXIT_CODES.failed;
        }
      });
    });
}

async function readSourceSummary(
  { source, resources }: ChosenSource,
  context: CliContext,
  isJudged: boolean,
): Promise<{ status: SourceSummary; code: ExitCode }> {
  const { clock } = context;
  return whileOpen(await openWarehouseToRead(source.warehouse, clock), async (warehouse) => {
    const statuses: ResourceSummary[] = [];
    const hasFiles = Object.keys(source.files.kept).length > 0;
    const files = hasFiles ? await readFileStatus(warehouse.own) : NO_FILES;
    const pauses = await readPauses(warehouse.own);
    for (const resource of resources) {
      const own = files.resources.get(resource);
      statuses.push({
        ...(await readResourceSummary(warehouse, resource, pauses.get(resource), clock.now())),
        ...(own && { files: own }),
      });
    }
    const now = clock.now();
    const api = apiStatus(source.profile, await readLifetime(warehouse.own, versionText(source.profile), now), now);
    const former = await formerResources(warehouse, source.resources);
    const status = {
      source: source.name,
      warehouse: shownPlace(source.warehouse),
      api,
      resources: statuses,
      ...(former.length === 0 ? {} : { not_copied: former }),
    };
    if (!isJudged) return { status, code: EXIT_CODES.ok };
    const { attention, code } = await judge(context, source, warehouse);
    return { status: { ...status, attention }, code };
  });
}

async function formerResources(warehouse: WarehouseReader, copied: readonly string[]): Promise<FormerResource[]> {
  const former: FormerResource[] = [];
  for (const resource of await resourcesNotCopied(warehouse.own, copied)) {
    const checkpoint = await readCheckpoint(warehouse.own, resource);
    const { live: rows } = await countRows(warehouse, resource);
    former.push({ resource, rows, last_success: checkpoint?.last_success_at ?? null });
  }
  return former;
}

async function readResourceSummary(
  warehouse: WarehouseReader,
  resource: string,
  pause: Pause | undefined,
  now: number,
): Promise<ResourceSummary> {
  const checkpoint = await readCheckpoint(warehouse.own, resource);
  const [stored = NOTHING_STORED] = (await readResources(warehouse.own, [resource])).values();
  const { runs, rejects, suspects, unfinished, last_success_at: success, parked_until: parked } = stored;
  const { live, deleted } = await countRows(warehouse, resource);
  const [run] = runs;
  const windows = await countWindows(warehouse.own, resource);
  return {
    resource,
    rows: live,
    deleted,
    held: suspects.held,
    last_success: success === null ? null : timestampText(success),
    lag_seconds: success === null ? null : Math.max(0, Math.round((now - success) / 1_000)),
    last_run: run?.status ?? null,
    cursor: checkpoint?.cursor ?? null,
    rejects: rejects.reduce((sum, { count }) => sum + count, 0),
    unfinished,
    due: parked !== null && parked > now ? timestampText(parked) : null,
    paused: pause === undefined ? null : { since: timestampText(pause.at), by: pause.by },
    ...(windows === null ? {} : { windows }),
    error: run?.error ?? null,
  };
}

const HEAD = ['resource', 'rows', 'deleted', 'last success (UTC)', 'lag', 'last run', 'rejected', 'cursor'] as const;
const LAST_RUN = HEAD.indexOf('last run');

function formatTable(
  { source, warehouse, api, resources, not_copied: former = [], attention = [] }: SourceSummary,
  now: number,
  paint: Paint,
): string {
  const rows = resources.map((status) => [
    status.resource,
    countText(status.rows),
    countText(status.deleted),
    status.last_success?.slice(0, 19) ?? 'never',
    status.lag_seconds === null ? '–' : durationText(status.lag_seconds),
    status.last_run ?? 'none',
    countText(status.rejects),
    visibleText(status.cursor ?? '–'),
  ]);
  const notes = [...apiNotes(api, now), ...resources.flatMap(formatNotes), ...former.map(formerNote)].map(visibleText);
  const painted = (cell: string, column: number): string =>
    column === LAST_RUN ? paint(cell, toneOfStatus(cell.trim())) : cell;
  const found = attention.flatMap((each) => attentionLines(each, paint));
  const lines = [...alignedLines([HEAD, ...rows], painted), ...notes, ...found];
  return `${source}  ${warehouse}\n${lines.map((line) => `  ${line.trimEnd()}\n`).join('')}`;
}

function apiNotes({ version, lifetime }: ApiStatus, now: number): string[] {
  if (lifetime === null) return [];
  const { what, next } = describeApiLifetime(lifetime, now);
  return [`${version}: ${what}`, `  → ${next}`];
}

function formatNotes({ resource, unfinished, due, paused, error, held, windows, files }: ResourceSummary): string[] {
  const notes: string[] = [
    ...(windows === undefined ? [] : [windowsNote(resource, windows)]),
    ...(files === undefined ? [] : [`${resource}: ${filesText(files)}`]),
  ];
  if (unfinished !== null) {
    const { mode, pages } = unfinished;
    notes.push(`${resource}: a ${mode} sync stopped after ${countText(pages)} pages; the next run resumes there`);
  }
  if (due !== null) notes.push(`${resource}: the service requested a wait until ${due} UTC`);
  if (paused !== null) {
    const since = paused.since.slice(0, 19);
    notes.push(
      `${resource}: paused since ${since} UTC by ${paused.by}; content-sync resume ${resource} ends the pause`,
    );
  }
  if (held > 0)
    notes.push(`${resource}: ${countText(held)} deletes are held; see content-sync deletes list ${resource}`);
  if (error !== null) notes.push(`${resource}: ${error.message} [${error.code}]`);
  if (error !== null && error.hint !== null) notes.push(`  → ${error.hint}`);
  return notes;
}

function formerNote({ resource, rows, last_success: success }: FormerResource): string {
  const since = success === null ? '' : ` as of ${success.slice(0, 19)} UTC`;
  return `${resource}: no longer copied, ${countOf(rows, 'row')} ${rows === 1 ? 'remains' : 'remain'}${since}; its tables and views stay as they are`;
}

function windowsNote(resource: string, counts: WindowCounts): string {
  const { windows, final, oldest, held, capped, differing, dropped } = counts;
  const more: [number, string][] = [
    [held, `held; see content-sync deletes list ${resource}`],
    [capped, 'as large as the service lists'],
    [differing, 'with other totals than the service states'],
    [dropped, 'dropped by age'],
  ];
  const parts = more.flatMap(([count, what]) => (count === 0 ? [] : [`${countText(count)} ${what}`]));
  const since = oldest === null ? '' : ` since ${oldest}`;
  return `${resource}: ${[`${countText(windows)} windows${since}`, `${countText(final)} final`, ...parts].join(', ')}`;
}

const SEVERITY_TONES: Readonly<Record<Severity, TextTone>> = { down: 'bad', late: 'bad', look: 'look' };

function attentionLines({ severity, resource, what, next, command }: Attention, paint: Paint): string[] {
  const who = resource === null ? '' : `${resource}: `;
  const advice = [next, command].filter((text) => text !== null).join('; ');
  return [
    `${paint('!', SEVERITY_TONES[severity])} ${visibleText(`${who}${what}`)}`,
    ...(advice === '' ? [] : [`  → ${visibleText(advice)}`]),
  ];
}

/**
 * Judges a source as its page would, from the warehouse and the inbox alone: `ok` where all is fresh and complete,
 * `partial` where a person should look or there is no whole copy yet, `failed` where the last run of a resource failed
 * or something cannot be read.
 */
async function judge(
  context: CliContext,
  source: SourceSettings,
  warehouse: WarehouseReader,
): Promise<{ attention: Attention[]; code: ExitCode }> {
  const snapshot = await readSnapshot(context, source, warehouse);
  const attention = attentionOf(snapshot);
  const resources = snapshot.sources.flatMap((source) => source.resources);
  const isFailed = attention.some(({ severity }) => severity === 'down') || resources.some((one) => lastError(one));
  const isFine = headlineOf(snapshot, attention).tone === 'fine';
  return { attention, code: isFailed ? EXIT_CODES.failed : isFine ? EXIT_CODES.ok : EXIT_CODES.partial };
}

async function readSnapshot(
  { clock, version, secrets }: CliContext,
  source: SourceSettings,
  warehouse: WarehouseReader,
): Promise<StatusSnapshot> {
  const now = clock.now();
  const metrics = createMetrics(version, () => 0);
  try {
    const parts = await storedParts(source, {
      clock,
      metrics,
      secrets,
      read: (work) => work(warehouse),
      inbox: source.webhook === null ? null : () => waitingIn(source.warehouse, clock),
    });
    const sources = [withoutOwners(await readStatusOnce(parts, clock))];
    return { at: now, version, started_at: now, stopping: false, sources, refused: [], settings: null };
  } finally {
    metrics.close();
  }
}

/** Removes the owners: another process may own a resource while this one only reads. */
function withoutOwners(status: StatusSnapshot['sources'][number]): StatusSnapshot['sources'][number] {
  return { ...status, resources: status.resources.map((resource) => Object.assign({}, resource, { owner: null })) };
}

/** Max deliveries that are read: later ones are younger, or as bad. */
const MAX_DELIVERIES = 100;

async function waitingIn(warehouse: string, clock: CliContext['clock']): ReturnType<NonNullable<StatusParts['inbox']>> {
  const inbox = await openInboxToRead(warehouse, clock);
  try {
    const [waiting, dead] = [
      await inbox.list({ state: 'waiting', limit: MAX_DELIVERIES }),
      await inbox.list({ state: 'dead', limit: MAX_DELIVERIES }),
    ];
    const oldest = waiting.at(-1)?.received_at ?? null;
    return { waiting: waiting.length, waitingBytes: 0, dead: dead.length, different: 0, oldest };
  } finally {
    await inbox.close();
  }
}
