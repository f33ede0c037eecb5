import { Command } from 'commander';
import { openProbe, type Probe } from '../app.ts';
import { newMeter } from '../http/client.ts';
import type { Clock } from '../model/clock.ts';
import { ConfigError } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { percentText, rateText } from '../observe/figures.ts';
import type { SourceSettings } from '../settings/settings.ts';
import { checkResource } from '../sync/check/check-resource.ts';
import type { CheckFinding } from '../sync/check/finding.ts';
import { identityFinding } from '../sync/check/credential.ts';
import type { CliContext } from './command/context.ts';
import { EXIT_CODES } from './command/exit-code.ts';
import { forEachSource, type ChosenSource, withSourceOptions, type SourceOptions } from './command/sources.ts';
import { print } from './command/output.ts';
import { reportOnce } from '../observe/report-once.ts';
import type { Database } from '../warehouse/database.ts';
import { databaseAt } from '../warehouse/databases.ts';
import { whileOpen } from './command/with-app.ts';
import type { WarehouseReader } from '../warehouse/reading.ts';

/** Somebody waits for the answer: one repetition tells a hiccup from a fault, and a long wait is a finding. */
const MOST_ATTEMPTS = 2;
const LONGEST_WAIT_MS = 30_000;

interface CheckReport {
  source: string;
  /** Whether the profile's identity path knows the credential; absent if the profile names none. */
  identity?: CheckFinding;
  resources: { resource: string; findings: CheckFinding[] }[];
  /** The service's limits, as its answers stated them. */
  limits: CheckFinding;
  /** Where the copy is kept. */
  warehouse: CheckFinding;
}

const MARKS: Readonly<Record<CheckFinding['status'], string>> = { ok: 'ok  ', warn: 'warn', fail: 'FAIL' };

/** `content-sync check`: is the service what the profile says it is? Exit code 1 if it is not. */
export function checkCommand(context: CliContext): Command {
  return withSourceOptions(new Command('check'))
    .argument('[resource...]', 'only these resources of the profile')
    .option('--json', 'print one JSON object per source on stdout')
    .action(async (names: string[], options: SourceOptions & { json?: true }) => {
      await forEachSource(context, options, names, async ({ source, resources, log }) => {
        const impatient = { source: impatiently(source), log };
        const report = await checkSource(impatient, resources, context);
        print(context, options.json === true ? report : textOf(report).trimEnd());
        const findings = [report.identity ?? [], report.warehouse, report.resources.map((each) => each.findings)].flat(
          2,
        );
        return findings.some((finding) => finding.status === 'fail') ? EXIT_CODES.failed : EXIT_CODES.ok;
      });
    });
}

function impatiently(source: SourceSettings): SourceSettings {
  const { http } = source.profile;
  const attempts = Math.min(http.attempts, MOST_ATTEMPTS);
  const profile = { ...source.profile, http: { ...http, attempts } };
  return { ...source, profile, max_wait: Math.min(source.max_wait, LONGEST_WAIT_MS) };
}

async function checkSource(
  chosen: Pick<ChosenSource, 'source' | 'log'>,
  resources: readonly string[],
  context: CliContext,
): Promise<CheckReport> {
  const { reader, finding } = await findWarehouse(chosen.source, context.clock);
  try {
    const { clock, secrets } = context;
    const opened = await openProbe({ ...chosen, clock, secrets }, reader);
    const asked = await whileOpen(opened, (probe) => checkService(probe, resources, context));
    return { source: chosen.source.name, ...asked, warehouse: finding };
  } finally {
    await reader?.close();
  }
}

