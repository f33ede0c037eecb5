// `content-sync check`: tests config, credential, profile and warehouse against the live service. Copies nothing.
import { accessSync, constants, existsSync } from 'node:fs';
import path from 'node:path';
import type { Command } from 'commander';
import { identityFinding } from '../checks/credential.ts';
import type { CheckFinding } from '../checks/listing-scan.ts';
import { storesOf } from '../config/profile/file-fields.ts';
import type { SourceSettings } from '../config/settings.ts';
import { resourcesNotCopied } from '../database/state/catalog.ts';
import { newMeter } from '../http/client.ts';
import { messageOf } from '../model/errors.ts';
import { visibleText } from '../model/visible-text.ts';
import { formatPercent, formatRate } from '../observe/format-values.ts';
import { openProbe, type Probe } from '../server/app.ts';
import { checkResource } from '../sync/check-resource.ts';
import { type CliContext, EXIT_CODES, type Paint, painter, printReport, type TextTone } from './command/context.ts';
import { findWarehouse } from './command/find-warehouse.ts';
import { type AppSource, resourceCommand, whileOpen } from './command/sources.ts';

/** The user waits for the result, so one retry must do, and a long wait is a finding. */
const MAX_ATTEMPTS = 2;
const MAX_WAIT_MS = 30_000;

interface CheckReport {
  source: string;
  /** Whether the service recognises the credential, by the profile's identity path; absent if there is none. */
  identity?: CheckFinding;
  resources: { resource: string; findings: CheckFinding[] }[];
  /** The rate limits that the responses state. */
  limits: CheckFinding;
  /** Whether the warehouse can be used. */
  warehouse: CheckFinding;
  /** Folders in which files of records cannot be stored; absent if there are none. */
  stores?: CheckFinding[];
}

const MARKS: Readonly<Record<CheckFinding['status'], string>> = { ok: 'ok  ', warn: 'warn', fail: 'FAIL' };
const TONES: Readonly<Record<CheckFinding['status'], TextTone>> = { ok: 'good', warn: 'warning', fail: 'bad' };

/** Exit code 1 if a check fails. */
export function checkCommand(context: CliContext): Command {
  return resourceCommand('check', context, async ({ source, resources, log }) => {
    const chosen = { source: withShortTimeouts(source), log };
    const { report, sections } = await checkSource(chosen, resources, context);
    printReport(context, report, findingsText(source.name, sections, painter(context)).trimEnd());
    const findings = sections.flatMap((section) => section.findings);
    return findings.some((finding) => finding.status === 'fail') ? EXIT_CODES.failed : EXIT_CODES.ok;
  });
}

/** The findings about a resource, the service or the copy. */
export interface Section {
  /** The resource, `service` or `copy`. */
  resource: string;
  findings: CheckFinding[];
}

/** The source with few retries and no long wait, because a user waits. */
export function withShortTimeouts(source: SourceSettings): SourceSettings {
  const { http } = source.profile;
  const attempts = Math.min(http.attempts, MAX_ATTEMPTS);
  const profile = { ...source.profile, http: { ...http, attempts } };
  return { ...source, profile, max_wait: Math.min(source.max_wait, MAX_WAIT_MS) };
}

export async function checkSource(
  chosen: AppSource,
  resources: readonly string[],
  context: CliContext,
): Promise<{ report: CheckReport; sections: Section[] }> {
  const { reader, finding } = await findWarehouse(chosen.source, context.clock);
  try {
    const { clock, secrets } = context;
    const opened = await openProbe({ ...chosen, clock, secrets }, reader);
    const results = await whileOpen(opened, (probe) => checkService(probe, resources, context));
    const former = reader === null ? [] : await resourcesNotCopied(reader.own, chosen.source.resources);
    const checked = { ...results, resources: [...results.resources, ...former.map(formerResource)] };
    const report = { source: chosen.source.name, ...checked, warehouse: finding, ...storeFindings(chosen.source) };
    return { report, sections: toSections(report) };
  } finally {
    await reader?.close();
  }
}

