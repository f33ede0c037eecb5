// `content-sync export dbt`: prints the views of the warehouse as the `sources.yml` of a dbt project.
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Command } from 'commander';
import { stringify } from 'yaml';
import type { SourceSettings } from '../config/settings.ts';
import { databaseAt, openWarehouseToRead } from '../database/databases.ts';
import { readViews, type StoredView } from '../database/state/catalog.ts';
import type { ViewDialect } from '../database/view-dialect.ts';
import { ConfigError, messageOf } from '../model/errors.ts';
import { scrubOwn } from '../observe/scrub.ts';
import { resourceTimes } from '../server/schedule/due.ts';
import { scrubTexts } from '../server/status/snapshot.ts';
import { isNameOf } from '../views/plan-views.ts';
import type { CliContext } from './command/context.ts';
import { forEachSource, type SourceOptions, whileOpen, withSourceOptions } from './command/sources.ts';

export function dbtCommand(context: CliContext): Command {
  return withSourceOptions(new Command('dbt'))
    .description('Print the views as sources.yml of a dbt project: tables, columns, types, descriptions, freshness')
    .option('--out <file>', 'Write to this file instead of standard output; replaces it')
    .action(async (options: SourceOptions & { out?: string }) => {
      const sources: object[] = [];
      await forEachSource(context, options, [], async ({ source }) => {
        const described = await describeSource(source, context);
        sources.push(scrubTexts(described, (text) => scrubOwn(text, context.secrets)));
      });
      if (sources.length === 0) return;
      // Long texts stay on one line, so that a change of a word is a change of one line.
      const text = stringify({ version: 2, sources }, { lineWidth: 0 });
      if (options.out === undefined) context.stdout.write(text);
      else await replaceFile(path.resolve(context.cwd, options.out), text);
    });
}

async function replaceFile(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text);
  } catch (error) {
    throw new ConfigError('usage', `${file} cannot be written: ${messageOf(error)}`, {
      hint: 'name a file in a folder that this user may write to',
      cause: error,
    });
  }
}

/** Describes the views of copied resources and of the whole source, as an entry of `sources`. */
async function describeSource(source: SourceSettings, { clock }: CliContext): Promise<object> {
  const { name, resources, warehouse: address } = source;
  // A SQLite file has no schema: dbt attaches it under the name of the source.
  const schema = databaseAt(address).shared?.namespace ?? name;
  return whileOpen(await openWarehouseToRead(address, clock), async (warehouse) => {
    const stored = [...(await readViews(warehouse.own)).values()];
    const views = stored.filter(({ view }) => view.resource === null || resources.includes(view.resource));
    const freshness = views.find(({ view }) => view.resource === null && isNameOf(view.view_name, 'sync_freshness'));
    const tables = views
      .toSorted((a, b) => (a.view.view_name < b.view.view_name ? -1 : 1))
      .map((stored) => {
        const { resource } = stored.view;
        const table = describeView(stored, warehouse.dialect);
        if (resource === null || freshness === undefined) return table;
        const loaded_at_field = lastSuccess(schema, freshness.view.view_name, resource);
        return Object.assign(table, { config: { loaded_at_field, freshness: maxAge(source, resource, clock.now()) } });
      });
    const description = `The copy of ${name} that content-sync keeps.`;
    return { name, description, schema, quoting: { schema: true, identifier: true }, tables };
  });
}

function describeView({ view, columns }: StoredView, { types }: ViewDialect) {
  return {
    name: view.view_name,
    description: withoutJinja(view.description),
    columns: columns.map(({ column_name: name, type, description }) => ({
      name,
      ...(description ? { description: withoutJinja(description) } : {}),
      data_type: types[type],
      ...(/^[a-z_][a-z0-9_]*$/.test(name) ? {} : { quote: true }),
    })),
  };
}

/** Breaks up Jinja expressions in a text of the service, because dbt would run them. */
function withoutJinja(text: string): string {
  return text.replace(/\{(?=[{%#])/g, '{ ').replace(/([}%#])(?=\})/g, '$1 ');
}

/** SQL for the time when the resource was last brought up to date, whether or not a record had changed. */
function lastSuccess(schema: string, freshnessView: string, resource: string): string {
  const [from, value] = [`"${schema.replaceAll('"', '""')}"."${freshnessView}"`, resource.replaceAll("'", "''")];
  return `(select max(last_success_at) from ${from} where resource = '${value}')`;
}

const HOUR_MS = 3_600_000;
/** Runs of the schedule in which the longest gap is searched. */
const MAX_RUNS = 1_000;
const MIN_GAP_MS = HOUR_MS / 2;
const UNSCHEDULED_MS = 12 * HOUR_MS;

/** A warning after two of the longest gaps between runs, so that one run may be missed, and an error after six. */
function maxAge({ name, profile, schedule }: SourceSettings, resource: string, from: number): object {
  const hasFilter = (profile.resources[resource]?.incremental ?? null) !== null;
  const { incremental, full } = resourceTimes({ source: name, resource, hasFilter }, schedule);
  let gap = 0;
  let at = from;
  for (let run = 0; run < MAX_RUNS; run += 1) {
    const next = Math.min(incremental?.(at) ?? Infinity, full?.(at) ?? Infinity);
    if (next === Infinity) break;
    // The first gap began before `from`.
    if (run > 0) gap = Math.max(gap, next - at);
    at = next;
  }
  const longest = gap === 0 ? UNSCHEDULED_MS : Math.max(MIN_GAP_MS, gap);
  return { warn_after: period(2 * longest), error_after: period(6 * longest) };
}

/** In whole days from one day on, so that a change of the clocks makes no difference. */
function period(ms: number): { count: number; period: 'hour' | 'day' } {
  const hours = Math.ceil(ms / HOUR_MS);
  return hours < 24 ? { count: hours, period: 'hour' } : { count: Math.round(hours / 24), period: 'day' };
}