async function checkService(
  app: Probe,
  resources: readonly string[],
  context: CliContext,
): Promise<Omit<CheckReport, 'source' | 'warehouse'>> {
  const checks: CheckReport['resources'] = [];
  const identity = await identityOf(app, context);
  const isIdentified = identity?.status === 'ok';
  for (const resource of resources) {
    const profile = app.source.profile.resources[resource];
    if (profile === undefined) continue;
    const { listing, client } = app;
    const { clock, signal } = context;
    const request = { profile, listing, client, clock, signal, meter: newMeter() };
    checks.push({ resource, findings: await checkResource(request, app.source.profile.resources, isIdentified) });
  }
  const isAnswered = checks.some(({ findings }) => findings.some(({ status }) => status !== 'fail'));
  const limits = limitsFinding(app, isAnswered);
  return { ...(identity === null ? {} : { identity }), resources: checks, limits };
}

async function identityOf({ source, client, listing }: Probe, { signal }: CliContext): Promise<CheckFinding | null> {
  const path = source.profile.identity;
  return path === null ? null : identityFinding({ client, listing, path, signal });
}

function limitsFinding(app: Probe, isAnswered: boolean): CheckFinding {
  if (!isAnswered) return { check: 'limits', status: 'warn', detail: 'not known, because no answer could be used' };
  const { allowedPerSecond } = app.governor.figures();
  if (allowedPerSecond !== null) {
    const share = percentText(app.source.rate.share);
    const detail = `about ${rateText(allowedPerSecond)} requests/s, of which ${share} will be used`;
    return { check: 'limits', status: 'ok', detail };
  }
  return {
    check: 'limits',
    status: 'ok',
    detail: 'the answers tell no limit; the pace is learned from how the service answers',
    hint: 'if you know the limit, set rate.requests_per_second',
  };
}

function textOf(report: CheckReport): string {
  const service = { resource: 'service', findings: [report.identity ?? [], report.limits].flat() };
  const copy = { resource: 'copy', findings: [report.warehouse] };
  const once = reportOnce();
  const lines = [...report.resources, service, copy].flatMap(({ resource, findings }) =>
    findings.flatMap(({ check, status, detail, ...finding }) => {
      const { message, hint } = once(`${resource} ${check}`, { message: detail, hint: finding.hint });
      return [
        `  ${MARKS[status]}  ${resource} ${check}: ${message}`,
        ...(hint === undefined ? [] : [`        → ${hint}`]),
      ];
    }),
  );
  return [report.source, ...lines].map((line) => `${visibleText(line)}\n`).join('');
}

/**
 * Looks for the warehouse of a source without creating anything; the caller closes the reader, which is null if there is
 * no warehouse yet, or an older version wrote it. Throws `ConfigError` if the warehouse cannot be read.
 */
async function findWarehouse(
  { warehouse }: SourceSettings,
  clock: Clock,
): Promise<{ reader: WarehouseReader | null; finding: CheckFinding }> {
  const database = databaseAt(warehouse);
  const found = (status: CheckFinding['status'], detail: string, hint?: string): CheckFinding => ({
    check: 'warehouse',
    status,
    detail: `${database.shown}${detail}`,
    ...(hint === undefined ? {} : { hint }),
  });
  try {
    const reader = await database.lookForWarehouse(clock);
    if (reader === null) return { reader, finding: await missing(database, clock, found) };
    const server = await reader.server();
    const where = server === null ? '' : `, ${server}`;
    if (await reader.isWritable()) return { reader, finding: found('ok', where) };
    const hint =
      'nothing can be copied by this user or role: give it the right to write, or run content-sync as another';
    return { reader, finding: found('warn', `${where}, which may be read and not written`, hint) };
  } catch (error) {
    if (!(error instanceof ConfigError) || error.code !== 'warehouse_older') throw error;
    return { reader: null, finding: found('ok', ', of an older version: the next run brings it up to date') };
  }
}

async function missing(
  database: Database,
  clock: Clock,
  found: (status: CheckFinding['status'], detail: string, hint?: string) => CheckFinding,
): Promise<CheckFinding> {
  try {
    await database.refuseMaking(clock);
    return found('ok', ', not there yet: the first run makes it');
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return found('fail', `, not there, and cannot be made: ${error.message}`, error.hint);
  }
}