function formerResource(resource: string): CheckReport['resources'][number] {
  const detail = 'no longer copied: its tables and views keep the rows of the last run';
  const hint = 'to copy it again, name it in the profile, and under resources in the settings if that is set';
  return { resource, findings: [{ check: 'copied', status: 'warn', detail, hint }] };
}

/** The user must be able to write to the store, or to the nearest existing folder above it. */
function storeFindings({ files }: SourceSettings): { stores?: CheckFinding[] } {
  const stores = storesOf(files).flatMap((store): CheckFinding[] => {
    if (store.kind !== 'disk') return [];
    let folder = store.folder;
    while (!existsSync(folder)) folder = path.dirname(folder);
    try {
      accessSync(`${folder}/`, constants.W_OK | constants.X_OK);
      return [];
    } catch (error) {
      const detail = `${store.folder}: this user cannot write to ${folder} (${messageOf(error).replace(/^(\w+).*/s, '$1')})`;
      return [{ check: 'files', status: 'fail', detail, hint: 'check `files.store` of the source, and its rights' }];
    }
  });
  return stores.length === 0 ? {} : { stores };
}

function toSections(report: CheckReport): Section[] {
  const { resources, identity, limits, warehouse, stores = [] } = report;
  const service = identity === undefined ? [limits] : [identity, limits];
  const copy = [warehouse, ...stores];
  return [...resources, { resource: 'service', findings: service }, { resource: 'copy', findings: copy }];
}

async function checkService(
  app: Probe,
  resources: readonly string[],
  context: CliContext,
): Promise<Omit<CheckReport, 'source' | 'warehouse'>> {
  const checks: CheckReport['resources'] = [];
  const { source, client, listing } = app;
  const path = source.profile.identity;
  const { clock, signal } = context;
  const identity = path === null ? null : await identityFinding({ client, listing, path, signal });
  const verified = identity?.status === 'ok' ? 'identified' : 'unproved';
  const credential = source.auth.type === 'none' ? 'none' : verified;
  for (const resource of resources) {
    const profile = source.profile.resources[resource];
    if (profile === undefined) continue;
    const request = { profile, listing, client, clock, signal, meter: newMeter() };
    checks.push({ resource, findings: await checkResource(request, app.source.profile.resources, credential) });
  }
  const isAnswered = checks.some(({ findings }) => findings.some(({ status }) => status !== 'fail'));
  const limits = limitsFinding(app, isAnswered);
  return { ...(identity === null ? {} : { identity }), resources: checks, limits };
}

function limitsFinding(app: Probe, isAnswered: boolean): CheckFinding {
  if (!isAnswered) return { check: 'limits', status: 'warn', detail: 'unknown, because no response could be used' };
  const { allowedPerSecond } = app.rateLimiter.metrics();
  if (allowedPerSecond !== null) {
    const share = formatPercent(app.source.rate.share);
    const detail = `about ${formatRate(allowedPerSecond)} requests/s, of which ${share} will be used`;
    return { check: 'limits', status: 'ok', detail };
  }
  return {
    check: 'limits',
    status: 'ok',
    detail: 'the responses state no limit; the rate adapts to the service',
    hint: 'if you know the limit, set rate.requests_per_second',
  };
}

/** Formats the findings, one line each, with their remedies. */
export function findingsText(source: string, sections: readonly Section[], paint: Paint = (text) => text): string {
  const lines = sections.flatMap(({ resource, findings }) =>
    findings.flatMap(({ check, status, detail, hint }) => [
      `  ${paint(MARKS[status], TONES[status])}  ${visibleText(`${resource} ${check}: ${detail}`)}`,
      ...(hint === undefined ? [] : [`        → ${visibleText(hint)}`]),
    ]),
  );
  return [visibleText(source), ...lines].map((line) => `${line}\n`).join('');
}
