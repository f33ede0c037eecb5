import { Command } from 'commander';
import type { Probe } from '../app.ts';
import { newMeter } from '../http/client.ts';
import { visibleText } from '../model/visible-text.ts';
import { percentText, rateText } from '../observe/figures.ts';
import type { SourceSettings } from '../settings/settings.ts';
import { checkResource } from '../sync/check/check-resource.ts';
import type { CheckFinding } from '../sync/check/finding.ts';
import { identityFinding } from '../sync/check/credential.ts';
import type { CliContext } from './context.ts';
import { EXIT_CODES } from './exit-code.ts';
import { forEachSource, type ChosenSource } from './open-sources.ts';
import { print } from './print.ts';
import { withSourceOptions, type SourceOptions } from './source-options.ts';
import { toldOnce } from '../observe/told-once.ts';
import { findWarehouse } from './warehouse-finding.ts';
import { withProbe } from './with-app.ts';

/** Somebody waits for the answer: one repetition tells a hiccup from a fault, and a long wait is a finding. */
const MOST_ATTEMPTS = 2;
const LONGEST_WAIT_MS = 30_000;

interface ResourceCheck {
  resource: string;
  findings: CheckFinding[];
}

interface CheckReport {
  source: string;
  /** Whether the profile's identity path knows the credential; absent where the profile names none. */
  identity?: CheckFinding;
  resources: ResourceCheck[];
  /** What the answers said of the service's limits. */
  limits: CheckFinding;
  /** Where the copy is kept. */
  warehouse: CheckFinding;
}

const MARKS: Readonly<Record<CheckFinding['status'], string>> = { ok: 'ok  ', warn: 'warn', fail: 'FAIL' };

/** `content-sync check`: is the service what the profile says it is? Exit code 1 where it is not. */
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
    const asked = await withProbe(context, chosen, reader, (probe) => checkService(probe, resources, context));
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
  const checks: ResourceCheck[] = [];
  const identity = await identityOf(app, context);
  const isIdentified = identity?.status === 'ok';
  for (const resource of resources) {
    const profile = app.source.profile.resources[resource];
    if (profile === undefined) continue;
    const { listing, client } = app;
    const { clock, signal } = context;
    const request = { profile, listing, client, clock, signal, meter: newMeter() };
    checks.push({ resource, findings: await checkResource(request, isIdentified) });
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
  const once = toldOnce();
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
